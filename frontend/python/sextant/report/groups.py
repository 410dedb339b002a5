"""Runs of a report, those of one list of encodings together: they differ in the seed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .results import Multiple, ReportError, RunResult

# What may differ between the runs of a group: data are known by their digest, not by where
# they lie.
_FREE = {"seed", "data", "validation_data", "target", "validate_every"}


@dataclass(frozen=True)
class Group:
    """Runs of the same settings but for the seed, in the order of seeds."""

    name: str
    runs: tuple[RunResult, ...]

    @property
    def seeds(self) -> list[int]:
        return [run.config["seed"] for run in self.runs]

    def losses(self, protocol: str, multiple: Multiple) -> list[float]:
        """By seed; without the runs that were not evaluated there."""
        found = (getattr(run, protocol).get(multiple) for run in self.runs)
        return [loss for loss in found if loss is not None]

    @property
    def step_ms(self) -> list[float]:
        return [run.step_ms for run in self.runs if run.step_ms]


def group(runs: Sequence[RunResult]) -> list[Group]:
    """Groups in the order of their first runs; a `ReportError` for runs that cannot be
    compared."""
    if not runs:
        raise ReportError("a report needs at least one run")
    _check_data(runs)
    names = dict.fromkeys(run.name for run in runs)
    return [_group(name, [run for run in runs if run.name == name]) for name in names]


def by_settings(runs: Sequence[RunResult], defaults: Mapping[str, Any]) -> list[Group]:
    """Groups of equal settings but for the seed, in the order of their first runs. Groups of
    the same encodings are named with the settings in which they differ. ``defaults`` stand
    for the settings that a run is older than."""
    if not runs:
        raise ReportError("a comparison needs at least one run")
    _check_data(runs)
    found: dict[str, list[RunResult]] = {}
    for run in (replace(run, config={**defaults, **run.config}) for run in runs):
        key = {n: v for n, v in run.config.items() if n not in _FREE and n != "encodings"}
        found.setdefault(json.dumps([run.name, key], sort_keys=True), []).append(run)
    groups = [_group(own[0].name, own) for own in found.values()]
    named = []
    for own in groups:
        others = [g for g in groups if g.name == own.name and g is not own]
        settings = differing([own, *others])
        spelled = ", ".join(f"{n} {values[0]}" for n, values in settings.items())
        named.append(Group(f"{own.name} ({spelled})" if spelled else own.name, own.runs))
    return named


def differing(groups: Sequence[Group]) -> dict[str, list[str]]:
    """The settings that groups do not share, each with its value by group."""
    configs = [g.runs[0].config for g in groups]
    found = {}
    for name in configs[0] if configs else ():
        values = [_spelled(config.get(name)) for config in configs]
        if name not in _FREE and name != "encodings" and len(set(values)) > 1:
            found[name] = values
    return found


def _spelled(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    return str(value)


def _group(name: str, runs: Sequence[RunResult]) -> Group:
    ordered = sorted(runs, key=lambda run: run.config["seed"])
    for before, after in itertools.pairwise(ordered):
        if before.config["seed"] == after.config["seed"]:
            raise ReportError(
                f"two runs have the same encodings and seed: {name}, seed "
                f"{after.config['seed']}; name one of them"
            )
        for key in sorted(before.config.keys() | after.config.keys()):
            one, other = before.config.get(key), after.config.get(key)
            if key not in _FREE and one != other:
                raise ReportError(
                    f"two runs of the same encodings, {name}, differ in {key}: {one} and "
                    f"{other}; only seeds may differ"
                )
    return Group(name, tuple(ordered))


def _check_data(runs: Sequence[RunResult]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if run.data != first.data:
            raise ReportError(
                f"runs on text and on images cannot be compared: {first.name} is of "
                f"{_source(first)}, {run.name} of {_source(run)}"
            )
        if _held_out(run) != _held_out(first):
            what, each = ("texts", "text") if run.data == "text" else ("images", "kind of images")
            one, other = _source(first), _source(run)
            if one == other:  # files that have changed between the trainings
                one, other = (f"{s} (SHA-256 {r.provenance[r.data][:12]})" for s, r in ((one, first), (other, run)))
            raise ReportError(
                f"runs on different {what} cannot be compared: {first.name} is of "
                f"{one}, {run.name} of {other}; write a report of each {each}"
            )
    _check_last(runs)


def _check_last(runs: Sequence[RunResult]) -> None:
    """Losses of the last tokens stand in one table, under one number of them."""
    measured = [run for run in runs if run.last_tokens]
    for run in measured[1:]:
        if run.last != measured[0].last:
            raise ReportError(
                f"the last tokens of a block are {measured[0].last} in the evaluation of "
                f"{_named(measured[0])}, and {run.last} in that of {_named(run)}: evaluate them alike "
                "(sextant eval RUN... --last N)"
            )


def _named(run: RunResult) -> str:
    return f"{run.name} with seed {run.config['seed']}"


def _held_out(run: RunResult) -> tuple[str, int]:
    """What tells the data of runs apart: the digest, and how much is held out."""
    return run.provenance[run.data], run.config.get("validation", 0)


def _source(run: RunResult) -> str:
    held_out = f" ({size} bytes held out)" if (size := _held_out(run)[1]) else ""
    return run.provenance["source"] + held_out
