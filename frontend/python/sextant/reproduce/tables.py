"""The tables of a reproduction, as rows of text, for a page and for Markdown alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ..report.results import RunResult
from .outcome import PROTOCOLS, Outcome
from .paper import Published

# The mark of an ordering that the finished runs cannot show.
NOT_RUN = "not run"


@dataclass(frozen=True)
class Table:
    """``rows`` are as long as ``head``; the first column names, the others are numbers,
    or words if ``words``."""

    title: str
    text: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: bool = False


def tables(outcome: Outcome) -> list[Table]:
    """Losses by the two protocols, beside the paper's, orderings, and times."""
    scale = outcome.reproduction.scale
    return [
        *(_published(outcome, table) for table in outcome.reproduction.paper.tables),
        orderings(outcome),
        _losses(outcome, False, "Losses of all tokens"),
        _losses(outcome, True, f"Losses of the last {scale.last} tokens of each block"),
        _methods(outcome),
    ]


def _losses(outcome: Outcome, last: bool, title: str) -> Table:
    multiples = outcome.reproduction.scale.multiples
    rows = [
        (outcome.titles[name], *(_loss(runs, last, m) for m in multiples))
        for name, runs in outcome.results.items()
    ]
    return Table(
        title,
        f"Nats per byte at multiples of the training length{_spread(outcome)}.",
        ("method", *(f"{m}x" for m in multiples)),
        tuple(rows),
    )


def _spread(outcome: Outcome) -> str:
    if len(outcome.seeds) < 2:
        return ""
    return "; the mean of the seeds, \u00b1 the farthest from it"


def _loss(runs: Sequence[RunResult], last: bool, multiple: int) -> str:
    losses = [getattr(run, PROTOCOLS[last])[multiple] for run in runs]
    mean = fmean(losses)
    if len(losses) == 1:
        return f"{mean:.3f}"
    return f"{mean:.3f} \u00b1 {max(abs(loss - mean) for loss in losses):.3f}"


def _published(outcome: Outcome, table: Published) -> Table:
    """A table of the paper, the losses of here on its left."""
    multiples = outcome.reproduction.scale.multiples
    rows = []
    for name, numbers in table.rows.items():
        here = outcome.results.get(name)
        ours = [_loss(here, table.last, m) if here else "" for m in multiples]
        theirs = [_number(n) for n in numbers] + [""] * (len(table.columns) - len(numbers))
        rows.append((outcome.titles[name], *ours, *theirs))
    counted = (
        f"the last {outcome.reproduction.scale.last} tokens of each block"
        if table.last
        else "all tokens"
    )
    return Table(
        table.title,
        f"Left: here, nats per byte of {counted}{_spread(outcome)}. Right: the paper, {table.unit}.",
        ("method", *(f"{m}x" for m in multiples), *table.columns),
        tuple(rows),
    )


def _number(value: float) -> str:
    return f"{value:.5g}"


def orderings(outcome: Outcome) -> Table:
    """Each ordering with its mark."""
    rows = []
    for ordering, verdict in outcome.verdicts.items():
        said = (verdict.mark, verdict.spread, verdict.numbers) if verdict else (NOT_RUN, "", "")
        rows.append((ordering.text, *said, outcome.remarks.get(ordering.name, "")))
    several = (
        " A margin is that of the mean losses, with the least and the greatest of all choices of "
        "one seed per method; an ordering is held if all of them are positive."
        if len(outcome.seeds) > 1
        else " With one seed a sign is a sign: how far another seed would be from it is not known."
    )
    return Table(
        "Orderings",
        "What the paper's numbers show, and whether these runs do. The margin, in nats per byte, "
        f"is the least difference that the ordering speaks of.{several}",
        ("ordering", "here", "margin", "closest, or what is not so", "likely reason"),
        tuple(rows),
        words=True,
    )


def _methods(outcome: Outcome) -> Table:
    """What was trained, and how long a step took."""
    paper = outcome.reproduction.paper
    rows = []
    for method in paper.methods:
        runs = outcome.results.get(method.name)
        if runs:
            ms = fmean(run.step_ms for run in runs)
            use = runs[0].name
            rows.append(
                (
                    method.title,
                    use,
                    ", ".join(f"{n} = {v}" for n, v in method.settings.items()),
                    f"{runs[0].parameters:,}",
                    f"{ms:.0f}",
                    f"{outcome.seconds(method.name):.0f}",
                    method.about,
                )
            )
    for variation in paper.variations:
        if variation.name in outcome.results:
            of = paper.titles[variation.of]
            rows.append(
                (variation.title, ", ".join(variation.settings), f"runs of {of}", *[""] * 4)
            )
    return Table(
        "Methods",
        "The time of a step is a median, that of a training all its steps of all seeds.",
        ("method", "encodings", "settings", "parameters", "ms a step", "s", "about"),
        tuple(rows),
        words=True,
    )
