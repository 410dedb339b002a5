"""The command line: lists, a small run from training to report, errors."""

import builtins
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch

import sextant
from sextant.cli import _parser, main
from sextant.training.checkpoint import read_checkpoint

pytest.importorskip("sextant._compiler")

TINY = [
    "--layers", "2", "--width", "32", "--heads", "2", "--length", "16", "--batch", "4",
    "--steps", "12", "--warmup", "2", "--save-every", "5", "--quiet",
]  # fmt: skip


ADAPTIVE = "dape(kerple_log, hidden=4)"


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"The quick brown fox jumps over the lazy dog. " * 400)
    return path


def train(folder, text_file, *more):
    """Trains a tiny model; gives the exit code."""
    return main(["train", str(folder), "--data", str(text_file), *TINY, *more])


def tensors_of(folder):
    return read_checkpoint(folder / "checkpoint.safetensors").tensors


def same(a, b):
    return set(a) == set(b) and all(torch.equal(a[n], b[n]) for n in a)


def test_a_wrong_definition_is_noted_in_a_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "broken.mlir").write_text("pos.encoding @broken { nonsense }")
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    assert main(["encodings"]) == 0
    error = capsys.readouterr().err
    assert error.startswith('sextant: note: encoding "broken" is left out: ') and error.count("\n") == 1


def test_encodings_are_listed_and_described(capsys):
    assert main(["encodings"]) == 0
    listed = capsys.readouterr().out
    assert "kerple_log" in listed and "causal" in listed
    assert main(["encodings", "kerple_log"]) == 0
    described = capsys.readouterr().out
    assert "parameter r1 [heads] f32, trained, starts as uniform(0, 2)" in described
    assert main(["encodings", "dape(kerple_log, hidden=8)"]) == 0
    out = capsys.readouterr().out
    assert "option hidden = 32" in out and "parameter r1 [heads]" in out
    assert main(["encodings", "seqpe"]) == 0
    out = capsys.readouterr().out
    inputs = [line.split()[1] for line in out.splitlines() if line.startswith("  input ")]
    assert inputs == ["pivots_at", "candidates_at", "trained_at", "beyond_at"]
    assert "  function produce(" in out and "  state embedding" in out
    assert main(["encodings", "rope(bas=3)"]) == 1
    assert "no option 'bas'" in capsys.readouterr().err
    assert main(["encodings", "kerple_lag"]) == 1
    assert "kerple_log" in capsys.readouterr().err


def test_from_training_to_report(tmp_path, text_file, capsys):
    runs = []
    for encodings in (["none"], ["kerple_log"], ["rope", "near=window(size=8)"], [ADAPTIVE]):
        folder = tmp_path / "-".join(["run", *encodings])
        assert train(folder, text_file, "--encodings", *encodings) == 0
        runs.append(str(folder))
    assert main(["eval", *runs, "--quiet", "--multiples", "1", "2", "--last", "4"]) == 0
    assert "kerple_log: nats per byte" in capsys.readouterr().out
    stored = json.loads((tmp_path / "run-kerple_log" / "evaluation.json").read_text())
    assert set(stored["all_tokens"]) == {"1", "2"}
    assert all(0 < loss < 8 for loss in stored["all_tokens"].values())
    biases = torch.tensor(stored["biases"])
    assert biases.shape == (2, 2, 32) and (biases.diff() <= 0).all()
    (shown,) = json.loads((tmp_path / f"run-{ADAPTIVE}" / "evaluation.json").read_text())["adaptive"]
    assert shown["use"] == ADAPTIVE and len(shown["text"]) == 32
    layers = shown["layers"]
    assert len(layers) == 2 and all(len(heads) == 2 for heads in layers)
    assert all([len(row) for row in head] == list(range(1, 33)) for heads in layers for head in heads)
    assert stored["adaptive"] == []
    report = tmp_path / "report.html"
    assert main(["report", *runs, "-o", str(report)]) == 0
    assert "kerple_log" in report.read_text()
    assert f"{ADAPTIVE}: {ADAPTIVE}" in report.read_text()


@pytest.mark.parametrize(
    "positions",
    [{}, {"max_position": 40}, {"max_position": 40, "positions_per": "model"}],
    ids=["index", "layer", "model"],
)
def test_rows_of_attention_are_those_of_the_model(tmp_path, text_file, positions):
    """Query and key of the first layer by hand; what is added to its scores, by the
    formula, at the positions that were drawn."""
    from sextant import probe
    from sextant.training.config import TrainConfig
    from sextant.training.model import Model

    config = TrainConfig(
        encodings=("sinusoidal", ADAPTIVE), layers=2, width=32, heads=4, kv_heads=2, length=16, **positions
    )
    model = Model(config)
    for tensor in model.params.values():
        tensor.add_(0.02 * torch.randn(tensor.shape))
    tokens = torch.randint(0, 256, (20,))
    layers = model.attention_rows(tokens)
    assert len(layers) == 2
    query, key, at = layers[0]
    assert (at is None) == (not positions)
    p = {n.removeprefix("layers.0."): t for n, t in model.params.items()}
    if not positions:
        x = p["embedding.weight"][tokens][None]
        x = sextant.map_rows(x, ["sinusoidal"])[0]
        x = torch.nn.functional.layer_norm(x, (32,), p["norm1.weight"], p["norm1.bias"])
        for name, got in (("query", query), ("key", key)):
            want = torch.nn.functional.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])
            torch.testing.assert_close(got, want.unflatten(-1, (-1, 8)).transpose(0, 1), atol=1e-5, rtol=1e-5)
    added = probe.added_scores(["causal", ADAPTIVE], 1, model.encoding_params(0), query, key, at)
    scores = query.double() @ key.double().repeat_interleave(2, 0).transpose(-1, -2) / 8**0.5
    place = torch.arange(20).double() if at is None else at[0, :, 0].double()
    w1, b1, w2, b2 = (p[f"attention.dape.{n}"].double() for n in ("w1", "b1", "w2", "b2"))
    r1, r2 = (p[f"attention.dape.kerple_log.{n}"].double()[:, None, None] for n in ("r1", "r2"))
    bias = -r1 * torch.log1p(r2 * (place[:, None] - place).abs())
    units = torch.einsum("ug,gij->uij", w1, torch.cat([scores, bias])) + b1[:, None, None]
    units = torch.nn.functional.leaky_relu(units, 0.01)
    want = bias + torch.einsum("hu,uij->hij", w2, units) + b2[:, None, None]
    visible = torch.ones(20, 20).tril().bool()
    torch.testing.assert_close(added[:, visible], want[:, visible], atol=1e-5, rtol=1e-5)


def test_loss_falls(tmp_path, text_file):
    assert train(tmp_path / "run", text_file, "--steps", "40") == 0
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [e["step"] for e in log] == list(range(40))
    assert log[-1]["loss"] < log[0]["loss"] - 0.5


def test_runs_of_one_seed_are_equal_bitwise(tmp_path, text_file):
    for name in "ab":
        assert train(tmp_path / name, text_file, "--encodings", "t5_bias") == 0
    assert train(tmp_path / "c", text_file, "--encodings", "t5_bias", "--seed", "1") == 0
    assert same(tensors_of(tmp_path / "a"), tensors_of(tmp_path / "b"))
    assert not same(tensors_of(tmp_path / "a"), tensors_of(tmp_path / "c"))


def test_an_interrupted_run_resumes_bitwise(tmp_path, text_file):
    from sextant.training import loop
    from sextant.training.config import TrainConfig

    settings = dict(
        encodings=("kerple_log",), layers=2, width=32, heads=2, length=16, batch=4,
        steps=12, warmup=2, data=(str(text_file),),
    )  # fmt: skip
    config = TrainConfig(**settings)

    def interrupt(done):
        if done == 7:
            signal.raise_signal(signal.SIGINT)

    loop.train(config, tmp_path / "whole", progress=False)
    # A signal that arrives after a step's checkpoint was decided on is the next's.
    with pytest.raises(loop.Interrupted) as info:
        loop.train(config, tmp_path / "cut", progress=False, after_step=interrupt)
    assert info.value.step == 8
    loop.train(config, tmp_path / "cut", progress=False)
    assert same(tensors_of(tmp_path / "whole"), tensors_of(tmp_path / "cut"))
    steps = [
        json.loads(line)["step"]
        for line in (tmp_path / "cut" / "log.jsonl").read_text().splitlines()
    ]
    assert steps == list(range(12))


def test_a_killed_run_resumes_bitwise(tmp_path, text_file):
    command = [sys.executable, "-m", "sextant", "train", str(tmp_path / "killed")]
    command += ["--data", str(text_file), *TINY, "--steps", "150"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    checkpoint = tmp_path / "killed" / "checkpoint.safetensors"
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline:
        assert process.poll() is None, "training ended before a checkpoint"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    step = read_checkpoint(checkpoint).step
    assert step > 0 and step % 5 == 0
    for name in ("killed", "whole"):
        assert train(tmp_path / name, text_file, "--steps", "150") == 0
    assert same(tensors_of(tmp_path / "killed"), tensors_of(tmp_path / "whole"))


def test_a_full_disk_loses_nothing(tmp_path, text_file, capsys, monkeypatch):
    """A checkpoint that cannot be written ends the run; it resumes from the one
    before as if it had never stopped."""
    folder = tmp_path / "run"
    real, writes = os.fsync, 0

    def fill_the_disk(handle):
        nonlocal writes
        writes += 1
        if writes > 2:  # the file and the folder of the first checkpoint
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fill_the_disk)
    assert train(folder, text_file) == 1
    error = capsys.readouterr().err
    assert "checkpoint.safetensors: No space left on device" in error
    assert read_checkpoint(folder / "checkpoint.safetensors").step == 5
    assert sorted(os.listdir(folder)) == ["checkpoint.safetensors", "log.jsonl"]
    monkeypatch.setattr(os, "fsync", real)
    assert train(folder, text_file) == 0 and train(tmp_path / "whole", text_file) == 0
    assert same(tensors_of(folder), tensors_of(tmp_path / "whole"))
    entries = (folder / "log.jsonl").read_text().splitlines()
    assert [json.loads(e)["step"] for e in entries] == list(range(12))


def test_unexpected_errors_are_one_line_and_debug_shows_where(capsys, monkeypatch):
    from sextant import definitions

    def fail(*arguments):
        raise KeyError("lost")

    monkeypatch.setattr(definitions, "encodings", fail)
    assert main(["encodings"]) == 1
    assert capsys.readouterr().err == (
        "sextant: error: KeyError: 'lost'; with --debug, where it comes from\n"
    )
    for arguments in (["--debug", "encodings"], ["encodings", "--debug"]):
        assert main(arguments) == 1
        error = capsys.readouterr().err
        assert error.startswith("Traceback") and 'raise KeyError("lost")' in error
    monkeypatch.setenv("SEXTANT_DEBUG", "1")
    assert main(["encodings"]) == 1
    assert capsys.readouterr().err.startswith("Traceback")


def test_pytorchs_errors_are_told_without_its_stack(capsys, monkeypatch):
    from sextant import definitions

    def fail(*arguments):
        raise builtins.RuntimeError("can't allocate memory\nException raised from alloc (a.cpp)")

    monkeypatch.setattr(definitions, "encodings", fail)
    assert main(["encodings"]) == 1
    assert capsys.readouterr().err == "sextant: error: can't allocate memory\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_an_output_that_takes_nothing(monkeypatch, capsys):
    """A full disk is an error in a line; who closes a pipe has read enough."""
    read, write = os.pipe()
    os.close(read)
    said = "sextant: error: the standard output: No space left on device\n"
    for place, error in (("/dev/full", said), (write, "")):
        with open(place, "w") as output:
            monkeypatch.setattr(sys, "stdout", output)
            assert main(["encodings"]) == 1
            monkeypatch.undo()
        assert capsys.readouterr().err == error


def test_names_of_files_need_be_no_utf8(tmp_path, text_file, capsys):
    """They are bytes; what stores or shows them has texts."""
    folder, data = tmp_path / "a run", tmp_path / os.fsdecode(b"b\xfcch")
    text_file.rename(data)
    assert train(folder, data, "--steps", "1", "--validation-data", str(data)) == 0
    assert main(["train", str(folder), "--steps", "2", "--quiet"]) == 0
    assert main(["eval", str(folder), "--multiples", "1", "--quiet"]) == 0
    assert main(["report", str(folder), "-o", str(tmp_path / "report.html")]) == 0
    assert r"b\xfcch" in (tmp_path / "report.html").read_text()
    out, error = capsys.readouterr()
    assert f"evaluate with: sextant eval '{folder}'" in out and not error
    # What reads checkpoints takes texts alone: said before the first step.
    assert train(tmp_path / os.fsdecode(b"r\xfcn"), data) == 1
    assert r"r\xfcn has a name that is no UTF-8" in capsys.readouterr().err


def test_a_pipe_is_no_text(tmp_path, text_file, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert train(tmp_path / "run", text_file, "--data", str(tmp_path / "pipe")) == 1
    assert "it is a pipe; a text is an ordinary file" in capsys.readouterr().err


def test_version_names_the_commit_and_the_compiler(capsys):
    with pytest.raises(SystemExit) as info:
        main(["--version"])
    assert info.value.code == 0
    own, compiler = capsys.readouterr().out.splitlines()
    assert own.startswith(f"sextant {sextant.__version__}")
    assert re.fullmatch(
        rf"compiler: sextant {re.escape(sextant.__version__)} \(LLVM \d+\.\d+\.\d+\)", compiler
    )


def test_version_without_a_compiler(capsys, monkeypatch):
    from sextant import backend

    def missing():
        raise ImportError("Sextant's compiler is not built for this Python")

    monkeypatch.setattr(backend, "compiler", missing)
    with pytest.raises(SystemExit) as info:
        main(["--version"])
    out, error = capsys.readouterr()
    assert info.value.code == 1 and out.startswith(f"sextant {sextant.__version__}")
    assert error == "sextant: error: Sextant's compiler is not built for this Python\n"


@pytest.mark.parametrize(
    "words, options, place",
    [
        (["train", "--encodings", "rope"], "--encodings", "folder"),
        (["train", "--enc", "rope", "--data", "book.txt"], "--encodings and --data", "folder"),
        (["eval", "--multiples", "1", "2"], "--multiples", "folders"),
    ],
)
def test_a_folder_that_a_list_swallows(tmp_path, capsys, words, options, place):
    folder = str(tmp_path / "run")
    with pytest.raises(SystemExit) as info:
        main([*words, folder])
    assert info.value.code == 2
    cure = f"write {place} before it, behind another option, or at the end behind --\n"
    error = capsys.readouterr().err
    assert f"words behind {options} are taken for that list" in error and error.endswith(cure)
    command, *lists = words
    for cured in ([folder, *lists], [*lists, "--target", "cpu", folder], [*lists, "--", folder]):
        assert vars(_parser().parse_args([command, *cured]))[place] in (folder, [folder])


@pytest.mark.parametrize("words", [["train"], ["train", "--encodings"], ["eval", "--target", "cpu"]])
def test_a_missing_folder_that_nothing_swallows(capsys, words):
    with pytest.raises(SystemExit):
        main(words)
    assert "are taken for" not in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_log_that_cannot_be_written_is_named(tmp_path, text_file, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "log.jsonl").symlink_to("/dev/full")
    assert train(folder, text_file) == 1
    error = capsys.readouterr().err
    assert "log.jsonl: No space left on device" in error and "untouched" in error


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--encodings", "rop"], "'rope'"),
        (["--encodings", "window(size=)"], "expected a value"),
        (["--data", "/nowhere/text"], "cannot read /nowhere/text: No such file"),
        (["--heads", "5"], "width 32 is not a multiple of heads 5"),
        (["--style", "gtp2"], 'did you mean "gpt2"'),
        (["--gelu", "tahn"], 'did you mean "tanh"'),
        (["--gelu", "erf", "--style", "llama"], 'gelu "erf" changes nothing'),
        (["--length", "100000"], "either part needs 100001"),
        (["--lr", "nan"], "lr must be finite and not negative, got nan"),
        (["--data", "/"], "cannot read /: Is a directory"),
        (["--target", "cpu:avx1024"], "cpu:avx2"),
        (["--seed", "1" + "0" * 23], "seed must not be negative and less than 2^31"),
        (["--steps", "1" + "0" * 400], "got a number of 401 digits"),
        (["--batch", "1000000000"], "take a smaller batch, length, width or number of layers"),
        (["--width", "2000000000"], "a model of 2 layers of width 2000000000"),
        (["--data", "/dev/zero"], "cannot read /dev/zero: it is a device; a text is an ordinary"),
        (["--encodings", "padding"], '"padding" needs the tensor "padding.visible" [batch, key]'),
        (["--given", "document.separator=5"], "none of the encodings is given tensors"),
        (["--encodings", "document", "--given", "document.by=5"], 'no setting "by"'),
        (["--encodings", "document", "--given", "document.separator=5"], "it must be a text"),
        (["--mask", "none", "--encodings", "rope"], "sees the one that it is to predict"),
        (["--mask", "rope"], '"rope" is no mask'),
        (["--encodings", "rope_2d"], '"rope_2d" reads positions of 2 axes'),
        (["--shift-range", "500"], "--shift-range changes nothing without --shift\n"),
        (["--positions-beyond", "index"], "--positions-beyond changes nothing without --max-position"),
        (["--encodings", "causal", "rope"], '"causal" is the mask already, which stands before'),
        (["--encodings", "none", "rope"], '"none" means no encoding and stands alone, got rope'),
    ],
)
def test_errors_name_the_cause(tmp_path, text_file, capsys, arguments, message):
    assert train(tmp_path / "run", text_file, *arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("sextant: error: ") and message in error


def test_settings_of_python_are_lists_of_texts(tmp_path):
    from sextant.training.config import TrainConfig

    @sextant.encoding
    def near(score, at):
        return score - abs(at.offset)

    for wrong, message in [
        ({"encodings": "rope"}, r"encodings is a list, got 'rope' alone: write \['rope'\]"),
        ({"data": tmp_path}, "data is a list, got '.*' alone"),
        ({"encodings": ["rope", near]}, r'got Encoding; write .* open\("near.mlir", "w"\).* name it "near"'),
        ({"train": [3]}, "train of a run are texts, which it stores, got int$"),
    ]:
        with pytest.raises(TypeError, match=message):
            TrainConfig(**wrong)
    assert TrainConfig(data=[tmp_path / "a", "b/"]).data == (str(tmp_path / "a"), "b")


def test_lists_may_be_given_in_parts(tmp_path, text_file, capsys):
    """The first part is not forgotten."""
    parts = ["--encodings", "rope", "--encodings", "alibi", "--data", str(text_file)]
    assert train(tmp_path / "run", text_file, *parts, "--dry-run") == 0
    out = capsys.readouterr().out
    assert out.startswith("rope+alibi: ") and f"{text_file}, {text_file}, " in out
    assert train(tmp_path / "run", text_file, "--encodings") == 0
    lengths = ["--lengths", "8", "--lengths", "12", "--quiet"]
    assert main(["eval", str(tmp_path / "run"), *lengths]) == 0
    assert "0.5x (8) " in (out := capsys.readouterr().out) and "0.75x (12) " in out


def test_a_folder_without_a_name(text_file, capsys):
    assert train("", text_file) == 1
    assert "the folder of the run has an empty name" in capsys.readouterr().err


def test_an_evaluation_that_cannot_be_stored_is_shown(tmp_path, text_file, capsys):
    """As of a run that others may only read."""
    assert train(tmp_path / "run", text_file) == 0
    (tmp_path / "run" / "evaluation.json").mkdir()
    assert main(["eval", str(tmp_path / "run"), "--multiples", "1", "--quiet"]) == 1
    out, error = capsys.readouterr()
    assert "all tokens: 1x " in out and "last 64 tokens: 1x " in out
    assert "evaluation.json: Is a directory" in error


def test_lengths_beyond_random_positions(tmp_path, text_file, capsys):
    """Are refused before anything is evaluated."""
    assert train(tmp_path / "run", text_file, "--max-position", "40") == 0
    assert main(["eval", str(tmp_path / "run"), "--lengths", "8", "41"]) == 1
    error = capsys.readouterr().err
    assert "draws positions below 40 (--max-position), of which blocks of 41 tokens" in error
    assert "--positions-beyond index" in error
    assert main(["eval", str(tmp_path / "run"), "--lengths", "40"]) == 0


def test_an_evaluation_goes_no_farther_than_it_was_asked(tmp_path, text_file, capsys):
    """What it shows of biases and of scores would need positions that the run does not have."""
    for name, more in {
        "drawn": ["--encodings", ADAPTIVE, "--max-position", "40"],
        "spanned": ["--length", "32", "--encodings", "xpos(scale_base=1)"],
    }.items():
        assert train(tmp_path / name, text_file, *more) == 0
        assert main(["eval", str(tmp_path / name), "--lengths", "8", "32", "--quiet"]) == 0
    stored = json.loads((tmp_path / "drawn" / "evaluation.json").read_text())
    assert len(stored["adaptive"][0]["text"]) == 32


def test_foreign_checkpoints_are_refused(tmp_path, text_file, capsys):
    folder = tmp_path / "run"
    assert train(folder, text_file) == 0
    assert train(folder, text_file, "--lr", "0.1") == 1
    assert "other settings: lr 0.002 (now 0.1)" in capsys.readouterr().err
    assert train(folder, text_file, "--lr", "0.1", "--fresh") == 0
    text_file.write_bytes(text_file.read_bytes()[5:])
    assert train(folder, text_file, "--lr", "0.1") == 1
    assert "another text" in capsys.readouterr().err
    path = folder / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert main(["eval", str(folder), "--quiet"]) == 1
    assert "damaged" in capsys.readouterr().err
    assert main(["eval", str(tmp_path / "none"), "--quiet"]) == 1
    assert "there is no such file" in capsys.readouterr().err
