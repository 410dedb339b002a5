"""Orderings of losses, and whether runs of some seeds show them.

An ordering is a conjunction of claims, each that one quantity is less than another. The
least of the differences is its margin. Runs of one seed have one margin, whose sign says
whether the ordering is held in them, and no more; with several seeds there is a margin for
each choice of one run per method, and what not all of them say is below the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..report.orderings import choices

# Of one run, by the point at which it was evaluated, such as a multiple of its length.
Losses = Mapping[int, float]


@dataclass(frozen=True)
class Names:
    """How methods and points are called."""

    titles: Mapping[str, str]
    point: Callable[[int], str]


@dataclass(frozen=True)
class Loss:
    """What is measured of a method at a point; with ``since``, by how much it is more than
    that at another point."""

    method: str
    at: int
    since: int = 0

    def of(self, losses: Mapping[str, Losses]) -> float:
        found = losses[self.method]
        return found[self.at] - (found[self.since] if self.since else 0.0)

    @property
    def points(self) -> tuple[int, ...]:
        return (self.at, self.since) if self.since else (self.at,)

    def text(self, names: Names, losses: Mapping[str, Losses]) -> str:
        at, since = names.point(self.at), names.point(self.since)
        where = f"from {since} to {at}" if self.since else f"at {at}"
        sign = "+" if self.since else ""
        return f"{names.titles[self.method]} {self.of(losses):{sign}.3f} {where}"


@dataclass(frozen=True)
class Claim:
    """``one`` is less than ``other`` (a quantity, or a number) by more than ``by``."""

    one: Loss
    other: Loss | float
    by: float = 0.0

    @property
    def quantities(self) -> tuple[Loss, ...]:
        return (self.one, self.other) if isinstance(self.other, Loss) else (self.one,)

    def margin(self, losses: Mapping[str, Losses]) -> float:
        other = self.other.of(losses) if isinstance(self.other, Loss) else self.other
        return other - self.by - self.one.of(losses)

    def text(self, names: Names, losses: Mapping[str, Losses]) -> str:
        if isinstance(self.other, Loss):
            other = self.other.text(names, losses)
        else:
            other = f"{self.other:g}"
        sign = "less than" if self.margin(losses) > 0 else "not less than"
        by = f" less {self.by:g}" if self.by > 0 else f" plus {-self.by:g}" if self.by else ""
        return f"{self.one.text(names, losses)}: {sign} {other}{by}"


@dataclass(frozen=True)
class Ordering:
    """``name``: by which remarks speak of it. ``protocol``: the measure that it is of, by
    default the scale's first."""

    name: str
    text: str
    claims: tuple[Claim, ...]
    protocol: str = ""

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(q.method for c in self.claims for q in c.quantities))

    @property
    def points(self) -> set[tuple[str, int]]:
        """The methods and points that must have been measured."""
        return {(q.method, m) for c in self.claims for q in c.quantities for m in q.points}


@dataclass(frozen=True)
class Verdict:
    """``mark``: what the runs say. ``margins``: least, mean and greatest, in the measure's unit.
    ``numbers``: the claims that are not so in the means over seeds, or the closest one."""

    ordering: Ordering
    held: bool | None
    seeds: int
    margins: tuple[float, float, float]
    numbers: str

    @property
    def mark(self) -> str:
        if self.held is None:
            return f"below the noise of {self.seeds} seeds"
        return ("held" if self.held else "not held") + (" (one seed)" if self.seeds == 1 else "")

    @property
    def spread(self) -> str:
        least, mean, most = self.margins
        return f"{mean:+.3f}" + (f" ({least:+.3f} to {most:+.3f})" if self.seeds > 1 else "")


_SHOWN = 3


def decide(
    ordering: Ordering, runs: Mapping[str, Sequence[Losses]], names: Names
) -> Verdict | None:
    """The verdict of runs, by method one for each seed; None where losses are missing."""
    for method, point in ordering.points:
        if not runs.get(method) or any(point not in losses for losses in runs[method]):
            return None
    own = ordering.methods
    margins = [
        min(claim.margin(chosen) for claim in ordering.claims) for chosen in choices(runs, own)
    ]
    means = {name: _mean(runs[name]) for name in own}
    held = True if min(margins) > 0 else False if max(margins) <= 0 else None
    by_margin = sorted(ordering.claims, key=lambda claim: claim.margin(means))
    failing = [claim for claim in by_margin if claim.margin(means) <= 0]
    shown = (failing or by_margin[:1])[:_SHOWN]
    numbers = "; ".join(claim.text(names, means) for claim in shown)
    if len(failing) > _SHOWN:
        numbers += f"; and {len(failing) - _SHOWN} more"
    middle = min(claim.margin(means) for claim in ordering.claims)
    seeds = min(len(runs[name]) for name in own)
    return Verdict(ordering, held, seeds, (min(margins), middle, max(margins)), numbers)


def _mean(runs: Sequence[Losses]) -> Losses:
    shared = set.intersection(*(set(losses) for losses in runs))
    return {m: sum(losses[m] for losses in runs) / len(runs) for m in shared}


# How papers write them -------------------------------------------------------------


def below(one: str, other: str, *multiples: int, by: float = 0.0) -> tuple[Claim, ...]:
    """At each multiple the loss of a method is below that of another one."""
    return tuple(Claim(Loss(one, m), Loss(other, m), by) for m in multiples)


def flatter(one: str, other: str, *multiples: int, since: int = 1) -> tuple[Claim, ...]:
    """From ``since`` on the loss of a method grows less than that of another one."""
    return tuple(Claim(Loss(one, m, since), Loss(other, m, since)) for m in multiples)


def grows(method: str, at: int, by: float, since: int = 1) -> tuple[Claim, ...]:
    """A loss is more than ``by`` above that at ``since``."""
    return (Claim(Loss(method, since), Loss(method, at), by),)


def stays(method: str, *multiples: int, within: float, since: int = 1) -> tuple[Claim, ...]:
    """A loss is nowhere more than ``within`` above that at ``since``."""
    return tuple(Claim(Loss(method, m, since), within) for m in multiples)
