"""`sextant eval --set`: other values of options than those of the training."""

import json
import re
import shutil
from dataclasses import replace

import pytest
import torch

import sextant
from sextant.cli import main
from sextant.errors import RunError
from sextant.training.evaluate import evaluate
from sextant.training.model import Model
from sextant.training.settings import with_settings
from sextant.training.state import read_state

pytest.importorskip("sextant._compiler")

TINY = [
    "--layers", "2", "--width", "32", "--heads", "2", "--length", "16", "--batch", "4",
    "--steps", "3", "--warmup", "1", "--quiet",
]  # fmt: skip
EVAL = ["--quiet", "--multiples", "1", "4", "--last", "4"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    text = folder / "text.txt"
    text.write_bytes(b"The quick brown fox jumps over the lazy dog. " * 400)
    uses = ["expe", "bias=t5_bias(max_distance=20)"]
    assert main(["train", str(folder / "run"), "--data", str(text), *TINY, "--encodings", *uses]) == 0
    return folder / "run"


@pytest.fixture
def run(trained, tmp_path):
    """A run of the test's own."""
    return shutil.copytree(trained, tmp_path / "run")


def stored(folder):
    return json.loads((folder / "evaluation.json").read_text())


def test_a_run_is_evaluated_with_other_values(run, capsys):
    """As a model that was built with them, of the run's parameters. Frozen ones that
    follow from options (the thresholds of buckets) are those of the new options."""
    assert main(["eval", str(run), *EVAL]) == 0
    plain = stored(run)
    capsys.readouterr()
    assert main(["eval", str(run), *EVAL, "--set", "expe.scaled=0.5", "--set", "bias.max_distance=40"]) == 0
    printed = capsys.readouterr()
    other = stored(run)
    uses = ["expe(scaled=0.5)", "bias=t5_bias(max_distance=40)"]
    assert other["config"] == {**plain["config"], "encodings": uses} and other["name"] == "+".join(uses)
    for note in ("expe.scaled=0.5, trained with 1.0", "bias.max_distance=40, trained with 20"):
        assert f"evaluated with {note}" in other["notes"] and note in printed.err
    assert uses[0] in printed.out

    saved = read_state(run)
    model = Model(replace(saved.config, encodings=tuple(uses)))
    for name, tensor in saved.checkpoint.part("param").items():
        if name.endswith("thresholds"):
            assert not torch.equal(model.params[name], tensor)
        else:
            model.params[name].copy_(tensor)
    wanted = evaluate(model, saved.held_out(), lengths=[16, 64], last=4, progress=False)
    for label, losses in zip(("all_tokens", "last_tokens"), wanted):
        assert other[label] == {str(m): loss for m, loss in losses.items()}
        assert other[label] != plain[label]


@pytest.mark.parametrize(
    "setting, message",
    [
        ("exqpe.scaled=2", 'has no encoding "exqpe"; did you mean "expe"?'),
        ("expe.scale=2", 'encoding "expe" has no option "scale"; did you mean "scaled"?'),
        ("expe.host.scaled=2", '"expe" has no host "host"; it has none'),
        ("expe.scaled=much", "scaled"),
        ("expe.channels=33", "channels are more than the width"),
        ("expe.scaled", '"expe.scaled" is no setting: write <encoding>.<option>=<value>'),
        ("scaled=2", "is no setting"),
        ("expe.scaled=0.5)", r'expected the end, got "\)"'),
        ("expe.values=learned", "expe.values=learned: other parameters: .*attention.expe.s"),
    ],
)
def test_settings_that_do_not_fit(run, capsys, setting, message):
    assert main(["eval", str(run), *EVAL, "--set", setting]) == 1
    error = capsys.readouterr().err
    assert error.startswith("sextant: error: ")
    assert re.search(message, error, re.DOTALL), error
    assert not (run / "evaluation.json").exists()


def test_hosts_are_set_through_their_encoding():
    uses = ("causal", "dape(fire(threshold=8), hidden=2)", "near=window")
    found = with_settings(uses, ["dape.fire.threshold=16", "near.size=3"], "r")
    assert found.encodings == ("causal", "dape(fire(threshold=16), hidden=2)", "near=window(size=3)")
    assert found.notes[1] == "evaluated with near.size=3, trained with 256"
    assert found.concern("layers.3.attention.dape.fire.c") and found.concern("attention.near.x")
    assert not found.concern("layers.0.query.weight") and not found.concern("attention.causal.x")
    with pytest.raises(RunError, match='has no host "fir"; did you mean "fire"'):
        with_settings(uses, ["dape.fir.threshold=16"], "r")
    with pytest.raises(sextant.CompileError, match="threshold"):
        with_settings(uses, ["dape.fire.threshold=-16"], "r")
