"""An error in the middle of a training: what was finished before it is saved, what may be half
of a step is not, and the same command goes on from there with the same bits."""

import json

import drawn_encoding
import pytest
from drawn_encoding import SAMPLER
from stopped_training import check_same_bits

import sextant
from sextant.cli import main
from sextant.training.state import open_run, read_state
from sextant.training.text import TextKind

pytest.importorskip("sextant._compiler")

# What the sampler is to do first: it fails at the sixth step as long as a file is there.
FAILS = """    if step == 6 and Path({broken!r}).exists():
        exec(Path({broken!r}).read_text())
"""
STEPS = 9


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with a text, an encoding whose sampler may fail, and a run of it that did
    not."""
    root = tmp_path_factory.mktemp("failed")
    (root / "text").write_bytes(b"The quick brown fox jumps over the lazy dog. " * 100)
    first = "    generator = "
    assert first in SAMPLER
    fails = FAILS.format(broken=str(root / "broken"))
    sampler = "from pathlib import Path\n" + SAMPLER.replace(first, fails + first)
    drawn_encoding.write(root / "own", sampler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEXTANT_PATH", str(root / "own"))
        assert train(root, root / "straight") == 0
    return root


@pytest.fixture(autouse=True)
def own_definition(root, monkeypatch):
    monkeypatch.setenv("SEXTANT_PATH", str(root / "own"))


def train(root, run, *, save_every=100):
    return main(
        ["train", str(run), "--data", str(root / "text"), "--encodings", "alibi", "drawn"]
        + "--layers 1 --width 16 --heads 2 --length 16 --batch 2 --warmup 2 --quiet".split()
        + ["--steps", str(STEPS), "--validate-every", "4", "--save-every", str(save_every)]
    )


def check_goes_on(root, run):
    """The run ends as the one that did not fail, with a line of the log for each step."""
    assert train(root, run) == 0
    with open_run(root / "straight") as (straight, _), open_run(run) as (resumed, _):
        check_same_bits(straight, resumed)
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log] == list(range(STEPS))


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("raise ValueError('none left')", 'cannot draw for "drawn": none left'),
        ("[][0]", 'fails for "drawn": IndexError: list index out of range'),
    ],
    ids=["says", "mistake"],
)
def test_a_sampler_that_fails_loses_no_step(root, tmp_path, capsys, failure, said):
    run, broken = tmp_path / "run", root / "broken"
    broken.write_text(failure)
    try:
        assert train(root, run) == 1
    finally:
        broken.unlink()
    error = capsys.readouterr().err
    assert f"error: {root / 'own' / 'drawn' / 'sampler.py'}: sample {said}" in error
    path = run / "checkpoint.safetensors"
    assert f"note: {path} holds step 5; the same command goes on from there" in error
    assert read_state(run).step == 5
    check_goes_on(root, run)


def test_a_validation_that_fails_loses_no_step(root, tmp_path, capsys, monkeypatch):
    """The fourth step is finished when its loss on held-out data is taken."""

    def fails(*arguments):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(TextKind, "validation_loss", fails)
        assert train(root, tmp_path / "run") == 1
    assert "out of memory" in capsys.readouterr().err
    assert read_state(tmp_path / "run").step == 4
    check_goes_on(root, tmp_path / "run")


def test_what_may_be_half_of_a_step_is_not_saved(root, tmp_path, capsys, monkeypatch):
    """An error of a step's program, which has changed parameters already."""
    calls = []
    of_program = sextant.Program.run

    def fails(self, function, inputs):
        results = of_program(self, function, inputs)
        calls.extend([function] if function == "train_step" else [])
        if len(calls) == 6:
            raise sextant.errors.RuntimeError("the device is gone")
        return results

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(sextant.Program, "run", fails)
        assert train(root, run, save_every=3) == 1
    error = capsys.readouterr().err
    assert "the device is gone" in error and "holds step" not in error
    assert read_state(run).step == 4  # the best on held-out data
    check_goes_on(root, run)
