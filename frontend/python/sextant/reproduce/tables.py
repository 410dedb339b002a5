"""The tables of a reproduction, as rows of text, for a page and for Markdown alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ..report.results import RunResult
from .outcome import Outcome
from .paper import Published
from .scale import Protocol
from .spans import SPANS, total

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
    """What was measured beside the paper's numbers, orderings, all measures, and times."""
    return [
        *(_published(outcome, table) for table in outcome.reproduction.paper.tables),
        orderings(outcome),
        *(_measured(outcome, p) for p in outcome.reproduction.scale.protocols.values()),
        _methods(outcome),
    ]


def _measured(outcome: Outcome, protocol: Protocol) -> Table:
    """One measure of all methods."""
    scale = outcome.reproduction.scale
    rows = [
        (outcome.titles[name], *(_mean(runs, protocol, p) for p in scale.points))
        for name, runs in outcome.results.items()
    ]
    return Table(
        f"All methods: {protocol.title}",
        f"{protocol.unit[0].upper()}{protocol.unit[1:]}{_spread(outcome)}.",
        ("method", *map(scale.spell, scale.points)),
        tuple(rows),
    )


def _spread(outcome: Outcome) -> str:
    if len(outcome.seeds) < 2:
        return ""
    return "; the mean of the seeds, \u00b1 the farthest from it"


def _mean(runs: Sequence[RunResult], protocol: Protocol, point: int) -> str:
    found = [protocol.of(run)[point] for run in runs]
    mean = fmean(found)
    if len(found) == 1:
        return f"{mean:.3f}"
    return f"{mean:.3f} \u00b1 {max(abs(value - mean) for value in found):.3f}"


def _published(outcome: Outcome, table: Published) -> Table:
    """A table of the paper, what was measured here on its left."""
    scale, protocol = outcome.reproduction.scale, outcome.protocol(table.protocol)
    rows = []
    for name, numbers in table.rows.items():
        here = outcome.results.get(name)
        ours = [_mean(here, protocol, p) if here else "" for p in scale.points]
        theirs = [_number(n) for n in numbers] + [""] * (len(table.columns) - len(numbers))
        rows.append((outcome.titles[name], *ours, *theirs))
    return Table(
        table.title,
        f"Left: here, {protocol.unit}, {protocol.title}{_spread(outcome)}. Right: the paper, "
        f"{table.unit}.",
        ("method", *map(scale.spell, scale.points), *table.columns),
        tuple(rows),
    )


def _number(value: float) -> str:
    return f"{value:.5g}"


def orderings(outcome: Outcome) -> Table:
    """Each ordering with its mark."""
    rows = []
    for ordering, verdict in outcome.verdicts.items():
        said = (verdict.mark, verdict.spelled_margin, verdict.numbers) if verdict else (NOT_RUN, "", "")
        rows.append((ordering.text, *said, outcome.remarks.get(ordering.name, "")))
    several = (
        " Differences are of runs of the same seed: their mean, \u00b1 the farthest from it. A claim "
        "is held if the mean is above that, not held if it is as far below zero; an ordering is held "
        "if all of its claims are, not held if one is not, otherwise below the noise of the seeds."
        if len(outcome.seeds) > 1
        else " With one seed a sign is a sign: how far another seed would be from it is not known."
    )
    return Table(
        "Orderings",
        "What the paper's numbers show, and whether these runs do. The margin is the "
        f"least of the differences that decide.{several}",
        ("ordering", "here", "margin", "what decides", "likely reason"),
        tuple(rows),
        words=True,
    )


def _wall(outcome: Outcome, method: str) -> str:
    """Of all runs of a method, nothing where that of one is not known."""
    known = all(run.provenance.get(SPANS) for run in outcome.results[method])
    return f"{total(outcome.spans(method)):.0f}" if known else ""


def _methods(outcome: Outcome) -> Table:
    """What was trained, and how long steps took, and all of it where that is known."""
    paper = outcome.reproduction.paper
    is_timed = any(map(outcome.spans, outcome.trained))
    rows: list[tuple[str, ...]] = []
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
                    *((_wall(outcome, method.name),) if is_timed else ()),
                    method.about,
                )
            )
    for variation in paper.variations:
        if variation.name in outcome.results:
            of = paper.titles[variation.of]
            rest = [""] * (5 if is_timed else 4)
            rows.append((variation.title, ", ".join(variation.settings), f"runs of {of}", *rest))
    return Table(
        "Methods",
        "The time of a step is a median, that of a training all its steps of all seeds"
        + ("; wall time has compilation and evaluations, too." if is_timed else "."),
        (
            *("method", "encodings", "settings", "parameters", "ms a step", "s"),
            *(("wall s",) if is_timed else ()),
            "about",
        ),
        tuple(rows),
        words=True,
    )
