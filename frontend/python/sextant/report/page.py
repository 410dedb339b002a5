"""The page of a report."""

from __future__ import annotations

import datetime
import html
from collections.abc import Sequence
from pathlib import Path

from ..revision import revision
from . import figures
from .document import cell, document, picture, table, write_page
from .groups import Group, group
from .orderings import Finding, check_orderings, check_step_times
from .results import RunResult


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
    write_page(path, render(groups, findings))
    return findings


def render(groups: Sequence[Group], findings: Sequence[Finding]) -> str:
    """The page as text."""
    last = groups[0].runs[0].last
    source = groups[0].runs[0].provenance["source"]
    parts = [
        "<h1>Positional encodings, trained and extrapolated</h1>",
        _origin(groups),
        "<h2>Loss</h2>",
        "<p>Nats per byte on held-out text, at multiples of the training length"
        f"{_spread_text(groups)}.</p>",
        "<h3>All tokens of non-overlapping blocks</h3>",
        _loss_table(groups, "all_tokens"),
        f"<h3>Last {last} tokens of each block</h3>",
        _loss_table(groups, "last_tokens"),
        picture(figures.extrapolation(groups, "all_tokens", "all tokens"), "loss by length"),
        picture(
            figures.extrapolation(groups, "last_tokens", f"last {last} tokens"),
            f"loss of the last {last} tokens by length",
        ),
        "<h2>Orderings from the literature</h2>",
        _finding_table(findings),
        "<h2>Training</h2>",
        picture(figures.training_curves(groups), "training loss by step"),
        picture(figures.step_times(groups), "time per training step"),
    ]
    shown = [g for g in groups if g.runs[0].biases]
    if shown:
        parts.append("<h2>Biases over distance</h2>")
        parts.append(
            "<p>What the encodings add to a score at a distance, relative to "
            "distance 0, after training; of several seeds, the first.</p>"
        )
    for g in shown:
        drawn = picture(figures.biases(g.runs[0]), f"{g.name}: bias over distance", wide=True)
        parts.append(f"<h3>{html.escape(g.name)}</h3>{drawn}")
    parts += _adaptive(groups)
    return document(f"Sextant: report on {source}", parts)


def _spread_text(groups: Sequence[Group]) -> str:
    if all(len(g.runs) == 1 for g in groups):
        return ""
    return "; of several seeds the mean, \u00b1 the farthest from it"


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
            + picture(
                figures.adaptive_biases(item), f"{run.name}: {item['use']}, added to scores", wide=True
            )
        )
    return parts


def _loss_table(groups: Sequence[Group], protocol: str) -> str:
    multiples = sorted({m for g in groups for run in g.runs for m in getattr(run, protocol)})
    several = any(len(g.runs) > 1 for g in groups)
    head = [*(["seeds"] if several else []), *(f"{m}x" for m in multiples)]
    best = {m: min(_mean(g.losses(protocol, m)) for g in groups) for m in multiples}
    rows = []
    for g in groups:
        seeds = [cell(str(len(g.runs)))] if several else []
        losses = [_loss(g.losses(protocol, m), best[m]) for m in multiples]
        rows.append([cell(g.name), *seeds, *losses])
    return table(["encodings", *head], rows)


def _mean(losses: Sequence[float]) -> float:
    return sum(losses) / len(losses) if losses else float("inf")


def _loss(losses: Sequence[float], best: float) -> str:
    """The mean, with the distance of the farthest from it."""
    if not losses:
        return cell("")
    mean = _mean(losses)
    spread = max(abs(loss - mean) for loss in losses)
    text = f"{mean:.3f}" + (f" \u00b1 {spread:.3f}" if len(losses) > 1 else "")
    return cell(text, "best" if mean == best else "")


def _finding_table(findings: Sequence[Finding]) -> str:
    if not findings:
        return "<p>These runs show none: train more encodings.</p>"
    kinds = {True: "yes", False: "no", None: "open"}
    rows = [[cell(f.text), cell(f.verdict, kinds[f.holds]), cell(f.numbers)] for f in findings]
    return (
        "<p>Of several seeds, a verdict is what every choice of one seed per encoding says.</p>"
        + table(["ordering", "here", "losses"], rows, "words")
    )
