"""Runs whose layers share the parameters of encodings (`--shared`)."""

import pytest
from safetensors.torch import load_file

from sextant.cli import main
from sextant.training.state import read_state

pytest.importorskip("sextant._compiler")

SIZES = ["--layers", "2", "--width", "16", "--heads", "2", "--length", "16", "--batch", "2"]
EVAL = ["--quiet", "--multiples", "1", "2", "--last", "4"]
# The rows of the last are made of positions and parameters alone; no loss trains it here.
ENCODINGS = [
    "--encodings", "kerple_log", "t5_bias", "seqpe(digits=3, heads=2, blocks=1, alpha=0.0, beta=0.0)"
]  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with a text and a run."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "text").write_bytes(b"The quick brown fox jumps over the lazy dog. " * 100)
    assert train(folder, "run", "--shared", *ENCODINGS) == 0
    return folder


def train(folder, name, *flags):
    command = ["train", str(folder / name), "--data", str(folder / "text"), "--steps", "3"]
    return main([*command, *SIZES, "--quiet", *flags])


def test_layers_have_one_set_of_parameters(root, tmp_path):
    """In the run, in its evaluation with tables and without, its picture, and where it goes
    on."""
    folder = str(root / "run")
    run = read_state(folder)
    owners = {n.rsplit(".", 1)[0] for n in run.checkpoint.part("param") if "attention." in n}
    wanted = {f"attention.{name}" for name in ("kerple_log", "t5_bias", "seqpe")}
    assert owners == wanted and run.config.shared
    assert main(["eval", folder, *EVAL]) == 0
    losses = (root / "run" / "evaluation.json").read_text()
    file, picture = str(tmp_path / "t.safetensors"), str(tmp_path / "a.png")
    assert main(["tables", folder, "--length", "32", "-o", file]) == 0
    assert all(name.startswith("attention.seqpe.") for name in load_file(file))
    assert main(["eval", folder, *EVAL, "--tables", file]) == 0
    assert (root / "run" / "evaluation.json").read_text() == losses
    draw = ["encodings", "kerple_log", "--plot", picture, "--run", folder, "--layer", "1"]
    assert main(draw) == 0
    assert main(["train", folder, "--quiet", "--steps", "5"]) == 0
    assert read_state(folder).config.shared


def test_a_run_begins_from_one_that_shares_as_it_does(root, capsys):
    init = ["--init", str(root / "run")]
    assert train(root, "more", "--shared", *ENCODINGS, "alibi", *init) == 0
    assert read_state(root / "more").config.shared
    assert train(root, "apart", *ENCODINGS, *init) == 1
    assert (
        "whose layers share the parameters of encodings, and here they do not share the parameters "
        "of encodings: begin with the same (--shared)" in capsys.readouterr().err
    )
