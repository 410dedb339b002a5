"""A page that compares runs, whatever they differ in."""

import json
import re
from statistics import stdev

import pytest

from sextant.cli import main
from sextant.report import RunResult, compare, figures, write_report
from sextant.report.compare import with_deviation, write_comparison
from sextant.report.results import ReportError, read_log


def made_up(name, seed=0, losses=(2.0, 2.5), **settings):
    """A run on text with a log of 30 steps and three validations."""
    found = dict(zip((1, 2.5), losses))
    run = RunResult(name, {"encodings": [name], "seed": seed, **settings}, found, dict(found))
    run.provenance = {"source": "a <text>", "text": "0123456789abcdef"}
    run.steps = [(s, 5.0 - s / 100 + seed / 10) for s in range(30)]
    run.seconds = [0.02 * (s + 1) for s in range(30)]
    run.validation = [(10, 4.5), (20, 4.25 + seed), (30, 4.75)]
    run.step_ms = 20.0
    return run


def test_groups_differ_in_settings_and_seeds_have_a_deviation(tmp_path):
    runs = [made_up("rope"), made_up("rope", lr=0.1), made_up("alibi", losses=(1.0, 1.5))]
    runs += [made_up("alibi", seed=1, losses=(1.2, 1.5)), made_up("alibi", seed=2, losses=(1.3, 1.5))]
    groups = write_comparison(tmp_path / "c.html", runs)
    assert [g.name for g in groups] == ["rope (lr 0.002)", "rope (lr 0.1)", "alibi"]
    assert groups[2].seeds == [0, 1, 2]
    page = (tmp_path / "c.html").read_text()
    assert "a &lt;text&gt;" in page and "<script" not in page and figures.TRAINING in page
    assert f"<td>1.167 \u00b1 {stdev([1.0, 1.2, 1.3]):.3f}</td>" in page
    assert "<th>1x</th><th>2.5x</th>" in page and "<th>lr</th>" in page
    # Which validation is least depends on the seed.
    assert f"<td>{with_deviation([4.25, 4.5, 4.5])}</td>" in page
    assert page.count("<svg") == 5
    for tag in ("<table", "<svg"):
        starts = [m.start() for m in re.finditer(tag, page)]
        assert all(page[:s].endswith("<div class=scroll>") for s in starts)


def test_settings_that_a_run_is_older_than_are_the_defaults(tmp_path):
    """And how often it was validated is of no interest."""
    older, newer = made_up("rope"), made_up("rope", seed=1, shared=False, validate_every=7)
    (found,) = write_comparison(tmp_path / "c.html", [older, newer])
    assert found.name == "rope" and found.seeds == [0, 1]


def test_curves_are_over_steps_and_over_time(monkeypatch):
    shown = []
    monkeypatch.setattr(figures, "_svg", shown.append)
    groups = compare.by_settings([made_up("rope"), made_up("alibi")], {})
    figures.training_curves(groups)
    figures.training_curves(groups, over_time=True)
    figures.validation_curves(groups, "nats")
    (steps,), (times,), (validation,) = (figure.axes for figure in shown)
    first, second = steps.get_lines()[0], times.get_lines()[0]
    assert list(first.get_ydata()) == list(second.get_ydata())
    assert first.get_xdata()[-1] == 29 and second.get_xdata()[-1] == pytest.approx(0.6)
    ring = validation.get_lines()[1]
    assert (*ring.get_xdata(), *ring.get_ydata()) == (20, 4.25)


def test_logs_are_read_with_what_they_have(tmp_path):
    lines = [
        {"step": 0, "loss": 5.0, "ms": 500.0},
        {"step": 1, "loss": 4.0, "ms": 900.0, "validation": 9.0},
        {"step": 1, "loss": 4.5, "ms": 250.0, "validation": 4.25, "rate": 0.1},
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"step": 2')
    run = made_up("rope")
    read_log(run, tmp_path)
    assert run.steps == [(0, 5.0), (1, 4.5)] and run.seconds == [0.5, 0.75]
    assert run.validation == [(2, 4.25)] and run.step_ms == 500.0


def test_lines_of_a_log_that_are_damaged_are_left_out(tmp_path):
    """As a disk leaves them: bytes of something else, or of a part of an entry."""
    entry = b'{"step": 0, "loss": 5.0, "ms": 500.0}'
    damaged = (b"\xff\x00" + entry, b'{"step": 1, "loss": 4.0}', b'{"step": "x", "loss": 4.0, "ms": 1.0}')
    (tmp_path / "log.jsonl").write_bytes(b"\n".join((entry, *damaged)))
    run = made_up("rope")
    read_log(run, tmp_path)
    assert run.steps == [(0, 5.0)] and run.seconds == [0.5] and run.step_ms == 500.0


def test_the_last_tokens_are_as_many_in_all_runs(tmp_path):
    """Of those that are evaluated: others have no losses of them."""
    other, without = made_up("alibi"), made_up("none")
    other.last, without.last, without.last_tokens = 16, 8, {}
    message = "last tokens .* are 64 in the evaluation of rope with seed 0, and 16 in that of alibi"
    for write in (write_comparison, write_report):
        with pytest.raises(ReportError, match=message):
            write(tmp_path / "c.html", [made_up("rope"), without, other])
    write_comparison(tmp_path / "c.html", [made_up("rope"), without])


def test_runs_that_cannot_be_compared(tmp_path):
    other = made_up("rope", seed=1)
    other.provenance["text"] = "another"
    # A file that has changed is told from itself.
    with pytest.raises(ReportError, match=r"different texts cannot be compared: .*SHA-256 another"):
        write_comparison(tmp_path / "c.html", [made_up("rope"), other])
    with pytest.raises(ReportError, match="same encodings and seed: rope, seed 0"):
        write_comparison(tmp_path / "c.html", [made_up("rope"), made_up("rope")])


def test_the_command_line_compares_runs_that_are_evaluated_and_not(tmp_path, capsys):
    (tmp_path / "text").write_bytes(b"The quick brown fox jumps over the lazy dog. " * 100)
    sizes = "--layers 1 --width 16 --heads 2 --length 16 --batch 2 --steps 4 --validate-every 2"
    runs = [str(tmp_path / name) for name in "ab"]
    for seed, run in enumerate(runs):
        flags = ["--data", str(tmp_path / "text"), *sizes.split(), "--seed", str(seed), "--quiet"]
        assert main(["train", run, *flags]) == 0
    assert main(["eval", runs[0], "--quiet", "--multiples", "1", "--last", "4"]) == 0
    page = tmp_path / "c.html"
    assert main(["compare", *runs, "-o", str(page)]) == 0
    assert "none: seeds 0, 1, last loss 5." in capsys.readouterr().out
    assert "Loss by length" in page.read_text() and "a ring where it is least" in page.read_text()
    assert main(["compare", str(tmp_path / "nowhere")]) == 1
    message = "cannot read checkpoint .*nowhere: there is no such file; sextant train writes"
    assert re.search(message, capsys.readouterr().err)
