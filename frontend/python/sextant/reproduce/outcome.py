"""What the finished runs of a reproduction say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..processors import model_name
from ..report.groups import Group
from ..report.results import EVALUATION, RunResult, read_run
from .claims import Ordering, Verdict, decide
from .engine import Reproduction
from .listing import Planned, ReproduceError, file_of, state_of

# Of a table, and how a result names the losses of the two protocols.
PROTOCOLS = {False: "all_tokens", True: "last_tokens"}


@dataclass(frozen=True)
class Outcome:
    """``results``: by method and variation, one for each seed. ``missing``: runs that are
    not finished. ``remarks``: by the name of the ordering."""

    reproduction: Reproduction
    results: Mapping[str, Sequence[RunResult]]
    missing: Sequence[Planned]
    remarks: Mapping[str, str]

    @property
    def titles(self) -> Mapping[str, str]:
        return self.reproduction.paper.titles

    @cached_property
    def groups(self) -> list[Group]:
        """The results as figures draw them."""
        return [Group(self.titles[name], tuple(runs)) for name, runs in self.results.items()]

    @cached_property
    def verdicts(self) -> dict[Ordering, Verdict | None]:
        """Of each ordering; None of those that the finished runs cannot show."""
        found = {}
        for ordering in self.reproduction.paper.orderings:
            of = PROTOCOLS[ordering.last]
            losses = {n: [getattr(r, of) for r in runs] for n, runs in self.results.items()}
            found[ordering] = decide(ordering, losses, self.titles)
        return found

    @property
    def seeds(self) -> list[int]:
        return sorted({run.config["seed"] for runs in self.results.values() for run in runs})

    def seconds(self, name: str) -> float:
        """Of the steps of a method's training, all seeds together."""
        return sum(run.step_ms * len(run.steps) for run in self.results[name]) / 1000

    @property
    def trained_seconds(self) -> float:
        own = {method.name for method in self.reproduction.paper.methods}
        return sum(self.seconds(name) for name in self.results if name in own)

    def origin(self) -> list[tuple[str, str]]:
        """What was trained on what, where, when, and by which Sextant."""
        first = next(iter(self.results.values()))[0]
        every = [run for runs in self.results.values() for run in runs]
        scale = self.reproduction.scale
        seeds = ", ".join(map(str, self.seeds))
        if len(self.seeds) == 1:
            seeds += ": what a single seed says decides nothing beyond its mark"
        revisions = dict.fromkeys(run.provenance["revision"] for run in every)
        days = sorted(run.provenance["saved"][:10] for run in every)
        rows = [
            ("paper", self.reproduction.paper.source),
            ("reproduction", self.reproduction.paper.about),
            ("scale", f"{scale.name}: {_spelled(scale.settings)}"),
            ("settings of the paper", _spelled(self.reproduction.paper.settings) or "none besides"),
            ("seeds", seeds),
            ("text", f"{first.provenance['source']} (SHA-256 {first.provenance['text'][:12]})"),
            (
                "evaluation",
                f"blocks of {min(scale.multiples)}x to {max(scale.multiples)}x the training length "
                f"of at most {scale.validation:,} bytes of held-out text; nats per byte",
            ),
            ("trained", f"{days[0]} to {days[-1]}" if days[0] != days[-1] else days[0]),
            ("time", f"{self.trained_seconds:.0f} s of training steps on {model_name()}"),
            ("by", "Sextant " + ", ".join(revisions)),
        ]
        if self.missing:
            rows.append(("not finished", ", ".join(run.name for run in self.missing)))
        return rows


def collect(reproduction: Reproduction, remarks: Mapping[str, str]) -> Outcome:
    """The results of the finished runs; none are a `ReproduceError`."""
    results: dict[str, list[RunResult]] = {}
    missing = []
    for run in reproduction.runs:
        if state_of(run, reproduction.scale, reproduction.data).missing:
            missing.append(run)
            continue
        results.setdefault(run.method.name, []).append(read_run(run.folder, EVALUATION))
        for variation in run.variations:
            found = read_run(run.folder, file_of(variation))
            results.setdefault(variation.name, []).append(found)
    if not results:
        raise ReproduceError(f"{reproduction.folder} holds no finished run to report on")
    return Outcome(reproduction, results, missing, remarks)


def _spelled(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())
