"""The page of a report: self-contained HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from . import figures
from .orderings import Finding, check_orderings, check_step_times
from .results import ReportError, RunResult

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto;
       padding: 0 1rem; color: #1a1a1a; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
td.best { font-weight: 600; } .yes { color: #14692f; } .no { color: #a11d1d; }
svg { max-width: 100%; height: auto; } .small { color: #555; font-size: 13px; }
"""


def write_report(path: str | Path, runs: Sequence[RunResult]) -> list[Finding]:
    """Writes the report of some runs and gives its findings.

    Raises `ReportError` without runs or when the file cannot be written.
    """
    if not runs:
        raise ReportError("a report needs at least one run")
    names = [run.name for run in runs]
    if len(set(names)) != len(names):
        raise ReportError(f"two runs have the same encodings: {', '.join(names)}")
    findings = check_orderings(
        {run.name: run.all_tokens for run in runs},
        {run.name: run.last_tokens for run in runs},
    )
    times = check_step_times({run.name: run.step_ms for run in runs})
    if times:
        findings.append(times)
    try:
        Path(path).write_text(render(runs, findings), encoding="utf-8")
    except OSError as error:
        raise ReportError(f"cannot write {path}: {error.strerror}") from None
    return findings


def render(runs: Sequence[RunResult], findings: Sequence[Finding]) -> str:
    """The page as text."""
    last = runs[0].last
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        f"<title>Sextant: report</title><style>{_STYLE}</style></head><body>",
        "<h1>Positional encodings, trained and extrapolated</h1>",
        _setting(runs),
        "<h2>Loss</h2>",
        "<p>Nats per byte on held-out text, at multiples of the training length.</p>",
        "<h3>All tokens of non-overlapping blocks</h3>",
        _loss_table(runs, "all_tokens"),
        f"<h3>Last {last} tokens of each block</h3>",
        _loss_table(runs, "last_tokens"),
        figures.extrapolation(runs, "all_tokens", "all tokens"),
        figures.extrapolation(runs, "last_tokens", f"last {last} tokens"),
        "<h2>Orderings from the literature</h2>",
        _finding_table(findings),
        "<h2>Training</h2>",
        figures.training_curves(runs),
        figures.step_times(runs),
    ]
    shown = [run for run in runs if run.biases]
    if shown:
        parts.append("<h2>Biases over distance</h2>")
        parts.append(
            "<p>What the encodings add to a score at a distance, relative to "
            "distance 0, after training.</p>"
        )
    for run in shown:
        parts.append(f"<h3>{html.escape(run.name)}</h3>{figures.biases(run)}")
    parts += _adaptive(runs)
    parts.append("</body></html>")
    return "\n".join(parts)


def _adaptive(runs: Sequence[RunResult]) -> list[str]:
    """What encodings of all heads add to the scores of a text."""
    found = [(run, item) for run in runs for item in run.adaptive]
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
            f"{figures.adaptive_biases(item)}"
        )
    return parts


def _setting(runs: Sequence[RunResult]) -> str:
    """The settings that all runs share, as one line."""
    shared = {
        key: value
        for key, value in runs[0].config.items()
        if key != "encodings" and all(r.config.get(key) == value for r in runs)
    }
    text = ", ".join(f"{k} = {v}" for k, v in shared.items() if v not in ("", [], ()))
    sizes = sorted({run.parameters for run in runs})
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    return f"<p class=small>{size} parameters; {html.escape(text)}</p>"


def _loss_table(runs: Sequence[RunResult], protocol: str) -> str:
    multiples = sorted({m for run in runs for m in getattr(run, protocol)})
    head = "".join(f"<th>{m}x</th>" for m in multiples)
    best = {
        m: min(getattr(r, protocol)[m] for r in runs if m in getattr(r, protocol))
        for m in multiples
    }
    lines = []
    for run in runs:
        losses = getattr(run, protocol)
        cells = "".join(_cell(losses.get(m), best[m]) for m in multiples)
        lines.append(f"<tr><td>{html.escape(run.name)}</td>{cells}</tr>")
    return f"<table><tr><th>encodings</th>{head}</tr>{''.join(lines)}</table>"


def _cell(loss: float | None, best: float) -> str:
    if loss is None:
        return "<td></td>"
    mark = " class=best" if loss == best else ""
    return f"<td{mark}>{loss:.3f}</td>"


def _finding_table(findings: Sequence[Finding]) -> str:
    if not findings:
        return "<p>These runs show none: train more encodings.</p>"
    lines = [
        f"<tr><td>{html.escape(f.text)}</td>"
        f"<td class={'yes' if f.holds else 'no'}>{'holds' if f.holds else 'does not hold'}</td>"
        f"<td>{html.escape(f.numbers)}</td></tr>"
        for f in findings
    ]
    return (
        "<table><tr><th>ordering</th><th>here</th><th>losses</th></tr>"
        f"{''.join(lines)}</table>"
    )
