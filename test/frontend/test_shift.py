"""Training steps whose positions are shifted windows."""

import json
import math
from contextlib import nullcontext
from itertools import count

import pytest
import torch
from stopped_training import check_same_bits, drawn_text, train_until

from sextant.cli import main
from sextant.training import loop
from sextant.training.config import TrainConfig
from sextant.training.model import Model, ModelError, check_uses
from sextant.training.shift import Shift

SMALL = dict(encodings=("sinusoidal",), layers=1, width=16, heads=2, length=8, batch=3)


def test_steps_are_shifted_as_often_as_asked(seed):
    shift = Shift(TrainConfig(shift=0.3, seed=seed, **SMALL))
    starts = [shift.starts(step) for step in range(10000)]
    # 3000 expected, with a deviation of 46; a shifted step begins at 0 once in 20000.
    assert abs(sum(s != [0] for s in starts) - 3000) < 5 * 46
    assert set(map(tuple, starts)) <= {(0,), *((w,) for w in shift.windows)}
    assert len(set(shift.windows)) == 320


@pytest.mark.parametrize("windows", [0, 5])
def test_every_window_is_as_likely(windows, seed):
    """Of 13 windows, or of the 5 that were drawn; windows of a step differ."""
    config = TrainConfig(
        shift=1.0, shift_range=20, shift_windows=windows, shift_per="sample", seed=seed, **SMALL
    )
    shift = Shift(config)
    counts = torch.zeros(13)
    for step in range(4000):
        starts = shift.starts(step)
        assert len(set(starts)) == 3
        counts[starts] += 1
    found, expected = counts[counts > 0], 12000 / (windows or 13)
    assert len(found) == (windows or 13)
    # Binomial: the deviation is less than the root of what is expected.
    assert (found - expected).abs().max() < 5 * expected**0.5


def test_windows_are_tiled_over_a_batch_that_has_more_samples(seed):
    config = TrainConfig(
        shift=1.0, shift_per="sample", shift_windows=2, seed=seed, **{**SMALL, "batch": 5}
    )
    a, b, *rest = Shift(config).starts(1)
    assert a != b and rest == [a, b, a]
    positions = Shift(config).positions(1)
    assert positions.shape == (5, 8, 1) and positions.dtype == torch.int32
    assert torch.equal(positions[2, :, 0], a + torch.arange(8, dtype=torch.int32))


def test_seeds_decide():
    a, b, c = (Shift(TrainConfig(shift=0.5, seed=s, **SMALL)) for s in (1, 1, 2))
    drawn = [[shift.starts(step) for step in range(50)] for shift in (a, b, c)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_samples_are_trained_at_their_positions(seed):
    """The loss of a shifted step is the mean of those of its samples, each alone at its
    positions."""
    config = TrainConfig(shift=1.0, shift_per="sample", seed=seed, **SMALL)
    model = Model(config)
    for tensor in model.params.values():
        tensor += 0.2 * torch.rand(tensor.shape, generator=torch.Generator().manual_seed(seed))
    tokens, labels = torch.randint(0, 256, (2, 3, 8))
    parts = [
        model.program.run(
            "token_losses",
            {"tokens": tokens[i, None], "labels": labels[i, None], "positions": at, **model.params},
        )[0].mean()
        for i, at in enumerate(model.shift.positions(1).split(1))
    ]
    unshifted = model.token_losses(tokens, labels)[0].mean()
    loss = model.step(tokens, labels, 1e-3)
    # Sums of f32 in another order.
    assert loss == pytest.approx(float(torch.stack(parts).mean()), rel=1e-5)
    assert loss != pytest.approx(float(unshifted), rel=1e-4)


@pytest.mark.parametrize("per", ["batch", "sample"])
def test_a_stopped_training_ends_with_the_same_bits(per, tmp_path, seed):
    config = TrainConfig(shift=0.5, shift_per=per, steps=6, seed=seed, **SMALL)
    text = drawn_text()
    straight = loop.train(config, tmp_path / "a", data=text, progress=False)
    train_until(3, config, tmp_path / "b", data=text)
    resumed = loop.train(config, tmp_path / "b", data=text, progress=False)
    check_same_bits(straight, resumed)
    logs = [
        [json.loads(line)["starts"] for line in (tmp_path / f / "log.jsonl").open()] for f in "ab"
    ]
    assert logs[0] == logs[1] == [straight.shift.starts(step + 1) for step in range(6)]


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(shift=1.5), "shift is a probability, at least 0 and at most 1, got 1.5"),
        (dict(shift_per="step"), 'unknown shift_per "step"'),
        (dict(shift=0.1, shift_range=8), "8 positions below shift_range 8 cannot be shifted"),
        (dict(shift=0.1, max_position=64), "both choose the positions of a step"),
    ],
)
def test_settings_that_do_not_fit(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**{**SMALL, **settings})


def test_encodings_without_positions_cannot_be_shifted():
    with pytest.raises(ModelError, match="changes nothing: no encoding of cope reads positions"):
        check_uses(TrainConfig(shift=0.1, **{**SMALL, "encodings": ("cope",)}))


FEW_DIGITS = "seqpe(digits=2, max_position=90, offsets=4, windows=2, candidates=4, pivots=2)"
# A bias per position of a key, whose table ends; what is read behind it is no number.
ENDS = """
pos.encoding @ends {
  %rows = arith.constant 40 : i32
  %zero = arith.constant 0.0 : f32
  %t = pos.param "t" : tensor<?xf32> dims(%rows) init constant(%zero)
  pos.score {
  ^bb0(%s: f32):
    %k = pos.coord key
    %b = pos.read %t[%k] : tensor<?xf32>
    %y = arith.addf %s, %b : f32
    pos.yield %y : f32
  }
}
"""


@pytest.mark.parametrize(
    "encoding, settings, message",
    [
        (FEW_DIGITS, dict(shift=0.01, shift_windows=0, shift_range=500),
         r"reach 499 \(shift_range 500\): .*more digits than the option digits"),
        (FEW_DIGITS, dict(shift=0.01, shift_windows=400, shift_range=407),
         r"reach 406 \(shift_range 407\): .*more digits"),
        (FEW_DIGITS, dict(max_position=101), r"reach 100 \(max_position 101\): .*more digits"),
        ("ends", dict(shift=0.01, shift_windows=0, shift_range=41), "losses or logits are nan: a read outside"),
        (FEW_DIGITS, dict(shift=0.01, shift_windows=0, shift_range=100), ""),
        (FEW_DIGITS, dict(max_position=100), ""),
        ("ends", dict(shift=0.01, shift_windows=0, shift_range=40), ""),
    ],
)  # fmt: skip
def test_the_farthest_positions_are_tried_before_the_first_step(
    encoding, settings, message, tmp_path, monkeypatch
):
    (tmp_path / "ends.mlir").write_text(ENDS)
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    config = TrainConfig(steps=1, **{**SMALL, "encodings": (encoding,)}, **settings)
    with pytest.raises(ModelError, match=message) if message else nullcontext():
        loop.train(config, tmp_path / "run", data=drawn_text(), progress=False)


def test_the_command_line_says_what_is_shifted(tmp_path, capsys):
    flags = "--encodings rope --shift 0.1 --shift-per sample --length 16 --width 16 --heads 2"
    assert main(["train", str(tmp_path / "run"), *flags.split(), "--dry-run"]) == 0
    assert "probability 0.1 from another start per sample, one of 320, all below 20000" in (
        capsys.readouterr().out
    )


def test_the_command_line_trains_and_evaluates_shifted_seqpe(tmp_path, capsys):
    """Losses, samples and dropout are those of the encoding's defaults. The seed is one with
    a shifted step and one that is not."""

    def starts(seed):
        shift = Shift(TrainConfig(shift=0.1, seed=seed, length=32, batch=2))
        return [shift.starts(step) for step in (1, 2, 3)]

    seed = next(seed for seed in count() if 0 < starts(seed).count([0]) < 3)
    (tmp_path / "text").write_bytes(b"The quick brown fox jumps over the lazy dog. " * 100)
    run = tmp_path / "run"
    sizes = "--layers 2 --width 32 --heads 2 --length 32 --batch 2 --steps 3 --warmup 1 --quiet"
    command = ["train", str(run), "--encodings", "seqpe(form=bias)", "--shift", "0.1"]
    flags = [*sizes.split(), "--seed", str(seed), "--data", str(tmp_path / "text")]
    assert main([*command, *flags]) == 0
    assert f"evaluate with: sextant eval {run}" in capsys.readouterr().out
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [entry["starts"] for entry in log] == starts(seed)
    assert all(math.isfinite(entry["loss"]) for entry in log)
    assert main(["eval", str(run), "--multiples", "1", "2", "--last", "4", "--quiet"]) == 0
    assert "seqpe(form=bias): nats per byte" in capsys.readouterr().out
    found = json.loads((run / "evaluation.json").read_text())["all_tokens"]
    assert set(found) == {"1", "2"} and all(5 < loss < 7 for loss in found.values())
