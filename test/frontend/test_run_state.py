"""What a run stores: it goes on without its flags, is evaluated anywhere, and what has
changed since its training is said."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from stopped_training import train_until

import sextant
from sextant import definitions
from sextant.cli import main
from sextant.revision import revision
from sextant.training import loop
from sextant.training.best import BEST
from sextant.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from sextant.training.config import TrainConfig
from sextant.training.data import batch_at, load_text
from sextant.training.evaluate import mean_losses
from sextant.training.interruption import Interruption
from sextant.training.lock import FolderLock
from sextant.training.model import Model
from sextant.training.state import open_run, read_state

pytest.importorskip("sextant._compiler")

CHECKPOINT = "checkpoint.safetensors"
# One model, so that it is compiled once.
SIZES = ["--layers", "1", "--width", "16", "--heads", "2", "--length", "16", "--batch", "2"]
EVAL = ["--quiet", "--multiples", "1", "2", "--last", "4"]


def near(factor):
    @sextant.encoding
    def near(score, at, slope: sextant.PerHead(init=sextant.constant_init(0.5))):
        return score - slope[at.head] * factor * abs(at.offset)

    return near.text


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run of 4 steps, its text, and the definition of an encoding."""
    root = tmp_path_factory.mktemp("trained")
    (root / "text").write_bytes(b"The quick brown fox jumps over the lazy dog. " * 100)
    (root / "own").mkdir()
    (root / "own" / "near.mlir").write_text(near(1.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEXTANT_PATH", str(root / "own"))
        command = ["train", str(root / "run"), "--data", str(root / "text"), *SIZES]
        assert main([*command, "--encodings", "near", "--steps", "4", "--quiet"]) == 0
    return root


@pytest.fixture
def root(trained, tmp_path, monkeypatch):
    """A folder with a copy of that run, the definition on the search path."""
    shutil.copytree(trained / "run", tmp_path / "run")
    monkeypatch.setenv("SEXTANT_PATH", str(trained / "own"))
    return tmp_path


@pytest.fixture
def define(tmp_path, monkeypatch):
    """Makes a text the definition; an empty one leaves none."""

    def write(text):
        (tmp_path / "edited").mkdir(exist_ok=True)
        path = tmp_path / "edited" / "near.mlir"
        path.write_text(text) if text else path.unlink()
        monkeypatch.setenv("SEXTANT_PATH", str(path.parent))

    return write


def tensors_of(folder):
    return read_checkpoint(folder / CHECKPOINT).tensors


def same(a, b):
    return set(a) == set(b) and all(torch.equal(a[n], b[n]) for n in a)


def losses_of(folder):
    return json.loads((folder / "evaluation.json").read_text())["all_tokens"]


# Evaluation --------------------------------------------------------------------------


def test_what_has_changed_is_said_and_changes_no_loss(root, trained, define, capsys):
    """The text and the definition of the training, another of either, none of either,
    and another place: the losses are the same."""
    run = str(root / "run")
    assert main(["eval", run, *EVAL]) == 0
    assert "note" not in capsys.readouterr().err
    expected = losses_of(root / "run")
    define("// the same, in other words\n" + near(1.0))
    assert main(["eval", run, *EVAL]) == 0
    assert "note" not in capsys.readouterr().err
    define(near(3.0))
    assert main(["eval", run, *EVAL]) == 0
    assert losses_of(root / "run") == expected
    assert 'the definition of "near" has changed since the training' in capsys.readouterr().err
    define("")
    os.rename(root / "run", root / "moved")
    assert main(["eval", str(root / "moved"), *EVAL]) == 0
    assert losses_of(root / "moved") == expected
    assert '"near" is not installed here' in capsys.readouterr().err
    stored = json.loads((root / "moved" / "evaluation.json").read_text())
    assert stored["provenance"]["source"] == str(trained / "text")
    assert revision() == stored["provenance"]["revision"]


def test_another_text_is_said(trained, root, tmp_path, capsys):
    path = root / "run" / CHECKPOINT
    stored = read_checkpoint(path)
    config = TrainConfig.load(stored.metadata["config"])
    for data, note in (
        (str(tmp_path / "none"), "the text is not here (cannot read "),
        (str(tmp_path / "other"), "has changed since the training: the held-out part that"),
    ):
        config.data = (data,)
        (tmp_path / "other").write_bytes(b"another text " * 100)
        metadata = {**stored.metadata, "config": config.dump()}
        write_checkpoint(path, Checkpoint(stored.tensors, metadata))
        assert main(["eval", str(root / "run"), *EVAL]) == 0
        assert note in capsys.readouterr().err


def test_pictures_are_of_the_definition_that_was_trained(root, tmp_path, monkeypatch):
    monkeypatch.delenv("SEXTANT_PATH")
    command = ["encodings", "near", "--plot", str(tmp_path / "a.png"), "--run", str(root / "run")]
    assert main(command) == 0
    assert (tmp_path / "a.png").exists()


def test_numbers_that_are_not_finite_are_no_model(root, capsys):
    path = root / "run" / CHECKPOINT
    stored = read_checkpoint(path)
    stored.tensors["param/norm.weight"][3] = torch.nan
    write_checkpoint(path, stored)
    for command in (["eval", *EVAL], ["train", "--quiet", "--steps", "8"]):
        assert main([command[0], str(root / "run"), *command[1:]]) == 1
        error = capsys.readouterr().err
        assert 'parameter "norm.weight" is not finite (1 of 16 elements)' in error
    assert not (root / "run" / "evaluation.json").exists()


def test_losses_that_are_not_finite_are_an_error(root, capsys):
    path = root / "run" / CHECKPOINT
    stored = read_checkpoint(path)
    stored.tensors["param/embedding.weight"].fill_(3e38)
    stored.tensors["param/embedding.weight"][::2] *= -1
    write_checkpoint(path, stored)
    assert main(["eval", str(root / "run"), *EVAL]) == 1
    assert "the loss at 16 tokens is " in capsys.readouterr().err


def test_validation_is_stored_as_asked(trained, tmp_path, capsys):
    """Of the text, or of another one; a run that goes on knows it."""
    (tmp_path / "other").write_bytes(b"Pack my box with five dozen liquor jugs. " * 9)
    for flags, held_out in (
        (["--validation", "1000"], (trained / "text").read_bytes()[3500:]),
        (["--validation-data", str(tmp_path / "other")], (tmp_path / "other").read_bytes()),
    ):
        run = str(tmp_path / flags[0])
        command = ["train", run, "--data", str(trained / "text"), *SIZES, "--quiet", *flags]
        assert main([*command, "--steps", "1", "--dry-run"]) == 0
        assert f"{len(held_out):,} held out" in capsys.readouterr().out
        assert main([*command, "--steps", "1"]) == main(["train", run, "--steps", "2"]) == 0
        assert bytes(read_state(run).held_out().validation.tolist()) == held_out
        assert main(["eval", run, *EVAL]) == 0
        assert "note" not in capsys.readouterr().err


def test_lengths_need_not_be_multiples(root, capsys):
    """Beside multiples, or alone; on the text of some blocks of the longest."""
    run = str(root / "run")
    flags = ["--quiet", "--last", "4"]
    assert main(["eval", run, *flags, "--lengths", "10", "24", "--multiples", "1"]) == 0
    out = capsys.readouterr().out
    assert "0.625x (10) " in out and "1.5x (24) " in out and "  1x " not in out.split("\n")[0]
    found = losses_of(root / "run")
    assert list(found) == ["1", "0.625", "1.5"]
    with open_run(run) as (model, opened):
        held_out = opened.held_out().validation
        assert mean_losses(model, held_out, 24, 4)[0] == found["1.5"]
        few = mean_losses(model, held_out[: 24 * 3 + 1], 10, 4)[0]
    assert main(["eval", run, *flags, "--lengths", "10", "24", "--blocks", "3"]) == 0
    assert losses_of(root / "run")["0.625"] == few
    # A part of the text, which all that is said of the losses says.
    assert "evaluated on the first 73 of 225 held-out bytes" in capsys.readouterr().err
    report = root / "report.html"
    assert main(["report", run, "-o", str(report)]) == 0
    assert "<th>0.625x</th>" in report.read_text()
    assert main(["eval", str(root / "run" / CHECKPOINT), *flags]) == 1
    assert f"is a file: name the folder of the run, {run}" in capsys.readouterr().err
    assert main(["eval", run, *flags, "--lengths", "1000"]) == 1
    assert "225 bytes; a block of 1000 tokens needs 1001: train with" in capsys.readouterr().err


def test_an_evaluation_that_is_older_than_the_run_is_said(root, capsys):
    """Pages show it beside the curve of what the run is now."""
    run = str(root / "run")

    def notes():
        """What pages say of the run, and the command line with them."""
        for command in ("report", "compare"):
            page = root / f"{command}.html"
            assert main([command, run, "-o", str(page)]) == 0
            error = capsys.readouterr().err
            assert ("trained since" in page.read_text()) == ("trained since" in error)
            yield error

    assert main(["eval", run, *EVAL]) == 0
    assert "note" not in capsys.readouterr().err
    assert list(notes()) == ["", ""]
    assert main(["train", run, "--quiet", "--steps", "6"]) == 0
    said = f"sextant: note: {run}: evaluated after step 4, trained since, to step 6: "
    assert all(error.startswith(said) for error in notes())
    assert main(["eval", run, *EVAL]) == 0
    assert list(notes()) == ["", ""]


# Going on ----------------------------------------------------------------------------


def test_a_run_that_begins_anew_leaves_nothing_of_the_one_before(root):
    """Wherever it ends: what goes on from there is the new run, not the old one."""
    run = root / "run"
    assert main(["eval", str(run), *EVAL]) == 0
    (run / BEST).write_bytes((run / CHECKPOINT).read_bytes())
    config = replace(read_state(run).config, lr=0.5)
    train_until(2, config, run, save_every=100, resume=False)
    begun = read_state(run)
    assert begun.step == 0 and begun.config == config
    assert sorted(os.listdir(run)) == [CHECKPOINT, "log.jsonl"]
    assert main(["train", str(run), "--quiet"]) == 0
    log = (run / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in log] == list(range(4))
    straight = loop.train(config, root / "straight", progress=False)
    assert all(torch.equal(t, straight.params[n]) for n, t in read_state(run).checkpoint.part("param").items())


def test_a_run_goes_on_without_its_flags_and_is_extended(root, trained, tmp_path, capsys, monkeypatch):
    """As a run whose every step had been asked for at once, up to the rate."""
    monkeypatch.chdir(tmp_path)
    before = tensors_of(root / "run")
    assert main(["train", str(root / "run"), "--quiet"]) == 0
    assert same(before, tensors_of(root / "run"))
    assert main(["train", str(root / "run"), "--quiet", "--steps", "7"]) == 0
    run = read_state(root / "run")
    assert run.step == run.config.steps == 7 and run.extended == [[4, 4]]
    assert run.config.encodings == ("near",) and run.config.width == 16
    assert main(["train", str(root / "run"), "--quiet", "--steps", "5"]) == 1
    assert "other settings: steps 7 (now 5)" in capsys.readouterr().err
    log = (root / "run" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in log] == list(range(7))
    # The same by hand: the rate of each step is that of the steps then asked for.
    config = TrainConfig.load(read_state(trained / "run").config.dump())
    config.warmup = run.config.warmup
    model = Model(config)
    text = load_text(config.data, 17)
    for step in range(7):
        config.steps = 4 if step < 4 else 7
        batch = batch_at(text.train, step, config.batch, config.length, config.seed)
        model.step(*batch, config.rate(step))
    assert all(torch.equal(model.params[n], t) for n, t in run.checkpoint.part("param").items())


def test_a_run_goes_on_with_the_definition_that_it_began_with(root, tmp_path, define, capsys):
    shutil.copytree(root / "run", tmp_path / "other")
    assert main(["train", str(root / "run"), "--quiet", "--steps", "6"]) == 0
    define(near(9.0))
    assert main(["train", str(tmp_path / "other"), "--quiet", "--steps", "6"]) == 0
    assert 'the definition of "near" has changed' in capsys.readouterr().err
    assert same(tensors_of(root / "run"), tensors_of(tmp_path / "other"))


def test_two_trainings_in_one_folder(root, capsys):
    with FolderLock(root / "run"):
        assert main(["train", str(root / "run"), "--quiet", "--steps", "9"]) == 1
    assert f"process {os.getpid()} on " in capsys.readouterr().err


def test_a_dry_run_trains_nothing(root, capsys):
    before = sorted(os.listdir(root / "run"))
    assert main(["train", str(root / "run"), "--dry-run", "--steps", "9"]) == 0
    out = capsys.readouterr().out
    assert "goes on after step 4" in out and "9 steps of 2 x 16 bytes, seed 0" in out
    assert "learning rate: up to 0.00036, since 9 steps end in the 50 of the warm-up to 0.002" in out
    assert main(["train", str(root / "new"), "--dry-run", "--warmup", "40"]) == 0
    out = capsys.readouterr().out
    assert "learning rate: up to 0.002 in 40 steps, 0.000205 in the last one\n" in out
    assert main(["train", str(root / "run"), "--dry-run", "--lr", "1"]) == 1
    assert "other settings: lr" in capsys.readouterr().err
    for run, said in (("new", "new begins anew\n"), ("run", "anew, in place of the run that it holds\n")):
        small = ["--layers", "1", "--width", "8", "--fresh"]
        assert main(["train", str(root / run), "--dry-run", *small]) == 0
        assert said in capsys.readouterr().out
    # Settings that nobody gave would be others than the run's.
    assert main(["train", str(root / "run"), "--quiet", "--fresh"]) == 1
    assert "--fresh takes nothing from the run in " in capsys.readouterr().err
    assert sorted(os.listdir(root / "run")) == before and not (root / "new").exists()


# Ends --------------------------------------------------------------------------------


@pytest.fixture
def terminal():
    """What a program has on a terminal, though the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["int", "term", "hup"]
)
def test_signals_save_and_end(root, trained, tmp_path, capsys, number):
    def interrupt(done):
        if done == 5:
            signal.raise_signal(number)

    config = read_state(root / "run").config
    config.steps = 8
    before = signal.getsignal(number)
    with pytest.raises(loop.Interrupted) as info:
        loop.train(config, root / "run", progress=False, after_step=interrupt)
    assert info.value.step == 6 and info.value.signal == number
    assert signal.getsignal(number) == before
    assert read_state(root / "run").step == 6
    assert main(["train", str(root / "run"), "--quiet"]) == 0
    assert read_state(root / "run").step == 8


@pytest.mark.usefixtures("terminal")
def test_a_terminal_that_is_closed():
    """It may say so twice, and what ends the session says SIGTERM: no impatience. Under nohup
    nothing is asked."""
    with Interruption() as asking:
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM):
            signal.raise_signal(number)
        assert asking.asked == signal.SIGHUP
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as asking:
            signal.raise_signal(signal.SIGHUP)
            assert not asking.asked
            signal.raise_signal(signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_terminated_process_saves(root):
    command = [sys.executable, "-m", "sextant", "train", str(root / "run"), "--quiet"]
    process = subprocess.Popen(
        [*command, "--steps", "1000000"], stderr=subprocess.PIPE, text=True
    )
    log = root / "run" / "log.jsonl"
    size, deadline = log.stat().st_size, time.monotonic() + 120
    while log.stat().st_size == size and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    _, error = process.communicate()
    step = read_state(root / "run").step
    assert process.returncode == 143 and step > 4
    assert f"interrupted after step {step}" in error
    assert sorted(os.listdir(root / "run")) == [CHECKPOINT, "log.jsonl"]


def test_an_update_that_overflows_keeps_the_checkpoint_before(root, capsys):
    """The loss before the update is finite still."""
    path = root / "run" / CHECKPOINT
    stored = read_checkpoint(path)
    for name, tensor in stored.tensors.items():
        if name.startswith("state/") and name.endswith("norm.weight:second_moment"):
            tensor.fill_(0.0)
        if name.startswith("state/") and name.endswith("norm.weight:first_moment"):
            tensor.fill_(3e38)
    write_checkpoint(path, stored)
    before = path.read_bytes()
    assert main(["train", str(root / "run"), "--quiet", "--steps", "5"]) == 1
    error = capsys.readouterr().err
    assert 'after step 5, parameter "norm.weight" is not finite' in error
    assert f"{path} keeps what it held before" in error
    assert path.read_bytes() == before


# Definitions -------------------------------------------------------------------------


def test_texts_of_definitions_hold_hosts_and_stand_alone():
    found = definitions.texts(["causal", "dape(kerple_log, hidden=4)"])
    assert list(found) == ["causal", "dape", "kerple_log"]
    with definitions.defined({"other": found["causal"]}):
        with pytest.raises(sextant.CompileError, match="does not define it"):
            sextant.describe("other")
    with definitions.defined(found):
        assert definitions.texts(["dape(kerple_log)"]) == {
            n: found[n] for n in ("dape", "kerple_log")
        }
    assert definitions.text_of("nowhere") is None


def test_every_text_is_its_own_definition():
    """What is printed reads back as itself, for all that is installed."""
    installed = {e.name: e for e in sextant.encodings()}
    with definitions.defined({n: e.text for n, e in installed.items()}):
        for name, before in installed.items():
            after = sextant.describe(name)
            assert after.file != before.file and after.text == before.text
            assert str(after) == str(before)
