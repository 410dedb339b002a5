"""The report: its table, findings and figures, from made-up runs."""

import json
import re

import pytest

from sextant.report import RunResult, figures, read_run, write_report
from sextant.report.document import cell
from sextant.report.groups import by_settings, group
from sextant.report.orderings import check_orderings, check_step_times
from sextant.report.results import ReportError, write_evaluation
from sextant.revision import revision

# Losses of the plain PyTorch model that the demo is compared with.
LOSSES = {
    "none": (2.22, 2.27, 2.35, 2.41),
    "sinusoidal": (2.50, 2.90, 3.19, 3.55),
    "rope": (1.64, 1.76, 2.16, 2.69),
    "alibi": (1.86, 1.85, 1.85, 1.85),
    "kerple_log": (1.74, 1.73, 1.73, 1.73),
}


def made_up_run(name, losses, seed=0, **settings):
    table = dict(zip((1, 2, 4, 8), losses))
    config = {"encodings": [name], "layers": 4, "seed": seed, **settings}
    run = RunResult(name, config, table, table, parameters=1000)
    run.provenance = {
        "source": "a <text>",
        "text": "0123456789abcdef",
        "saved": "2031-05-04T03:02:01+00:00",
        "revision": "0.1.0 (fedcba)",
        "step": 100,
        "extended": [],
    }
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
    assert "<script" not in page and figures.TRAINING in page
    assert not re.search(r'(src|href)="?https?:', page)
    for name, losses in LOSSES.items():
        assert f"<td>{name}</td>" in page
        assert f"{losses[-1]:.3f}" in page
    assert len(findings) >= 6
    assert all(f.text in page.replace("&#x27;", "'") for f in findings)


def made_up_images(name, accuracy, seed=0):
    """A run on images."""
    config = {"model": "vit", "encodings": [name], "layers": 4, "size": 24, "length": 128, "seed": seed}
    by_size = dict(zip((24, 32, 48), accuracy))
    run = RunResult(name, config, accuracy=by_size, size_losses={n: 3 - a for n, a in by_size.items()})
    run.provenance = {**made_up_run(name, ()).provenance, "source": "letters", "images": "fedcba9876543210"}
    del run.provenance["text"]
    run.steps, run.step_ms = [(s, 2.0 - s / 100) for s in range(100)], 20.0
    return run


def test_runs_on_images_have_a_part_of_their_own(tmp_path):
    path = tmp_path / "report.html"
    on_images = [
        made_up_images("grid", (0.9, 0.7, 0.25)),
        made_up_images("grid", (0.8, 0.7, 0.35), seed=1),
        made_up_images("other", (0.5, 0.7125, 0.1)),
    ]
    assert write_report(path, on_images) == []
    page = path.read_text()
    assert page.count("<svg") == 3 and "Nats per byte" not in page and "Orderings" not in page
    for text in ("85.0% \u00b1 5.0%", "<td class=best>71.2%</td>", "24 x 24", "letters (SHA-256 fedcba987654)"):
        assert text in page, text
    assert "length = " not in page and "size = 24" in page
    # Beside runs on text, and never in one table with them.
    texts = [made_up_run(n, v) for n, v in LOSSES.items()]
    assert write_report(path, [*on_images, *texts]) == write_report(path, texts)
    write_report(path, [*on_images, *texts])
    page = path.read_text()
    assert page.count("<h2>Images</h2>") == 1 and page.count("<svg") == 7
    parts = page.split("<h2>Images</h2>")
    assert "rope" in parts[0] and "rope" not in parts[1] and "grid" not in parts[0]
    with pytest.raises(ReportError, match="runs on text and on images cannot be compared"):
        group([texts[0], on_images[0]])
    on_images[1].provenance["images"] = "0"
    with pytest.raises(ReportError, match="different images .* a report of each kind of images"):
        write_report(path, on_images)


def test_results_of_images_are_read_as_written(tmp_path):
    run = made_up_images("grid", (0.9, 0.7, 0.25))
    write_evaluation(tmp_path, run)
    assert read_run(tmp_path).accuracy == run.accuracy
    assert read_run(tmp_path).size_losses == run.size_losses
    del run.provenance["images"]
    write_evaluation(tmp_path, run)
    with pytest.raises(ReportError, match="lacks 'images'"):
        read_run(tmp_path)


def test_orderings_decide():
    table = {n: dict(zip((1, 2, 4, 8), v)) for n, v in LOSSES.items()}
    table = {n: {0: losses} for n, losses in table.items()}
    by_text = {f.text: f.holds for f in check_orderings(table)}
    assert by_text["At 2x rope is worse than within its training length."]
    assert by_text["From 4x to 8x alibi stays flat."]
    assert not any("t5_bias" in text for text in by_text)
    table["rope"][0][2] = 1.5
    by_text = {f.text: f.holds for f in check_orderings(table)}
    assert not by_text["At 2x rope is worse than within its training length."]
    assert check_step_times({"alibi": [10.0], "kerple_log": [10.5]}).holds
    assert check_step_times({"alibi": [10.0], "kerple_log": [12.0]}).holds is False
    assert check_step_times({"alibi": [10.0], "kerple_log": [10.5, 12.0]}).holds is None
    assert check_step_times({"alibi": [10.0]}) is None


def test_a_verdict_is_what_all_seeds_say():
    text = "At 2x rope is worse than within its training length."

    def verdict(*losses):
        runs = {seed: dict(zip((1, 2), pair)) for seed, pair in enumerate(losses)}
        found = check_orderings({"rope": runs})
        return next(f.verdict for f in found if f.text == text)

    assert verdict((1.6, 1.7)) == "holds (one seed)"
    assert verdict((1.6, 1.5)) == "does not hold (one seed)"
    assert verdict((1.6, 1.7), (1.5, 1.55)) == "holds"
    assert verdict((1.6, 1.5), (1.5, 1.45)) == "does not hold"
    assert verdict((1.6, 1.7), (1.5, 1.45)) == "within the spread of the seeds"


def test_encodings_are_compared_with_runs_of_the_same_seed():
    def verdict(**losses):
        runs = {n: {s: {1: loss} for s, loss in of.items()} for n, of in losses.items()}
        return [f for f in check_orderings(runs) if "rope is better than alibi" in f.text]

    none = {0: 2.0, 1: 2.0, 2: 2.0}
    (found,) = verdict(rope={0: 1.60, 1: 1.70}, alibi={0: 1.65, 1: 1.75}, none=none)
    assert found.verdict == "holds" and "rope 1.65 (1x)" in found.numbers
    (found,) = verdict(rope={0: 1.60, 1: 1.70}, alibi={0: 1.75, 1: 1.65}, none=none)
    assert found.verdict == "within the spread of the seeds"
    (found,) = verdict(rope={0: 1.60, 1: 1.70}, alibi={1: 1.75, 2: 1.0}, none=none)
    assert found.verdict == "holds (one seed)" and "alibi 1.75 (1x)" in found.numbers
    assert not verdict(rope={0: 1.60}, alibi={1: 1.75}, none=none)


def test_many_runs_are_drawn_from():
    found = check_step_times({"alibi": [10.0] * 20, "kerple_log": [10.5] * 20, "t5_bias": [9.0] * 20})
    assert found.holds and found.seeds == 20


def test_seeds_are_shown_with_their_spread(tmp_path):
    runs = [made_up_run(n, v) for n, v in LOSSES.items()]
    runs += [made_up_run("rope", [v + 0.1 for v in LOSSES["rope"]], seed=4)]
    write_report(tmp_path / "report.html", runs)
    page = (tmp_path / "report.html").read_text()
    assert "1.690 \u00b1 0.050" in page and "<th>seeds</th>" in page
    assert "0, 4: one seed does not show how far another would be from it" in page
    write_report(tmp_path / "report.html", [r for r in runs if r.name == "rope"])
    assert "one seed)" not in (page := (tmp_path / "report.html").read_text())
    assert "one seed does not" not in page


def test_seeds_of_machines_where_data_lie_elsewhere_are_one_group():
    runs = [
        made_up_run("rope", LOSSES["rope"], seed, data=[f"{place}/a"], validation_data=[f"{place}/b"])
        for seed, place in enumerate(("/here", "/there"))
    ]
    (found,) = group(runs)
    assert found.seeds == [0, 1]
    (found,) = by_settings(runs, {})
    assert found.seeds == [0, 1]


def test_page_says_where_it_is_from(tmp_path):
    runs = [made_up_run("rope", LOSSES["rope"]), made_up_run("alibi", LOSSES["alibi"], steps=7)]
    runs[0].provenance["extended"] = [[400, 400]]
    runs[1].notes = ["the text has changed"]
    write_report(tmp_path / "report.html", runs)
    page = (tmp_path / "report.html").read_text()
    for part in (
        "a &lt;text&gt; (SHA-256 0123456789ab)",
        "2031-05-04, by Sextant 0.1.0 (fedcba)",
        "steps: rope None, alibi 7",
        "rope: after step 400, from 400 steps on",
        "alibi: the text has changed",
        f"UTC, by Sextant {revision()}",
        "layers = 4",
    ):
        assert part in page


def test_a_small_screen_scrolls_tables_and_figures(tmp_path):
    write_report(tmp_path / "r.html", [made_up_run(n, v) for n, v in LOSSES.items()])
    page = (tmp_path / "r.html").read_text()
    assert '<meta name=viewport content="width=device-width, initial-scale=1">' in page
    for tag in ("<table", "<svg"):
        starts = [m.start() for m in re.finditer(tag, page)]
        assert starts and all(page[:s].endswith("<div class=scroll>") for s in starts)
    assert page.count('role="img" aria-label="') == page.count("<svg")


def test_curves_differ_without_colours_and_legends_lie_beside_them(monkeypatch):
    shown = []
    monkeypatch.setattr(figures, "_svg", shown.append)
    groups = group([made_up_run(f"e{i}", LOSSES["rope"]) for i in range(9)])
    figures.extrapolation(groups, "all_tokens", "all tokens")
    figures.training_curves(groups)
    for figure in shown:
        figure.draw_without_rendering()
        (ax,), (legend,) = figure.axes, figure.legends
        assert not legend.get_window_extent().overlaps(ax.get_window_extent())
        assert len(legend.get_texts()) == 9
        looks = [(line.get_color(), line.get_linestyle()) for line in ax.get_lines()]
        assert len(set(looks)) == 9
    markers = [line.get_marker() for line in shown[0].axes[0].get_lines()]
    assert len(set(markers)) == 8


def test_fire_rises_beyond_its_training_length():
    table = {"fire": {0: {4: 1.80, 8: 1.88}}, "kerple_log": {0: {4: 1.68, 8: 1.69}}}
    text = "From 4x to 8x fire rises faster than kerple_log."
    assert {f.text: f.holds for f in check_orderings(table)}[text]
    table["fire"][0][8] = 1.80
    assert not {f.text: f.holds for f in check_orderings(table)}[text]


def test_options_do_not_change_what_is_said_of_an_encoding():
    """Unless there is a run without them; lists of encodings are not spoken of."""
    text = "From 4x to 8x fire rises faster than kerple_log."
    table = {
        "fire(threshold=16)": {0: {4: 1.80, 8: 1.88}},
        "kerple_log": {0: {4: 1.68, 8: 1.69}},
        "rope, fire": {0: {4: 1.8, 8: 1.8}},
    }
    (finding,) = [f for f in check_orderings(table) if f.text == text]
    assert finding.holds and "fire 1.80 (4x)" in finding.numbers
    table["fire"] = {0: {4: 1.8, 8: 1.8}}
    (finding,) = [f for f in check_orderings(table) if f.text == text]
    assert not finding.holds


def test_a_network_over_heads_is_held_to_its_host():
    """On the last tokens, at 4x and 8x."""
    table = {
        "kerple_log": {0: {4: 1.73, 8: 1.74}},
        "dape(kerple_log)": {0: {4: 1.70, 8: 1.71}},
    }
    (finding,) = check_orderings({n: {0: {}} for n in table}, table)
    assert finding.holds and "dape(kerple_log) 1.70 (4x) 1.71 (8x)" in finding.numbers
    table["dape(kerple_log)"][0][8] = 1.75
    assert not check_orderings({n: {0: {}} for n in table}, table)[0].holds
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
    with pytest.raises(ReportError, match="nowhere is not there: name the folder of a run"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(ReportError, match="evaluation.json is no folder: name the folder of a run"):
        read_run(tmp_path / "evaluation.json")
    run = made_up_run("alibi", LOSSES["alibi"])
    write_evaluation(tmp_path, made_up_run("alibi", LOSSES["alibi"]))
    stored = json.loads((tmp_path / "evaluation.json").read_text())
    for part, name in (("config", "seed"), ("provenance", "revision")):
        less = {**stored, part: {k: v for k, v in stored[part].items() if k != name}}
        (tmp_path / "evaluation.json").write_text(json.dumps(less))
        with pytest.raises(ReportError, match=f"lacks '{name}'"):
            read_run(tmp_path)
    (tmp_path / "evaluation.json").write_text(json.dumps({**stored, "all_tokens": {"twice": 2.0}}))
    with pytest.raises(ReportError, match="evaluation.json is damaged: .*'twice'"):
        read_run(tmp_path)
    with pytest.raises(ReportError, match="same encodings and seed: alibi, seed 0"):
        write_report(tmp_path / "r.html", [run, run])
    other = made_up_run("alibi", LOSSES["alibi"], seed=1, lr=0.1)
    with pytest.raises(ReportError, match="alibi, differ in lr: None and 0.1; only seeds may"):
        write_report(tmp_path / "r.html", [run, other])
    other = made_up_run("rope", LOSSES["rope"])
    other.provenance["text"] = "another"
    with pytest.raises(ReportError, match="runs on different texts cannot be compared"):
        write_report(tmp_path / "r.html", [run, other])
    run.all_tokens[1] = float("nan")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_evaluation(tmp_path, run)
    run = made_up_run("alibi", LOSSES["alibi"])
    with pytest.raises(ReportError, match="at least one run"):
        write_report(tmp_path / "r.html", [])
    (tmp_path / "file").touch()
    with pytest.raises(ReportError, match="cannot write .*file/r.html: "):
        write_report(tmp_path / "file" / "r.html", [run])


def test_long_words_of_a_cell_part_at_joints_alone():
    """A phone's column is narrower than a use with its options."""
    assert cell("kerple_log < 0.25") == "<td>kerple_log &lt; 0.25</td>"
    shown = cell("learned(rows=49,grid_rows=7,scale=0.0346) & t5_bias")
    for part in ("learned(<wbr>rows=<wbr>49,<wbr>grid_<wbr>rows=<wbr>7,", "0.0346) &amp; t5_bias"):
        assert part in shown
    assert shown.replace("<wbr>", "") == (
        "<td>learned(rows=49,grid_rows=7,scale=0.0346) &amp; t5_bias</td>"
    )
