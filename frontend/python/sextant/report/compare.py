"""The page of a comparison: how runs that differ in anything were trained, and their losses."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev

from ..training.config import TrainConfig
from . import figures
from .document import cell, document, pairs, picture, table, write_page
from .groups import Group, by_settings, differing
from .origin import shared_settings
from .results import RunResult, multiple_name

# As they are stored.
_DEFAULTS = json.loads(json.dumps(asdict(TrainConfig())))


def write_comparison(path: str | Path, runs: Sequence[RunResult]) -> list[Group]:
    """Writes the page of some runs, evaluated or not, and gives their groups: runs that
    differ in the seed alone are one. Runs on other data cannot be compared (`ReportError`)."""
    groups = by_settings(runs, _DEFAULTS)
    unit = "nats per byte" if runs[0].data == "text" else "nats"
    parts = [
        "<h1>Runs compared</h1>",
        f"<p class=small>On {html.escape(runs[0].provenance['source'])}. Of several seeds the mean "
        "and their standard deviation.</p>",
        _overview(groups, unit),
        *_notes(groups),
        *_settings(groups),
        "<h2>Training</h2>",
        f"<p>{figures.TRAINING} One line for each run, those of equal settings alike.</p>",
        picture(figures.training_curves(groups, unit), "training loss by step"),
        picture(figures.training_curves(groups, unit, over_time=True), "training loss by time"),
        *_validation(groups, unit),
        *_text_losses(groups),
        *_accuracy(groups),
    ]
    write_page(path, document(f"Sextant: {len(runs)} runs compared", parts))
    return groups


def with_deviation(values: Sequence[float], form: str = ".3f") -> str:
    """A mean, and of several values their standard deviation."""
    if not values:
        return ""
    deviation = f" \u00b1 {stdev(values):{form}}" if len(values) > 1 else ""
    return f"{fmean(values):{form}}{deviation}"


def _overview(groups: Sequence[Group], unit: str) -> str:
    head = ["run", "seeds", "steps", f"least held-out loss ({unit})", "ms per step", "steps' time (s)"]
    rows = []
    for g in groups:
        least = [min(loss for _, loss in run.validation) for run in g.runs if run.validation]
        rows.append(
            [
                cell(g.name),
                cell(", ".join(map(str, g.seeds))),
                cell(", ".join(dict.fromkeys(str(len(run.steps)) for run in g.runs))),
                cell(with_deviation(least)),
                cell(with_deviation(g.step_ms, ".1f")),
                cell(with_deviation([run.seconds[-1] for run in g.runs if run.seconds], ".1f")),
            ]
        )
    return table(head, rows)


def _notes(groups: Sequence[Group]) -> list[str]:
    """In what evaluations differ from the trainings."""
    rows = [(f"{g.name}, seed {run.config['seed']}", note) for g in groups for run in g.runs for note in run.notes]
    return [pairs(rows)] if rows else []


def _settings(groups: Sequence[Group]) -> list[str]:
    """Those that differ as a table, the others in a line."""
    shared = shared_settings([run for g in groups for run in g.runs])
    parts = [f"<p class=small>All have: {html.escape(shared)}.</p>"]
    if found := differing(groups):
        rows = [
            [cell(g.name), *(cell(values[i]) for values in found.values())]
            for i, g in enumerate(groups)
        ]
        parts.insert(0, table(["run", *found], rows))
    return ["<h2>Settings that differ</h2>" if found else "<h2>Settings</h2>", *parts]


def _validation(groups: Sequence[Group], unit: str) -> list[str]:
    if not any(run.validation for g in groups for run in g.runs):
        return []
    drawn = picture(figures.validation_curves(groups, unit), "loss on held-out data by step")
    return [f"<p>Loss on some of the held-out data; a ring where it is least.</p>{drawn}"]


def _text_losses(groups: Sequence[Group]) -> list[str]:
    """By length, in both protocols, of the runs that are evaluated."""
    shown = [g for g in groups if any(run.all_tokens for run in g.runs)]
    if not shown:
        return []
    last = next((run.last for g in shown for run in g.runs if run.last_tokens), 0)
    parts = ["<h2>Loss by length</h2><p>Nats per byte, at multiples of the training length.</p>"]
    for protocol, name in (
        ("all_tokens", "all tokens of non-overlapping blocks"),
        ("last_tokens", f"last {last} tokens of each block"),
    ):
        parts += [
            f"<h3>{name.capitalize()}</h3>",
            _by_place(shown, protocol, multiple_name),
            picture(figures.extrapolation(shown, protocol, name), f"loss of {name} by length"),
        ]
    return parts


def _accuracy(groups: Sequence[Group]) -> list[str]:
    """By size of images, of the runs that are evaluated."""
    shown = [g for g in groups if any(run.accuracy for run in g.runs)]
    if not shown:
        return []
    return [
        "<h2>Top-1 accuracy by size of images</h2>",
        _by_place(shown, "accuracy", lambda size: f"{size} px"),
        picture(figures.accuracy_by_size(shown), "accuracy by size"),
    ]


def _by_place(groups: Sequence[Group], protocol: str, name: Callable) -> str:
    """What was measured, by multiple of the length or by size."""
    places = sorted({p for g in groups for run in g.runs for p in getattr(run, protocol)})
    rows = [
        [cell(g.name), *(cell(with_deviation(g.losses(protocol, p))) for p in places)]
        for g in groups
    ]
    return table(["run", *map(name, places)], rows)
