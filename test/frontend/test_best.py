"""Validation in a training: the best checkpoint, what the log says, and event files."""

import json
import sys
import types

import pytest
import torch
from stopped_training import check_same_bits, drawn_text, train_until

from sextant.cli import main
from sextant.training import loop
from sextant.training.best import BEST
from sextant.training.checkpoint import read_checkpoint
from sextant.training.config import TrainConfig
from sextant.training.log import LogError
from sextant.training.text import TextKind

pytest.importorskip("sextant._compiler")

# Drawn positions, so that an evaluation draws, too.
SMALL = dict(
    encodings=("sinusoidal",), layers=1, width=16, heads=2, length=8, batch=3, max_position=40,
    steps=9, warmup=1,
)  # fmt: skip


def log_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").open()]


def losses(folder):
    return {e["step"] + 1: e["validation"] for e in log_of(folder) if "validation" in e}


@pytest.fixture
def falling(monkeypatch):
    """Losses on held-out data by step, as told, in order."""

    def of(*values):
        left = iter(values)
        monkeypatch.setattr(TextKind, "validation_loss", lambda *arguments: next(left))

    return of


def test_validation_changes_no_bit_of_a_training(tmp_path, seed):
    text = drawn_text()
    plain = loop.train(TrainConfig(seed=seed, **SMALL), tmp_path / "a", data=text, progress=False)
    config = TrainConfig(seed=seed, validate_every=2, **SMALL)
    validated = loop.train(config, tmp_path / "b", data=text, progress=False)
    check_same_bits(plain, validated)
    found = losses(tmp_path / "b")
    assert list(found) == [2, 4, 6, 8, 9] and all(5 < loss < 6 for loss in found.values())
    assert [e["loss"] for e in log_of(tmp_path / "a")] == [e["loss"] for e in log_of(tmp_path / "b")]
    assert [e["rate"] for e in log_of(tmp_path / "b")] == [config.rate(s) for s in range(9)]
    # The last model as it is now, on the same blocks with the same positions.
    assert TextKind().validation_loss(validated, text) == found[9]
    best = read_checkpoint(tmp_path / "b" / BEST)
    assert best.step == min(found, key=found.get)
    assert not (tmp_path / "a" / BEST).exists()


def test_the_best_step_is_kept(tmp_path, falling, capsys):
    text = drawn_text()
    config = TrainConfig(validate_every=2, **SMALL)
    falling(5.0, 3.0, 4.0, 3.0, 3.5)
    kept = {}

    def keep(step):
        if step == 4:
            kept.update((n, t.clone()) for n, t in model_of(tmp_path / "run").items())

    loop.train(config, tmp_path / "run", data=text, progress=False, after_step=keep)
    best = read_checkpoint(tmp_path / "run" / BEST)
    assert best.step == 4 and json.loads(best.metadata["best"]) == [4, 3.0]
    assert all(torch.equal(t, best.tensors[n]) for n, t in kept.items())
    run = str(tmp_path / "run")
    assert main(["eval", run, "--best", "--quiet", "--multiples", "1", "--last", "4"]) == 0
    stored = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert "evaluated at step 4, of 9, where the loss" in stored["notes"][0]
    assert stored["provenance"]["step"] == 4
    # A run that begins anew has no best step yet.
    falling(*[2.0] * 5)
    with pytest.raises(RuntimeError):
        loop.train(
            config, tmp_path / "run", data=text, progress=False, resume=False, after_step=fail
        )
    assert main(["eval", run, "--best"]) == 1
    assert "holds no best.safetensors: train with --validate-every N" in capsys.readouterr().err


def model_of(folder):
    return read_checkpoint(folder / "checkpoint.safetensors").tensors


def fail(step):
    raise RuntimeError


@pytest.mark.parametrize("stop, left", [(5, [4.5, 3.5, 5.0]), (7, [5.0, 5.5])])
def test_a_stopped_training_keeps_the_same_best_step(stop, left, tmp_path, seed, falling, capsys):
    """With the best step before the stop, and behind it; a step is taken twice where a process
    was killed after its last checkpoint."""
    text, config = drawn_text(), TrainConfig(validate_every=2, seed=seed, **SMALL)
    values = [5.0, 4.0, 4.5, 3.5, 5.0] if stop == 5 else [5.0, 4.0, 3.0, 5.0, 5.5]
    falling(*values)
    straight = loop.train(config, tmp_path / "a", data=text, progress=False)
    falling(*values)
    train_until(stop, config, tmp_path / "b", data=text, save_every=5)
    falling(*left)
    resumed = loop.train(config, tmp_path / "b", data=text, progress=False)
    check_same_bits(straight, resumed)
    assert losses(tmp_path / "a") == losses(tmp_path / "b")
    ours, theirs = (read_checkpoint(tmp_path / f / BEST) for f in "ab")
    assert ours.step == theirs.step and ours.metadata["best"] == theirs.metadata["best"]
    assert all(torch.equal(t, theirs.tensors[n]) for n, t in ours.tensors.items())


def test_a_best_checkpoint_that_is_missing(tmp_path, falling, capsys):
    """A process that was killed before it was written, and a user who removed it."""
    text, config = drawn_text(), TrainConfig(validate_every=2, **SMALL)
    run = tmp_path / "run"
    falling(5.0, 4.0)
    train_until(4, config, run, data=text, save_every=100)
    (run / BEST).unlink()
    falling(4.5, 4.4, 4.3)
    loop.train(config, run, data=text, progress=False)
    assert read_checkpoint(run / BEST).step == 4 and "note" not in capsys.readouterr().err
    (run / BEST).unlink()
    falling(4.7)
    more = TrainConfig(validate_every=2, **{**SMALL, "steps": 10})
    loop.train(more, run, data=text, progress=False)
    assert "the best checkpoint, of step 4, is not here" in capsys.readouterr().err
    assert read_checkpoint(run / BEST).step == 10


def test_event_files(tmp_path, monkeypatch):
    """By PyTorch's writer, with what the log says; without the package an error says how to
    install it, and the log of before stays."""
    text, config = drawn_text(), TrainConfig(validate_every=4, **SMALL)
    run = tmp_path / "run"
    written = {}

    class Writer:
        def __init__(self, folder, purge_step):
            assert folder == str(run / "tensorboard")
            self.first = purge_step

        def add_scalar(self, name, value, step):
            assert step >= self.first
            written.setdefault(name, {})[step] = value

        def close(self):
            written["closed"] = True

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, module.__name__, module)
    train_until(6, config, run, data=text, save_every=4, tensorboard=True)
    loop.train(config, run, data=text, progress=False, tensorboard=True)
    assert written.pop("closed")
    log = log_of(run)
    assert written == {
        name: {e["step"]: e[name] for e in log if name in e}
        for name in ("loss", "validation", "rate", "ms")
    } and list(written["validation"]) == [3, 7, 8]
    monkeypatch.setitem(sys.modules, module.__name__, None)
    with pytest.raises(LogError, match="need the package tensorboard .*: pip install tensorboard"):
        loop.train(config, run, data=text, progress=False, tensorboard=True, resume=False)
    assert log_of(run) == log
