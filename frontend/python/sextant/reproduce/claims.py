"""Orderings of losses, and whether runs of some seeds show them.

An ordering is a conjunction of claims, each that one quantity is less than another. This is
the rule by which runs decide (`Differences`, `decide`); the page of reproductions repeats it:

Runs of the same seed share the order of the data and the initial values of what the models
have in common, so a claim is decided by its differences of the same seed, over the seeds
that all methods of its ordering have. Their spread is the farthest of them from their mean.
A claim is held if the mean is above the spread, not held if it is as far below zero, and
otherwise below the noise. An ordering is held if all of its claims are, not held if one is
not, and otherwise below the noise of its seeds. One seed has no spread: the sign decides,
and its mark says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ..report.orderings import of_same_seed

# Of one run, by the point at which it was evaluated, such as a multiple of its length.
Losses = Mapping[int, float]


@dataclass(frozen=True)
class Names:
    """How methods and points are called. ``each``: what is said of a quantity that has no
    points, as the time of a step has none; ``digits``: behind the point of numbers."""

    titles: Mapping[str, str]
    point: Callable[[int], str]
    each: str = ""
    digits: int = 3


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
        where = names.each or (f"from {since} to {at}" if self.since else f"at {at}")
        sign = "+" if self.since else ""
        return f"{names.titles[self.method]} {self.of(losses):{sign}.{names.digits}f} {where}"


@dataclass(frozen=True)
class Claim:
    """``one`` is less than ``times`` ``other`` (a quantity, or a number) by more than ``by``."""

    one: Loss
    other: Loss | float
    by: float = 0.0
    times: float = 1.0

    @property
    def quantities(self) -> tuple[Loss, ...]:
        return (self.one, self.other) if isinstance(self.other, Loss) else (self.one,)

    def difference(self, losses: Mapping[str, Losses]) -> float:
        """How far the claim is held, below zero where it is not."""
        other = self.other.of(losses) if isinstance(self.other, Loss) else self.other
        return self.times * other - self.by - self.one.of(losses)

    def text(self, names: Names, losses: Mapping[str, Losses]) -> str:
        if isinstance(self.other, Loss):
            other = self.other.text(names, losses)
        else:
            other = f"{self.other:g}"
        sign = "less than" if self.difference(losses) > 0 else "not less than"
        by = f" less {self.by:g}" if self.by > 0 else f" plus {-self.by:g}" if self.by else ""
        times = f"{self.times:g} times " if self.times != 1.0 else ""
        return f"{self.one.text(names, losses)}: {sign} {times}{other}{by}"


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
class Differences:
    """Of one claim, by seed: their ``mean``, and as ``spread`` the farthest from it."""

    mean: float
    spread: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Differences:
        mean = fmean(values)
        return cls(mean, max(abs(value - mean) for value in values))

    @property
    def held(self) -> bool | None:
        """None: below the noise."""
        if self.mean > self.spread:
            return True
        return False if self.mean <= -self.spread else None


@dataclass(frozen=True)
class Verdict:
    """``mark``: what the runs say. ``margin``: the differences of the claim that decides, that
    with the least mean of those that are as the ordering is. ``numbers``: the quantities of
    such claims, of a held ordering of the closest one, in the means over seeds."""

    ordering: Ordering
    held: bool | None
    seeds: int
    margin: Differences
    numbers: str

    @property
    def mark(self) -> str:
        if self.held is None:
            return f"below the noise of {self.seeds} seeds"
        return ("held" if self.held else "not held") + (" (one seed)" if self.seeds == 1 else "")

    @property
    def spelled_margin(self) -> str:
        spread = f" \u00b1 {self.margin.spread:.3f}" if self.seeds > 1 else ""
        return f"{self.margin.mean:+.3f}{spread}"


_SHOWN = 3


def decide(
    ordering: Ordering, runs: Mapping[str, Mapping[int, Losses]], names: Names
) -> Verdict | None:
    """The verdict of runs, by method and seed; None where losses are missing, or no seed is
    one of all methods."""
    if any(not runs.get(method) for method in ordering.methods):
        return None
    paired = of_same_seed(runs, ordering.methods)
    if not paired or any(
        point not in losses[method]
        for losses in paired.values()
        for method, point in ordering.points
    ):
        return None
    found = {
        claim: Differences.of([claim.difference(losses) for losses in paired.values()])
        for claim in ordering.claims
    }
    states = {differences.held for differences in found.values()}
    held = False if False in states else None if None in states else True
    deciding = sorted(
        (claim for claim in found if found[claim].held is held), key=lambda c: found[c].mean
    )
    shown = deciding[: 1 if held else _SHOWN]
    means = {name: _mean([losses[name] for losses in paired.values()]) for name in ordering.methods}
    numbers = "; ".join(claim.text(names, means) for claim in shown)
    if not held and len(deciding) > _SHOWN:
        numbers += f"; and {len(deciding) - _SHOWN} more"
    return Verdict(ordering, held, len(paired), found[deciding[0]], numbers)


def _mean(runs: Sequence[Losses]) -> Losses:
    shared = set.intersection(*(set(losses) for losses in runs))
    return {m: fmean(losses[m] for losses in runs) for m in shared}


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


def within(one: str, other: str, at: int, by: float, since: int = 1) -> tuple[Claim, ...]:
    """From ``since`` on the losses of two methods grow alike, but for ``by``."""
    ours, theirs = Loss(one, at, since), Loss(other, at, since)
    return Claim(ours, theirs, -by), Claim(theirs, ours, -by)


def no_slower(one: str, other: str, times: float) -> tuple[Claim, ...]:
    """A step takes at most ``times`` as long as that of another method; of `STEP_TIME`."""
    return (Claim(Loss(one, 1), Loss(other, 1), times=times),)
