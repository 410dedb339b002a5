"""The engine of reproductions: a made-up paper, trained, stopped, continued, reported."""

import errno
import os
import re
import signal
from dataclasses import replace

import pytest

pytest.importorskip("sextant._compiler")
torch = pytest.importorskip("torch")

from sextant import reproduce
from sextant.cli import main
from sextant.report import read_run
from sextant.reproduce import engine
from sextant.reproduce.adapted import adapted, adapted_biases
from sextant.reproduce.claims import Ordering, below
from sextant.reproduce.engine import Reproduction, Stopped
from sextant.reproduce.gram import gram, stripes
from sextant.reproduce.listing import ReproduceError, file_of
from sextant.reproduce.paper import (
    Drawing,
    Method,
    Paper,
    Published,
    Variation,
)
from sextant.reproduce.progress import Progress
from sextant.reproduce.scale import LAST_TOKENS, TextScale
from sextant.reproduce.spans import FILE, covered, read_spans, total
from sextant.training import tensor_files
from sextant.training.interruption import AskedToEnd
from sextant.training.state import open_run, read_state

SIZES = dict(layers=1, width=16, heads=2, length=8, batch=2, steps=3, warmup=1)
SCALE = TextScale("tiny", SIZES, points=(1, 2), last=4, blocks=3)
PAPER = Paper(
    name="mine",
    title="A paper | of mine",
    source="nobody 2031",
    about="all of it",
    settings={"weight_decay": 0.1},
    methods=(
        Method("none", "NoPE"),
        Method("host", "DAPE <1>", ("dape(alibi, hidden={length})",), cost=2.0),
        Method("tuned", "tuned", (), {"train": ("norm",)}, begins="none"),
    ),
    variations=(Variation("steep", "steeper", "host", ("dape.alibi.scaled=true",)),),
    tables=(Published("Table 1", "perplexity", ("8", "16"), {"none": (7.25,), "steep": (5, 6)}),),
    orderings=(
        Ordering("first", "DAPE is below NoPE.", below("host", "none", 1, 2)),
        Ordering("second", "Tuning helps.", below("tuned", "none", 2), protocol=LAST_TOKENS),
    ),
    drawings=(Drawing("seven", "Figure 7", "Of one query.", "host", adapted_biases, of_query=True),),
)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(b"The quick brown fox jumps over the lazy dog. " * 60)
    return (str(path),)


def planned(folder, text, paper=PAPER, **settings):
    return Reproduction.plan(paper, SCALE, folder, data={"data": text}, **settings)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, text):
    """A reproduction that was never stopped."""
    found = planned(tmp_path_factory.mktemp("finished"), text)
    found.run(progress=False)
    return found


def contents(found):
    """The bits of all runs: tensors, and losses of all evaluations."""
    tensors, losses = {}, {}
    for run in found.runs:
        stored = read_state(run.folder).checkpoint.tensors
        tensors |= {f"{run.folder.name}/{name}": t for name, t in stored.items()}
        for file in run.evaluations:
            result = read_run(run.folder, file)
            losses[f"{run.folder.name}/{file}"] = result.all_tokens, result.last_tokens
    return tensors, losses


def stop_at(monkeypatch, method, step):
    """A signal in the run of that method, during a step."""
    trained = Progress.trained

    def then(self, run, done):
        trained(self, run, done)
        if run.method.name == method and done == step:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Progress, "trained", then)


def test_runs_that_were_stopped_end_with_the_same_bits(tmp_path, text, finished, monkeypatch):
    for method in ("none", "host", "tuned"):
        with monkeypatch.context() as patch:
            stop_at(patch, method, 1)
            with pytest.raises(Stopped, match="seed 0: stopped after step .*--resume") as stopped:
                planned(tmp_path, text).run(resume=method != "none", progress=False)
            assert stopped.value.signal == signal.SIGTERM
    again = planned(tmp_path, text)
    assert [state.steps for _, state in again.states()] == [3, 3, 2]
    again.run(resume=True, progress=False)
    # Each was stopped once.
    assert [len(read_spans(run.folder)) for run in again.runs] == [2, 2, 2]
    tensors, losses = contents(again)
    expected = contents(finished)
    assert losses == expected[1]
    assert set(tensors) == set(expected[0])
    assert all(torch.equal(t, expected[0][name]) for name, t in tensors.items())


def test_runs_side_by_side_have_the_same_bits(tmp_path, text, finished, capfd):
    """Also when all processes are stopped at once, and though one run begins with another's
    parameters."""
    found = planned(tmp_path, text)
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, "host", 1)
        with pytest.raises(Stopped, match="what is finished stays: go on with --resume"):
            found.run(progress=False, jobs=2)
    again = planned(tmp_path, text)
    assert any(state.missing for _, state in again.states())
    again.run(resume=True, progress=True, jobs=3)
    assert "3/3 done" in capfd.readouterr().err
    tensors, losses = contents(again)
    expected = contents(finished)
    assert losses == expected[1] and set(tensors) == set(expected[0])
    assert all(torch.equal(t, expected[0][name]) for name, t in tensors.items())


def test_a_signal_between_two_runs_says_how_to_go_on(tmp_path, text, monkeypatch):
    """Nobody is at work: the run is named with which it goes on."""

    def asked(tasks, jobs, threads, heard):
        raise AskedToEnd(signal.SIGTERM)

    monkeypatch.setattr(engine.side_by_side, "run", asked)
    with pytest.raises(Stopped, match="seed 0: stopped; .*: go on with --resume") as stopped:
        planned(tmp_path, text).run(progress=False)
    assert stopped.value.signal == signal.SIGTERM


def test_an_evaluation_that_is_interrupted_is_made_again(tmp_path, text, monkeypatch):
    """The training that it is of stays, and the line of progress begins where the rest does."""

    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine, "evaluate_run", interrupted)
        with pytest.raises(Stopped, match="NoPE, seed 0: stopped; what is finished stays: go on with"):
            planned(tmp_path, text, only=("none",)).run(progress=False)
    again = planned(tmp_path, text, only=("none",))
    ((run, state),) = again.states()
    assert state.steps == 3 and state.missing == tuple(run.evaluations)
    shown = []
    with monkeypatch.context() as patch:
        patch.setattr(Progress, "__exit__", lambda self, *details: shown.append(self.bar))
        patch.setattr(Progress, "__enter__", lambda self: shown.append(self.bar.n) or self)
        again.run(resume=True, progress=True)
    begun, bar = shown
    assert 0 < begun < bar.total == bar.n
    assert not again.states()[0][1].missing


def test_what_is_finished_is_left_alone(finished, text, monkeypatch):
    before = {p: p.stat().st_mtime_ns for p in finished.folder.rglob("*") if p.is_file()}
    with pytest.raises(ReproduceError, match="holds runs, NoPE, seed 0 among them.*--resume"):
        finished.run(progress=False)
    finished.run(resume=True, progress=False)
    assert before == {p: p.stat().st_mtime_ns for p in finished.folder.rglob("*") if p.is_file()}
    # A damaged evaluation is made again, of the run that is there.
    (run,) = [run for run in finished.runs if run.variations]
    file = run.folder / file_of(run.variations[0])
    whole = file.read_text()
    file.write_text(whole[:-20])
    assert [state.missing for _, state in finished.states()] == [(), (file.name,), ()]
    finished.run(resume=True, progress=False)
    assert file.read_text() == whole


def test_a_changed_setting_is_named(finished, text, tmp_path):
    folder = finished.folder.parent.parent
    before = sorted(finished.folder.rglob("*"))
    for paper, said in (
        (replace(PAPER, settings={"weight_decay": 0.2}), r"weight_decay 0.1 \(now 0.2\)"),
        (replace(PAPER, settings={"steps": 9}), r"steps 3 \(now 9\)"),
    ):
        with pytest.raises(ReproduceError, match=f"NoPE, seed 0: .* other settings: .*{said}"):
            planned(folder, text, paper).run(resume=True, progress=False)
    other = tmp_path / "other.txt"
    other.write_bytes(b"another text altogether; " * 100)
    with pytest.raises(ReproduceError, match="NoPE, seed 0: .* another text .* name its data, with --data"):
        planned(folder, (str(other),)).run(resume=True, progress=False)
    assert sorted(finished.folder.rglob("*")) == before


def test_a_folder_can_be_moved(tmp_path, text, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, "tuned", 1)
        with pytest.raises(Stopped):
            planned(tmp_path / "here", text, only=("tuned",)).run(progress=False)
    (tmp_path / "here").rename(tmp_path / "there")
    found = planned(tmp_path / "there", text, only=("tuned",))
    assert [run.method.name for run in found.runs] == ["none", "tuned"]
    found.run(resume=True, progress=False)
    assert all(not state.missing for _, state in found.states())


def test_a_failed_run_is_named_and_nothing_is_lost(tmp_path, text, monkeypatch):
    wild = replace(PAPER.methods[2], begins="", settings={"lr": 1e30, "clip": 0.0})
    paper = replace(PAPER, methods=(*PAPER.methods[:2], wild))
    with pytest.raises(ReproduceError, match=r"tuned, seed 0 \(.*tuned.seed0\): .*; what is"):
        planned(tmp_path, text, paper).run(progress=False)
    assert [state.steps for _, state in planned(tmp_path, text).states()][:2] == [3, 3]

    def full(path, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    found = planned(tmp_path / "full", text)
    with monkeypatch.context() as patch:
        patch.setattr(tensor_files, "replace_file", full)
        with pytest.raises(ReproduceError, match="NoPE, seed 0 .*No space left on device"):
            found.run(progress=False, jobs=1)
    found.run(resume=True, progress=False)
    assert all(not state.missing for _, state in found.states())


def test_an_error_of_pytorch_says_which_run_it_is_of(tmp_path, text, monkeypatch):
    def fail(*arguments, **settings):
        raise RuntimeError("can't allocate memory\nException raised from alloc (a.cpp)")

    monkeypatch.setattr(engine, "train", fail)
    with pytest.raises(ReproduceError, match="NoPE, seed 0 .*: can't allocate memory; what is"):
        planned(tmp_path, text).run(progress=False, jobs=1)


def test_a_full_disk_is_named_wherever_it_is_met(tmp_path, text, capsys, monkeypatch):
    """Log, evaluation, and what a reproduction writes of them, each on a disk that is full for
    that file: the command fails and names it, and goes on where it was."""
    monkeypatch.setitem(reproduce.PAPERS, "dape", replace(PAPER, scales={"tiny": SCALE}))
    command = ["reproduce", "dape", str(tmp_path), "--scale", "tiny", "--data", *text, "--quiet"]
    command += ["--only", "none", "--resume"]
    folder = tmp_path / "mine" / "tiny"
    run = folder / "runs" / "none.seed0"
    run.mkdir(parents=True)
    checkpoint = run / "checkpoint.safetensors"
    trained = None
    for file, named in (
        (run / "log.jsonl", "NoPE, seed 0 .*"),
        (run / "evaluation.json", "NoPE, seed 0 .*"),
        (folder / "results.json", ""),
        (folder / "table.md", ""),
        (folder / "report.html", ""),
    ):
        file.symlink_to("/dev/full")
        assert main(command) == 1
        said = capsys.readouterr().err
        assert re.search(f"error: {named}cannot write {file}: No space left on device", said), said
        assert file.is_symlink() and not list(folder.rglob("*.unfinished"))
        file.unlink()
        # What the log is of is not trained; all else finds the training as it was.
        assert checkpoint.exists() == (file.name != "log.jsonl")
        written = checkpoint.exists() and checkpoint.stat().st_mtime_ns
        assert trained in (None, written)
        trained = written or None
    assert main(command) == 0
    assert checkpoint.stat().st_mtime_ns == trained
    assert all((folder / name).stat().st_size for name in ("results.json", "table.md", "report.html"))


def test_what_is_wrong_is_said_before_anything_is_trained(tmp_path, text):
    wrong = replace(PAPER.methods[2], encodings=("rope(bases=3)",))
    with pytest.raises(ReproduceError, match="tuned: .*bases"):
        planned(tmp_path, text, replace(PAPER, methods=(*PAPER.methods[:2], wrong)))
    wrong = replace(PAPER.methods[2], settings={"step": 3})
    with pytest.raises(ReproduceError, match='tuned: unknown setting "step"'):
        planned(tmp_path, text, replace(PAPER, methods=(*PAPER.methods[:2], wrong)))
    with pytest.raises(ReproduceError, match='mine has no method "nope"; did you mean "none"'):
        planned(tmp_path, text, only=("nope",))
    assert not list(tmp_path.iterdir())


def test_pages_and_tables_say_what_the_runs_say(finished):
    outcome = reproduce.collect(finished, {"second": "too <few> steps", "seven": "a <bend>"})
    page, table, _ = reproduce.write_reports(outcome)
    page, table = page.read_text(), table.read_text()
    host = outcome.results["host"][0]
    steep = outcome.results["steep"][0]
    assert host.all_tokens != steep.all_tokens and steep.name.startswith("dape(alibi(scaled=true")
    for losses in (host.all_tokens, host.last_tokens, steep.all_tokens):
        for loss in losses.values():
            assert f"{loss:.3f}" in page and f"{loss:.3f}" in table
    left = f"| steeper | {steep.all_tokens[1]:.3f} | {steep.all_tokens[2]:.3f} | 5 | 6 |"
    assert left in table.splitlines() and "| 7.25 |  |" in table
    marks = [verdict.mark for verdict in outcome.verdicts.values()]
    for mark in marks:
        assert f"| {mark} |" in table and f">{mark}</td>" in page
    assert all(mark.endswith("held (one seed)") for mark in marks)
    assert "too &lt;few&gt; steps" in page and "| too <few> steps |" in table
    assert "<p>Of one query.</p><p>a &lt;bend&gt;</p>" in page.replace("\n", "")
    assert table.endswith("\n## Figure 7\n\nOf one query.\n\na <bend>\n")
    assert "# A paper | of mine" in table and "A paper | of mine</h1>" in page
    assert "DAPE &lt;1&gt;" in page and "decides nothing beyond its mark" in page
    assert page.count("<svg") == 5 and "Figure 7" in page
    assert "<script" not in page and not re.search(r'(src|href)="?https?:', page)


def test_another_query_is_drawn(finished):
    first, second, third = (
        reproduce.page.render(reproduce.collect(finished, {}, query)) for query in (None, 31, 20)
    )
    # Four training lengths by default.
    assert first == second != third
    with pytest.raises(ReproduceError, match="query 99 is not of the held-out text .* 49 bytes"):
        reproduce.page.render(reproduce.collect(finished, {}, 99))


def test_a_query_is_checked_before_anything_is_trained(tmp_path, text, capsys, monkeypatch):
    found = planned(tmp_path, text)
    found.check_query(48)
    for query in (-1, 49):
        with pytest.raises(ReproduceError, match=f"--query {query} is not of the .*, which has 49 bytes"):
            found.check_query(query)
    with pytest.raises(ReproduceError, match="--query says nothing of mine, which has no figure"):
        planned(tmp_path, text, replace(PAPER, drawings=())).check_query(3)
    monkeypatch.setitem(reproduce.PAPERS, "dape", replace(PAPER, scales={"tiny": SCALE}))
    command = ["reproduce", "dape", str(tmp_path), "--scale", "tiny", "--data", *text, "--query", "49"]
    for more in ([], ["--dry-run"]):
        assert main([*command, *more]) == 1
        assert "--query 49 is not of the held-out text" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_several_seeds_and_runs_that_are_missing(finished, text):
    folder = finished.folder.parent.parent
    found = planned(folder, text, seeds=2)
    outcome = reproduce.collect(found, {})
    assert [run.name for run in outcome.missing] == [
        "NoPE, seed 1", "DAPE <1>, seed 1", "tuned, seed 1"
    ]  # fmt: skip
    found = planned(folder, text, seeds=2, only=("tuned",))
    found.run(resume=True, progress=False)
    outcome = reproduce.collect(found, {})
    none, tuned = outcome.results["none"], outcome.results["tuned"]
    assert [run.config["seed"] for run in none] == [0, 1]
    assert none[0].all_tokens != none[1].all_tokens
    # A run begins with that of its own seed.
    for run in tuned:
        assert run.config["init"].endswith(f"none.seed{run.config['seed']}")
    first, second = outcome.verdicts.values()
    assert first is None and second.seeds == 2
    middle = (none[0].all_tokens[1] + none[1].all_tokens[1]) / 2
    from sextant.reproduce import markdown

    assert f"| NoPE | {middle:.3f} \u00b1 " in markdown.render(outcome)
    assert "| DAPE is below NoPE. | not run |" in markdown.render(outcome)


def test_the_command(tmp_path, text, capsys, monkeypatch):
    monkeypatch.setitem(reproduce.PAPERS, "dape", replace(PAPER, scales={"tiny": SCALE}))
    command = ["reproduce", "dape", str(tmp_path), "--scale", "tiny", "--data", *text, "--quiet"]
    command += ["--only", "none"]
    assert main([*command, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "none: NoPE, seed 0, none, 3 steps of 2 x 8 bytes; 0 done, left: " in printed
    assert "at the present speed" in printed and not list(tmp_path.iterdir())
    assert main([*command, "--report"]) == 1
    assert "holds no finished run to report on" in capsys.readouterr().err
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "first: not run: DAPE is below NoPE." in printed and "table.md" in printed
    assert main(command) == 1
    assert "go on with --resume" in capsys.readouterr().err
    (tmp_path / "mine" / "tiny" / "remarks.txt").write_text("first: because\n")
    assert main([*command, "--report"]) == 0
    assert "| because |" in (tmp_path / "mine" / "tiny" / "table.md").read_text()
    assert main([*command, "--resume", "--remarks", str(tmp_path / "gone.txt")]) == 1
    assert "cannot read" in capsys.readouterr().err
    assert main([*command, "--seeds", "0"]) == 1
    assert "--seeds must be at least 1" in capsys.readouterr().err


def test_wall_time_is_that_of_the_union_of_spans(tmp_path):
    spans = [(5.0, 7.0), (0.0, 2.0), (1.0, 4.0), (1.5, 2.0)]
    assert total(spans) == pytest.approx(7.5) and covered(spans) == pytest.approx(6.0)
    assert covered([]) == total([]) == 0 and read_spans(tmp_path) == []
    (tmp_path / FILE).write_text("[1.5, 2.25]\n[3.0, 4.0]\n[5.")
    assert read_spans(tmp_path) == [(1.5, 2.25), (3.0, 4.0)]


def test_curves_of_a_query_are_scores_host_and_network(finished):
    """Of a host that is a line over the distance, and as attention has them."""
    (run,) = [run for run in finished.runs if run.method.name == "host"]
    with open_run(run.folder) as (model, stored):
        tokens = stored.held_out().validation[:12]
        found = adapted(model, tokens, 0, 9)
        query, key, _ = model.attention_rows(tokens)[0]
        params = {n: t.double() for n, t in model.encoding_params(0).items()}
    distance = torch.arange(9, -1, -1, dtype=torch.float64)
    # Logarithms of probabilities in float64, of keys as far as 10.
    near = dict(rtol=0.0, atol=1e-6)
    scores = (query[:, 9:10].double() @ key[:, :10].double().transpose(-1, -2))[:, 0] / 8**0.5
    torch.testing.assert_close(found.scores, scores, **near)
    torch.testing.assert_close(found.host, -params["dape.alibi.slopes"][:, None] * distance, **near)
    seen = torch.cat([found.scores, found.host])
    hidden = params["dape.w1"] @ seen + params["dape.b1"][:, None]
    hidden = torch.nn.functional.leaky_relu(hidden, 0.01)
    added = params["dape.w2"] @ hidden + params["dape.b2"][:, None]
    torch.testing.assert_close(found.added, added, **near)


def test_gram_matrices_are_products_of_rows(generator):
    query, key = (torch.randn(1, 2, 5, 3, generator=generator) for _ in range(2))
    found = gram({"eq": query, "ek": key})
    expected = torch.einsum("hid,hjd->hij", query[0].double(), key[0].double())
    torch.testing.assert_close(found, expected)


def test_stripes_are_waves_of_the_distance():
    """Their height, whatever else changes evenly, and however alike a position is to itself."""
    at = torch.arange(256, dtype=torch.float64)
    apart = at[:, None] - at
    wave = torch.cos(2 * torch.pi / 100 * apart)
    assert stripes(wave, 100) == pytest.approx(2**0.5, abs=0.05)
    assert stripes(-wave, 100) == pytest.approx(-(2**0.5), abs=0.05)
    even = 3 * apart + 0.02 * apart**2 - 5 * at
    assert stripes(even, 100) == pytest.approx(0, abs=1e-9)
    mixed = even / even.std() + wave / wave.std() + 50 * torch.eye(256)
    assert stripes(mixed, 100) * mixed.std() == pytest.approx(2**0.5, abs=0.05)
    # Waves of 10 are none of 100; they are their own, and of 20 there are none.
    short = torch.cos(2 * torch.pi / 10 * apart)
    assert stripes(short, 10) == pytest.approx(2**0.5, abs=0.05)
    assert abs(stripes(short, 100)) < 0.02 and abs(stripes(wave, 10)) < 0.02
    with pytest.raises(ValueError, match="stripes of 100 take 200 positions, got 199"):
        stripes(wave[:199, :199], 100)
