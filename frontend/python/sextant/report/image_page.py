"""What a report says of classifiers of images: accuracy and loss by size."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from . import figures
from .biases import bias_parts
from .document import cell, picture, table
from .groups import Group
from .origin import origin, spread_text


def image_parts(groups: Sequence[Group]) -> list[str]:
    """What the page says of runs on images."""
    size = groups[0].runs[0].config["size"]
    return [
        "<h2>Images</h2>",
        origin(groups),
        "<h3>Top-1 accuracy</h3>",
        "<p>Share of held-out images that are classified rightly, by their size; trained at "
        f"{size} x {size}{spread_text(groups)}.</p>",
        _size_table(groups, "accuracy"),
        picture(figures.accuracy_by_size(groups), "accuracy by size of images"),
        "<h3>Loss</h3>",
        "<p>Cross entropy in nats per image.</p>",
        _size_table(groups, "size_losses"),
        "<h3>Training on images</h3>",
        f"<p>{figures.TRAINING}</p>",
        picture(figures.training_curves(groups, "nats per image"), "training loss by step"),
        picture(figures.step_times(groups), "time per training step"),
        *bias_parts(groups, 3),
    ]


def _size_table(groups: Sequence[Group], measure: str) -> str:
    """By size; the best of a column is marked."""
    sizes = sorted({n for g in groups for run in g.runs for n in getattr(run, measure)})
    several = any(len(g.runs) > 1 for g in groups)
    best = {}
    for size in sizes:
        means = [fmean(found) for g in groups if (found := g.losses(measure, size))]
        best[size] = max(means) if measure == "accuracy" else min(means)
    rows = []
    for g in groups:
        row = [cell(g.name), *([cell(str(len(g.runs)))] if several else [])]
        for size in sizes:
            found = g.losses(measure, size)
            is_best = bool(found) and fmean(found) == best[size]
            row.append(cell(_spelled(found, measure), "best" if is_best else ""))
        rows.append(row)
    head = [*(["seeds"] if several else []), *(f"{n} x {n}" for n in sizes)]
    return table(["encodings", *head], rows)


def _spelled(found: Sequence[float], measure: str) -> str:
    """The mean, with the distance of the farthest from it."""
    if not found:
        return ""
    mean = fmean(found)
    spread = max(abs(value - mean) for value in found)
    form = ".1%" if measure == "accuracy" else ".3f"
    return f"{mean:{form}}" + (f" \u00b1 {spread:{form}}" if len(found) > 1 else "")
