"""The page of a report: self-contained HTML, readable on a small screen."""

from __future__ import annotations

import datetime
import html
from collections.abc import Sequence
from pathlib import Path

from ..files import replace_file
from ..revision import revision
from . import figures
from .groups import Group, group
from .orderings import Finding, check_orderings, check_step_times
from .results import ReportError, RunResult

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto;
       padding: 0 1rem; color: #1a1a1a; overflow-wrap: anywhere; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right;
         vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
.words td, .words th { text-align: left; min-width: 8rem; }
td.best { font-weight: 600; } .yes { color: #14692f; } .no { color: #a11d1d; }
.scroll { overflow-x: auto; margin: 1rem 0; }
.scroll td, .scroll th { overflow-wrap: normal; }
.scroll svg { max-width: 100%; min-width: 38rem; height: auto; }
.scroll svg.wide { max-width: none; min-width: 60rem; }
.small { color: #555; font-size: 14px; }
"""


def write_report(path: str | Path, runs: Sequence[RunResult]) -> list[Finding]:
    """Writes the report of some runs and gives its findings. Runs of the same encodings
    differ in their seeds, and count as one line each with a spread.

    Raises `ReportError` for runs that cannot be compared, or when the file cannot be
    written.
    """
    groups = group(runs)
    findings = check_orderings(
        {g.name: [run.all_tokens for run in g.runs] for g in groups},
        {g.name: [run.last_tokens for run in g.runs] for g in groups},
    )
    times = check_step_times({g.name: g.step_ms for g in groups})
    if times:
        findings.append(times)
    try:
        replace_file(path, render(groups, findings).encode())
    except OSError as error:
        raise ReportError(f"cannot write {path}: {error.strerror}") from None
    return findings


def render(groups: Sequence[Group], findings: Sequence[Finding]) -> str:
    """The page as text."""
    last = groups[0].runs[0].last
    source = html.escape(groups[0].runs[0].provenance["source"])
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>Sextant: report on {source}</title><style>{_STYLE}</style></head><body>",
        "<h1>Positional encodings, trained and extrapolated</h1>",
        _origin(groups),
        "<h2>Loss</h2>",
        "<p>Nats per byte on held-out text, at multiples of the training length"
        f"{_spread_text(groups)}.</p>",
        "<h3>All tokens of non-overlapping blocks</h3>",
        _loss_table(groups, "all_tokens"),
        f"<h3>Last {last} tokens of each block</h3>",
        _loss_table(groups, "last_tokens"),
        _figure(figures.extrapolation(groups, "all_tokens", "all tokens"), "loss by length"),
        _figure(
            figures.extrapolation(groups, "last_tokens", f"last {last} tokens"),
            f"loss of the last {last} tokens by length",
        ),
        "<h2>Orderings from the literature</h2>",
        _finding_table(findings),
        "<h2>Training</h2>",
        _figure(figures.training_curves(groups), "training loss by step"),
        _figure(figures.step_times(groups), "time per training step"),
    ]
    shown = [g for g in groups if g.runs[0].biases]
    if shown:
        parts.append("<h2>Biases over distance</h2>")
        parts.append(
            "<p>What the encodings add to a score at a distance, relative to "
            "distance 0, after training; of several seeds, the first.</p>"
        )
    for g in shown:
        picture = _figure(figures.biases(g.runs[0]), f"{g.name}: bias over distance", wide=True)
        parts.append(f"<h3>{html.escape(g.name)}</h3>{picture}")
    parts += _adaptive(groups)
    parts.append("</body></html>")
    return "\n".join(parts)


def _figure(svg: str, label: str, wide: bool = False) -> str:
    """A picture that a small screen scrolls, with what a reader of the page says."""
    kind = " class=wide" if wide else ""
    head = f'<svg role="img" aria-label="{html.escape(label)}"{kind} '
    return f"<div class=scroll>{svg.replace('<svg ', head, 1)}</div>"


def _spread_text(groups: Sequence[Group]) -> str:
    if all(len(g.runs) == 1 for g in groups):
        return ""
    return "; of several seeds the mean, &plusmn; the farthest from it"


def _origin(groups: Sequence[Group]) -> str:
    """What was trained, on what, when, by which Sextant, with which settings."""
    runs = [run for g in groups for run in g.runs]
    first = runs[0].provenance
    seeds = sorted({seed for g in groups for seed in g.seeds})
    fewest = min(len(g.runs) for g in groups)
    dates = sorted(run.provenance["saved"][:10] for run in runs)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    now = datetime.datetime.now(datetime.timezone.utc)
    rows = [
        ("text", f"{first['source']} (SHA-256 {first['text'][:12]})"),
        ("trained", f"{when}, by Sextant {_listed(r.provenance['revision'] for r in runs)}"),
        ("seeds", _listed(map(str, seeds)) + _seed_warning(fewest)),
        ("parameters", _listed(f"{n:,}" for n in sorted({run.parameters for run in runs}))),
        ("settings", _settings(runs)),
        ("written", f"{now:%Y-%m-%d %H:%M} UTC, by Sextant {revision()}"),
    ]
    if different := _different(groups):
        rows.insert(5, ("settings that differ", different))
    rows += [("extended", text) for text in map(_extension, runs) if text]
    rows += [("note", f"{run.name}: {note}") for run in runs for note in run.notes]
    cells = "".join(f"<tr><th>{n}</th><td>{html.escape(text)}</td></tr>" for n, text in rows)
    return f"<div class=scroll><table class='words small'>{cells}</table></div>"


def _seed_warning(fewest: int) -> str:
    if fewest > 1:
        return ""
    return ": one seed does not show how far another would be from it"


def _listed(texts) -> str:
    return ", ".join(dict.fromkeys(texts))


def _extension(run: RunResult) -> str:
    """Rates follow the number of steps that was asked for at the time."""
    parts = [f"after step {step}, from {steps} steps" for step, steps in run.provenance["extended"]]
    return f"{run.name}: {'; '.join(parts)} on" if parts else ""


# Apart from these, settings are of interest.
_NAMED = ("encodings", "seed", "data")


def _settings(runs: Sequence[RunResult]) -> str:
    """The settings that all runs share."""
    return ", ".join(
        f"{key} = {value}"
        for key, value in runs[0].config.items()
        if key not in _NAMED and all(r.config.get(key) == value for r in runs)
    )


def _different(groups: Sequence[Group]) -> str:
    """The settings that runs do not share, by run."""
    configs = {g.name: g.runs[0].config for g in groups}
    keys = dict.fromkeys(k for config in configs.values() for k in config if k not in _NAMED)
    parts = []
    for key in keys:
        values = {name: config.get(key) for name, config in configs.items()}
        if len(set(map(str, values.values()))) > 1:
            parts.append(f"{key}: " + ", ".join(f"{n} {v}" for n, v in values.items()))
    return "; ".join(parts)


def _adaptive(groups: Sequence[Group]) -> list[str]:
    """What encodings of all heads add to the scores of a text."""
    found = [(group.runs[0], item) for group in groups for item in group.runs[0].adaptive]
    if not found:
        return []
    parts = [
        "<h2>Data-adaptive biases</h2>",
        "<p>What an encoding that sees the scores of all heads adds to them, for a piece of "
        "held-out text: over keys (across) and queries (down), each row relative to its mean, "
        "which the softmax does not see. A bias of position alone would have equal diagonals.</p>",
    ]
    for run, item in found:
        parts.append(
            f"<h3>{html.escape(run.name)}: {html.escape(item['use'])}</h3>"
            f"<p class=small>text: <code>{html.escape(item['text'])}</code></p>"
            + _figure(
                figures.adaptive_biases(item), f"{run.name}: {item['use']}, added to scores", wide=True
            )
        )
    return parts


def _loss_table(groups: Sequence[Group], protocol: str) -> str:
    multiples = sorted({m for g in groups for run in g.runs for m in getattr(run, protocol)})
    several = any(len(g.runs) > 1 for g in groups)
    head = ("<th>seeds</th>" if several else "") + "".join(f"<th>{m}x</th>" for m in multiples)
    best = {m: min(_mean(g.losses(protocol, m)) for g in groups) for m in multiples}
    lines = []
    for g in groups:
        cells = f"<td>{len(g.runs)}</td>" if several else ""
        cells += "".join(_cell(g.losses(protocol, m), best[m]) for m in multiples)
        lines.append(f"<tr><td>{html.escape(g.name)}</td>{cells}</tr>")
    return (
        f"<div class=scroll><table><tr><th>encodings</th>{head}</tr>{''.join(lines)}</table></div>"
    )


def _mean(losses: Sequence[float]) -> float:
    return sum(losses) / len(losses) if losses else float("inf")


def _cell(losses: Sequence[float], best: float) -> str:
    """The mean, with the distance of the farthest from it."""
    if not losses:
        return "<td></td>"
    mean = _mean(losses)
    mark = " class=best" if mean == best else ""
    spread = max(abs(loss - mean) for loss in losses)
    text = f"{mean:.3f}" + (f" &plusmn; {spread:.3f}" if len(losses) > 1 else "")
    return f"<td{mark}>{text}</td>"


def _finding_table(findings: Sequence[Finding]) -> str:
    if not findings:
        return "<p>These runs show none: train more encodings.</p>"
    kinds = {True: "yes", False: "no", None: "open"}
    lines = [
        f"<tr><td>{html.escape(f.text)}</td>"
        f"<td class={kinds[f.holds]}>{html.escape(f.verdict)}</td>"
        f"<td>{html.escape(f.numbers)}</td></tr>"
        for f in findings
    ]
    return (
        "<p>Of several seeds, a verdict is what every choice of one seed per encoding says.</p>"
        "<div class=scroll><table class=words><tr><th>ordering</th><th>here</th><th>losses</th>"
        f"</tr>{''.join(lines)}</table></div>"
    )
