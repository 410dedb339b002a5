"""The report: its table, findings and figures, from made-up runs."""

import json
import re

import pytest

from sextant.report import RunResult, read_run, write_report
from sextant.report.orderings import check_orderings, check_step_times
from sextant.report.results import ReportError, write_evaluation

# Losses of the plain PyTorch model that the demo is compared with.
LOSSES = {
    "none": (2.22, 2.27, 2.35, 2.41),
    "sinusoidal": (2.50, 2.90, 3.19, 3.55),
    "rope": (1.64, 1.76, 2.16, 2.69),
    "alibi": (1.86, 1.85, 1.85, 1.85),
    "kerple_log": (1.74, 1.73, 1.73, 1.73),
}


def made_up_run(name, losses):
    table = dict(zip((1, 2, 4, 8), losses))
    run = RunResult(name, {"encodings": [name], "layers": 4}, table, table, parameters=1000)
    run.steps = [(s, 5.0 - s / 100) for s in range(100)]
    run.step_ms = 20.0
    return run


def test_page_is_self_contained_and_complete(tmp_path):
    runs = [made_up_run(n, v) for n, v in LOSSES.items()]
    runs[3].biases = [[[-0.1 * d for d in range(64)]] * 4] * 4
    rows = [[0.1 * (i - j) for j in range(i + 1)] for i in range(11)]
    runs[2].adaptive = [{"use": "mine", "text": "<a> & words", "layers": [[rows] * 3] * 2}]
    findings = write_report(tmp_path / "report.html", runs)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 6 and "rope: mine" in page and "&lt;a&gt; &amp; words" in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="?https?:', page)
    for name, losses in LOSSES.items():
        assert f"<td>{name}</td>" in page
        assert f"{losses[-1]:.3f}" in page
    assert len(findings) >= 6
    assert all(f.text in page.replace("&#x27;", "'") for f in findings)


def test_orderings_decide():
    table = {n: dict(zip((1, 2, 4, 8), v)) for n, v in LOSSES.items()}
    by_text = {f.text: f.holds for f in check_orderings(table)}
    assert by_text["At 2x rope is worse than within its training length."]
    assert by_text["From 4x to 8x alibi stays flat."]
    assert not any("t5_bias" in text for text in by_text)
    table["rope"][2] = 1.5
    by_text = {f.text: f.holds for f in check_orderings(table)}
    assert not by_text["At 2x rope is worse than within its training length."]
    assert check_step_times({"alibi": 10.0, "kerple_log": 10.5}).holds
    assert not check_step_times({"alibi": 10.0, "kerple_log": 12.0}).holds
    assert check_step_times({"alibi": 10.0}) is None


def test_fire_rises_beyond_its_training_length():
    table = {"fire": {4: 1.80, 8: 1.88}, "kerple_log": {4: 1.68, 8: 1.69}}
    text = "From 4x to 8x fire rises faster than kerple_log."
    assert {f.text: f.holds for f in check_orderings(table)}[text]
    table["fire"][8] = 1.80
    assert not {f.text: f.holds for f in check_orderings(table)}[text]


def test_a_network_over_heads_is_held_to_its_host():
    """On the last tokens, at 4x and 8x."""
    table = {
        "kerple_log": {4: 1.73, 8: 1.74},
        "dape(kerple_log)": {4: 1.70, 8: 1.71},
    }
    (finding,) = check_orderings({n: {} for n in table}, table)
    assert finding.holds and "dape(kerple_log) 1.70 (4x) 1.71 (8x)" in finding.numbers
    table["dape(kerple_log)"][8] = 1.75
    assert not check_orderings({n: {} for n in table}, table)[0].holds
    assert not any("dape" in f.text for f in check_orderings(table))


def test_runs_are_read_back(tmp_path):
    run = made_up_run("alibi", LOSSES["alibi"])
    run.adaptive = [{"use": "mine", "text": "a", "layers": [[[[0.5]]]]}]
    write_evaluation(tmp_path, run)
    log = [{"step": 0, "loss": 5.0, "ms": 9.0}, {"step": 1, "loss": 4.0, "ms": 7.0}]
    log.append({"step": 1, "loss": 3.5, "ms": 8.0})
    text = "\n".join(map(json.dumps, log)) + '\n{"step": 2, "lo'
    (tmp_path / "log.jsonl").write_text(text)
    read = read_run(tmp_path)
    assert read.all_tokens == run.all_tokens and read.name == "alibi"
    assert read.adaptive == run.adaptive
    assert read.steps == [(0, 5.0), (1, 3.5)] and read.step_ms == 8.0


def test_errors_name_the_cause(tmp_path):
    with pytest.raises(ReportError, match="run `sextant eval"):
        read_run(tmp_path)
    (tmp_path / "evaluation.json").write_text("{")
    with pytest.raises(ReportError, match="damaged"):
        read_run(tmp_path)
    (tmp_path / "evaluation.json").write_text("{}")
    with pytest.raises(ReportError, match="lacks 'name'"):
        read_run(tmp_path)
    run = made_up_run("alibi", LOSSES["alibi"])
    with pytest.raises(ReportError, match="same encodings"):
        write_report(tmp_path / "r.html", [run, run])
    with pytest.raises(ReportError, match="at least one run"):
        write_report(tmp_path / "r.html", [])
    with pytest.raises(ReportError, match="No such file"):
        write_report(tmp_path / "no" / "r.html", [run])
