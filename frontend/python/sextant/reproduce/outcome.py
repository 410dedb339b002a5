"""What the finished runs of a reproduction say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..processors import model_name
from ..report.groups import Group
from ..report.results import EVALUATION, RunResult
from .claims import Names, Ordering, Verdict, decide
from .engine import Reproduction
from .listing import Planned, ReproduceError, file_of
from .scale import Protocol
from .spans import SPANS, Span, covered, total


@dataclass(frozen=True)
class Outcome:
    """``results``: by method and variation, one for each seed. ``missing``: runs that are
    not finished. ``remarks``: by the name of the ordering or figure. ``query``: of which figures are."""

    reproduction: Reproduction
    results: Mapping[str, Sequence[RunResult]]
    missing: Sequence[Planned]
    remarks: Mapping[str, str]
    query: int | None = None

    @property
    def titles(self) -> Mapping[str, str]:
        return self.reproduction.paper.titles

    def protocol(self, name: str) -> Protocol:
        """One of the scale's measures, by default the first."""
        protocols = self.reproduction.scale.measures
        return protocols[name or next(iter(protocols))]

    @cached_property
    def groups(self) -> list[Group]:
        """The results as figures draw them."""
        return [Group(self.titles[name], tuple(runs)) for name, runs in self.results.items()]

    @cached_property
    def verdicts(self) -> dict[Ordering, Verdict | None]:
        """Of each ordering; None of those that the finished runs cannot show."""
        found = {}
        spell = self.reproduction.scale.spell
        for ordering in self.reproduction.paper.orderings:
            protocol = self.protocol(ordering.protocol)
            names = Names(self.titles, spell, protocol.each, protocol.digits)
            losses = {
                name: {run.config["seed"]: protocol.of(run) for run in runs}
                for name, runs in self.results.items()
            }
            found[ordering] = decide(ordering, losses, names)
        return found

    @property
    def seeds(self) -> list[int]:
        return sorted({run.config["seed"] for runs in self.results.values() for run in runs})

    def seconds(self, name: str) -> float:
        """Of the steps of a method's training, all seeds together."""
        return sum(run.seconds[-1] for run in self.results[name] if run.seconds)

    def spans(self, name: str) -> list[Span]:
        """Of a method's runs, those of all seeds; none of results that are older than spans."""
        return [tuple(s) for run in self.results[name] for s in run.provenance.get(SPANS, ())]

    @property
    def trained(self) -> list[str]:
        """The methods that have finished runs, without variations, which are not trained."""
        own = {method.name for method in self.reproduction.paper.methods}
        return [name for name in self.results if name in own]

    def time(self) -> str:
        """Of the trainings, and how long they and the evaluations took."""
        said = f"{sum(map(self.seconds, self.trained)):.0f} s of training steps"
        spans = [span for name in self.trained for span in self.spans(name)]
        if not spans:
            return said
        runs = [run for name in self.trained for run in self.results[name]]
        timed = sum(SPANS in run.provenance for run in runs)
        of = f" of {timed} of {len(runs)} runs" if timed < len(runs) else ""
        return (
            f"{said}; with compilation and evaluations {total(spans):.0f} s{of}, side by side "
            f"{covered(spans):.0f} s of wall time"
        )

    def origin(self) -> list[tuple[str, str]]:
        """What was trained on what, where, when, and by which Sextant."""
        first = next(iter(self.results.values()))[0]
        every = [run for runs in self.results.values() for run in runs]
        scale = self.reproduction.scale
        seeds = ", ".join(map(str, self.seeds))
        if len(self.seeds) == 1:
            seeds += ": what a single seed says decides nothing beyond its mark"
        revisions = dict.fromkeys(run.provenance["revision"] for run in every)
        machines = ", ".join(
            dict.fromkeys(run.provenance.get("machine", model_name()) for run in every)
        )
        days = sorted(run.provenance["saved"][:10] for run in every)
        rows = [
            ("paper", self.reproduction.paper.source),
            ("reproduction", self.reproduction.paper.about),
            ("scale", f"{scale.name}: {_spelled(scale.settings)}"),
            ("settings of the paper", _spelled(self.reproduction.paper.settings) or "none besides"),
            ("seeds", seeds),
            (
                first.data,
                f"{first.provenance['source']} (SHA-256 {first.provenance[first.data][:12]})",
            ),
            ("evaluation", scale.evaluated),
            ("trained", f"{days[0]} to {days[-1]}" if days[0] != days[-1] else days[0]),
            ("time", f"{self.time()} on {machines}"),
            ("by", "Sextant " + ", ".join(revisions)),
        ]
        if self.missing:
            rows.append(("not finished", ", ".join(run.name for run in self.missing)))
        return rows


def collect(
    reproduction: Reproduction, remarks: Mapping[str, str], query: int | None = None
) -> Outcome:
    """The results of the finished runs; none are a `ReproduceError`."""
    results: dict[str, list[RunResult]] = {}
    missing = []
    finished = reproduction.results()
    for run in reproduction.runs:
        if run.key not in finished:
            missing.append(run)
            continue
        found = finished[run.key]
        results.setdefault(run.method.name, []).append(found[EVALUATION])
        for variation in run.variations:
            results.setdefault(variation.name, []).append(found[file_of(variation)])
    if not results:
        raise ReproduceError(f"{reproduction.folder} holds no finished run to report on")
    return Outcome(reproduction, results, missing, remarks, query)


def _spelled(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())
