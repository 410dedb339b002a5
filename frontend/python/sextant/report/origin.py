"""What a report says of its runs before their results: data, settings, seeds, revision."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from ..revision import revision
from ..training.config import FOREIGN, GPT
from .document import pairs
from .groups import Group
from .results import RunResult


def spread_text(groups: Sequence[Group]) -> str:
    if all(len(g.runs) == 1 for g in groups):
        return ""
    return "; of several seeds the mean, \u00b1 the farthest from it"


def origin(groups: Sequence[Group]) -> str:
    """What was trained, on what, when, by which Sextant, with which settings."""
    runs = [run for g in groups for run in g.runs]
    first, data = runs[0].provenance, runs[0].data
    seeds = sorted({seed for g in groups for seed in g.seeds})
    fewest = min(len(g.runs) for g in groups)
    dates = sorted(run.provenance["saved"][:10] for run in runs)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    now = datetime.datetime.now(datetime.timezone.utc)
    rows = [
        (data, f"{first['source']} (SHA-256 {first[data][:12]})"),
        ("trained", f"{when}, by Sextant {_listed(r.provenance['revision'] for r in runs)}"),
        ("seeds", _listed(map(str, seeds)) + _seed_warning(fewest)),
        ("parameters", _listed(f"{n:,}" for n in sorted({run.parameters for run in runs}))),
        ("settings", shared_settings(runs)),
        ("written", f"{now:%Y-%m-%d %H:%M} UTC, by Sextant {revision()}"),
    ]
    if different := _different(groups):
        rows.insert(5, ("settings that differ", different))
    rows += [("extended", text) for text in map(_extension, runs) if text]
    rows += [("note", f"{run.name}: {note}") for run in runs for note in run.notes]
    return pairs(rows)


def _seed_warning(fewest: int) -> str:
    if fewest > 1:
        return ""
    return ": one seed does not show how far another would be from it"


def _listed(texts) -> str:
    return ", ".join(dict.fromkeys(texts))


def _extension(run: RunResult) -> str:
    """Rates follow the number of steps that was asked for at the time."""
    parts = [f"after step {step}, from {steps} steps" for step, steps in run.provenance["extended"]]
    return f"{run.name}: {'; '.join(parts)} on" if parts else ""


# Apart from these, settings are of interest.
_NAMED = ("encodings", "seed", "data")


def shared_settings(runs: Sequence[RunResult]) -> str:
    """The settings that all runs share, of their kind of model."""
    hidden = {*_NAMED, *FOREIGN[runs[0].config.get("model", GPT)]}
    return ", ".join(
        f"{key} = {value}"
        for key, value in runs[0].config.items()
        if key not in hidden and all(r.config.get(key) == value for r in runs)
    )


def _different(groups: Sequence[Group]) -> str:
    """The settings that runs do not share, by run."""
    configs = {g.name: g.runs[0].config for g in groups}
    keys = dict.fromkeys(k for config in configs.values() for k in config if k not in _NAMED)
    parts = []
    for key in keys:
        values = {name: config.get(key) for name, config in configs.items()}
        if len(set(map(str, values.values()))) > 1:
            parts.append(f"{key}: " + ", ".join(f"{n} {v}" for n, v in values.items()))
    return "; ".join(parts)
