"""Results that one reproduction writes and another takes in, so that seeds can be trained
in several places."""

import json
import signal
from dataclasses import replace

import pytest

pytest.importorskip("sextant._compiler")
pytest.importorskip("torch")

from sextant import reproduce
from sextant.cli import main
from sextant.report import read_run
from sextant.reproduce import engine, markdown
from sextant.reproduce.claims import Ordering, below
from sextant.reproduce.engine import Reproduction
from sextant.reproduce.listing import ReproduceError
from sextant.reproduce.paper import Method, Paper, Variation
from sextant.reproduce.results import RESULTS
from sextant.reproduce.scale import TextScale
from sextant.reproduce.spans import SPANS, covered, total
from sextant.training import loop
from sextant.training.interruption import Interrupted

SIZES = dict(layers=1, width=16, heads=2, length=8, batch=2, steps=3, warmup=1)
SCALE = TextScale("tiny", SIZES, points=(1, 2), last=4, blocks=3)
PAPER = Paper(
    name="mine",
    title="A paper",
    source="nobody 2031",
    about="all of it",
    methods=(
        Method("none", "NoPE"),
        Method("alibi", "ALiBi", ("alibi",)),
        Method("tuned", "tuned", (), {"train": ("norm",)}, begins="none"),
    ),
    tables=(),
    variations=(Variation("steep", "steeper", "alibi", ("alibi.scaled=true",)),),
    orderings=(Ordering("first", "ALiBi is below NoPE.", below("alibi", "none", 1, 2)),),
    scales={"tiny": SCALE},
)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(b"The quick brown fox jumps over the lazy dog. " * 60)
    return (str(path),)


def planned(folder, text, paper=PAPER, scale=SCALE, **settings):
    return Reproduction.plan(paper, scale, folder, data={"data": text}, **settings)


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory, text):
    """Trained in one place."""
    found = planned(tmp_path_factory.mktemp("whole"), text, seeds=2)
    found.run(progress=False)
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory, text):
    """Results of the first seed alone."""
    found = planned(tmp_path_factory.mktemp("first"), text)
    found.run(progress=False)
    return reproduce.write_reports(reproduce.collect(found, {}))[2]


def numbers(outcome):
    return {
        name: [(run.config["seed"], run.all_tokens, run.last_tokens) for run in runs]
        for name, runs in outcome.results.items()
    }


def test_seeds_of_two_places_make_one_table(tmp_path, text, two_seeds, file, monkeypatch):
    """Only what the file lacks is trained, and the tables are those of one place."""
    trained = []
    train = engine.train

    def counted(config, *arguments, **settings):
        trained.append((config.name, config.seed))
        return train(config, *arguments, **settings)

    monkeypatch.setattr(engine, "train", counted)
    found = planned(tmp_path, text, seeds=2, results=[file])
    assert [bool(state.missing) for _, state in found.states()] == [False, True] * 3
    found.run(progress=False)
    assert sorted(trained) == [("alibi", 1), ("none", 1), ("none", 1)]
    outcome, whole = (reproduce.collect(each, {}) for each in (found, two_seeds))
    assert numbers(outcome) == numbers(whole)
    (verdict,), (expected,) = (list(each.verdicts.values()) for each in (outcome, whole))
    assert (verdict.mark, verdict.margin) == (expected.mark, expected.margin)
    # What was taken is written again, so that the next place needs one file.
    _, table, both = reproduce.write_reports(outcome)
    third = planned(tmp_path / "third", text, seeds=2, results=[both])
    assert not any(state.missing for _, state in third.states())
    again = reproduce.collect(third, {})
    assert numbers(again) == numbers(whole)
    assert table.read_text().count("\u00b1") > 6 and "<svg" in reproduce.page.render(again)
    # Spans of both places; all runs of the third are taken.
    assert [again.spans(name) for name in again.trained] == [
        outcome.spans(name) for name in outcome.trained
    ]
    taken = json.loads(both.read_text())["runs"]
    assert all(run["evaluations"]["evaluation.json"]["provenance"]["spans"] for run in taken)
    spans = [span for name in again.trained for span in again.spans(name)]
    said = f"with compilation and evaluations {total(spans):.0f} s, side by side {covered(spans):.0f} s"
    assert said in table.read_text() and total(spans) > sum(map(again.seconds, again.trained))
    assert f"| {again.seconds('none'):.0f} | {total(again.spans('none')):.0f} |" in table.read_text()
    assert again.seconds("none") == pytest.approx(outcome.seconds("none"), abs=0.02)


def test_results_that_are_older_than_spans(tmp_path, text, file):
    """They say nothing of wall time; beside others, of how many runs it is known."""
    stored = json.loads(file.read_text())

    def table(old):
        for run in stored["runs"][:old]:
            run["evaluations"]["evaluation.json"]["provenance"].pop(SPANS, None)
        path = tmp_path / "old.json"
        path.write_text(json.dumps(stored))
        return markdown.render(reproduce.collect(planned(tmp_path, text, results=[path]), {}))

    found = table(1)
    assert " s of 2 of 3 runs, side by side " in found and "| wall s |" in found
    # The first run has none, and is not one of 0 s.
    methods = found[found.index("| wall s |") :].splitlines()[2:]
    walls = [row.split(" | ")[6].strip() for row in methods[:3]]
    assert walls[0] == "" and all(wall.isdecimal() for wall in walls[1:]), walls
    assert "wall" not in table(3)


def test_losses_of_the_training_and_its_time_are_kept(two_seeds, file):
    run = json.loads(file.read_text())["runs"][0]
    assert (run["method"], run["seed"]) == ("none", 0)
    kept = run["evaluations"]["evaluation.json"]
    whole = read_run(two_seeds.runs[0].folder)
    # Three steps are three stretches of one step each.
    assert kept["steps"] == [[step, pytest.approx(loss, abs=1e-4)] for step, loss in whole.steps]
    assert len(kept["seconds"]) == 3 and kept["seconds"] == sorted(kept["seconds"])
    assert kept["biases"] == [] and kept["provenance"]["machine"]


def test_a_file_names_no_folder_of_its_machine(two_seeds, file):
    stored = file.read_text()
    folders = (two_seeds.folder.parent, file.parent, file.parents[2])
    assert not any(str(folder) in stored for folder in folders)
    configs = {
        run["method"]: run["evaluations"]["evaluation.json"]["config"]
        for run in json.loads(stored)["runs"]
    }
    assert configs["tuned"]["init"] == "none.seed0" and configs["none"]["init"] == ""
    assert configs["none"]["data"] == ["text.txt"]


def test_a_run_that_another_begins_with_is_trained_here(tmp_path, text, file):
    """Results hold no parameters to begin with."""
    stored = json.loads(file.read_text())
    stored["runs"] = [run for run in stored["runs"] if run["method"] != "tuned"]
    part = tmp_path / "part.json"
    part.write_text(json.dumps(stored))
    found = planned(tmp_path, text, results=[part])
    missing = {run.method.name: bool(state.missing) for run, state in found.states()}
    assert missing == {"none": True, "alibi": False, "tuned": True}
    found.run(progress=False)
    assert sorted(path.name for path in (found.folder / "runs").iterdir()) == [
        "none.seed0", "tuned.seed0"
    ]  # fmt: skip


def test_results_count_where_a_run_is_begun_and_not_finished(tmp_path, text, file):
    found = planned(tmp_path, text)
    run = found.runs[1]

    def stop(done):
        if done == 1:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted):
        loop.train(run.config, run.folder, data=found.data, progress=False, after_step=stop)
    assert found.state(run).steps == 2
    again = planned(tmp_path, text, results=[file])
    outcome = reproduce.collect(again, {})
    assert not outcome.missing
    assert outcome.results["alibi"] == [again.taken[run.key]["evaluation.json"]]


def test_a_file_of_which_no_run_is_planned_is_refused(tmp_path, text, file):
    """What it holds would count nowhere."""
    stored = json.loads(file.read_text())
    stored["runs"] = [run for run in stored["runs"] if run["method"] == "none"]
    part = tmp_path / "part.json"
    part.write_text(json.dumps(stored))
    assert planned(tmp_path, text, only=("none",), results=[part]).taken
    with pytest.raises(ReproduceError, match="part.json holds no run that is .* are none of seed 0"):
        planned(tmp_path, text, only=("alibi",), results=[part])


def test_results_of_something_else_are_refused(tmp_path, text, file):
    for change, said in (
        (lambda s: s.update(paper="yours"), "holds results of yours at scale tiny, not of mine"),
        (lambda s: s.update(scale="toy"), "of mine at scale toy, not of mine at scale tiny"),
        (lambda s: s.update(format=9), "results of format 9"),
        (lambda s: s.pop("runs"), "holds no results: it lacks 'runs'"),
        (lambda s: s["runs"][0]["evaluations"].clear(), "NoPE, seed 0: evaluation.json is missing"),
        (
            lambda s: s["runs"][0]["evaluations"]["evaluation.json"].pop("steps"),
            "NoPE, seed 0: evaluation.json is damaged: 'steps'",
        ),
        (
            lambda s: s["runs"][0]["evaluations"]["evaluation.json"].update(last=5),
            "evaluation.json is not an evaluation of this scale",
        ),
    ):
        stored = json.loads(file.read_text())
        change(stored)
        other = tmp_path / "other.json"
        other.write_text(json.dumps(stored))
        with pytest.raises(ReproduceError, match=said):
            planned(tmp_path, text, results=[other])
    with pytest.raises(ReproduceError, match=r"NoPE, seed 0 was .* settings: steps 3 \(now 4\)"):
        planned(tmp_path, text, replace(PAPER, settings={"steps": 4}), results=[file])
    another = tmp_path / "another.txt"
    another.write_bytes(b"another text altogether; " * 100)
    with pytest.raises(ReproduceError, match="NoPE, seed 0 was trained on other text"):
        planned(tmp_path, (str(another),), results=[file])
    (tmp_path / "cut.json").write_text(file.read_text()[:-40])
    with pytest.raises(ReproduceError, match="cut.json holds no results"):
        planned(tmp_path, text, results=[tmp_path / "cut.json"])
    with pytest.raises(ReproduceError, match="cannot read .*gone.json"):
        planned(tmp_path, text, results=[tmp_path / "gone.json"])


def test_the_command_takes_results(tmp_path, text, file, capsys, monkeypatch):
    monkeypatch.setitem(reproduce.PAPERS, "dape", PAPER)
    command = ["reproduce", "dape", str(tmp_path), "--scale", "tiny", "--data", *text, "--quiet"]
    assert main([*command, "--results", str(file), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("3 done, left: done") == 3
    assert main([*command, "--results", str(file)]) == 0
    assert RESULTS in capsys.readouterr().out
    assert not (tmp_path / "mine" / "tiny" / "runs").exists()
    assert main([*command, "--results", str(tmp_path / "gone.json")]) == 1
    assert "cannot read" in capsys.readouterr().err
