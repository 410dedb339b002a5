"""The page of a report."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from . import figures
from .biases import bias_parts
from .document import cell, document, picture, table, write_page
from .groups import Group, group
from .image_page import image_parts
from .orderings import Finding, check_orderings, check_step_times
from .origin import origin, spread_text
from .results import ReportError, RunResult, multiple_name


def write_report(path: str | Path, runs: Sequence[RunResult]) -> list[Finding]:
    """Writes the report of some runs and gives its findings. Runs of the same encodings
    differ in their seeds, and count as one line each with a spread. Runs on text and runs
    on images have parts of their own.

    Raises `ReportError` for runs that cannot be compared, or when the file cannot be
    written.
    """
    if not runs:
        raise ReportError("a report needs at least one run")
    parts = ["<h1>Positional encodings, trained and extrapolated</h1>"]
    findings: list[Finding] = []
    on_text, on_images = ([r for r in runs if r.data == kind] for kind in ("text", "images"))
    if on_text:
        groups = group(on_text)
        findings = _findings(groups)
        parts += text_parts(groups, findings)
    if on_images:
        parts += image_parts(group(on_images))
    sources = dict.fromkeys(run.provenance["source"] for run in runs)
    write_page(path, document(f"Sextant: report on {', '.join(sources)}", parts))
    return findings


def _findings(groups: Sequence[Group]) -> list[Finding]:
    findings = check_orderings(
        {g.name: {s: run.all_tokens for s, run in zip(g.seeds, g.runs)} for g in groups},
        {g.name: {s: run.last_tokens for s, run in zip(g.seeds, g.runs)} for g in groups},
    )
    times = check_step_times({g.name: g.step_ms for g in groups})
    if times:
        findings.append(times)
    return findings


def text_parts(groups: Sequence[Group], findings: Sequence[Finding]) -> list[str]:
    """What the page says of runs on text."""
    last = groups[0].runs[0].last
    parts = [
        origin(groups),
        "<h2>Loss</h2>",
        "<p>Nats per byte on held-out text, at multiples of the training length"
        f"{spread_text(groups)}.</p>",
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
        f"<p>{figures.TRAINING}</p>",
        picture(figures.training_curves(groups), "training loss by step"),
        picture(figures.step_times(groups), "time per training step"),
    ]
    return parts + bias_parts(groups, 2) + _adaptive(groups)


def _adaptive(groups: Sequence[Group]) -> list[str]:
    """What encodings of all heads add to the scores of a text."""
    found = [(group.runs[0], item) for group in groups for item in group.runs[0].adaptive]
    if not found:
        return []
    parts = [
        "<h2>Data-adaptive biases</h2>",
        "<p>What an encoding that sees the scores of all heads adds to them, for a piece of "
        "held-out text: over keys (across) and queries (down), each row relative to its mean, "
        "which the softmax does not see. A bias of position alone would have equal diagonals. Of more "
        f"heads than {figures.HEADS} the first ones.</p>",
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
    head = [*(["seeds"] if several else []), *map(multiple_name, multiples)]
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
        "<p>Verdicts on losses are of runs of the same seed, of several seeds what all say; of "
        "encodings that have no seed in common there is none.</p>"
        + table(["ordering", "here", "losses"], rows, "words")
    )
