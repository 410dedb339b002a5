"""The results of finished runs in one file, which a reproduction elsewhere takes in: further
seeds need not be trained on the same machine, or on the same day.

A file holds evaluations, and some losses and times of the training; no parameters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ..processors import model_name
from ..report.results import EVALUATION, RunResult, evaluation, from_evaluation
from ..training.config import TrainConfig
from ..training.kinds import kind_of
from .listing import Planned, ReproduceError, different

if TYPE_CHECKING:
    from .engine import Reproduction

RESULTS = "results.json"
# By method and seed: the result of each evaluation, by its file.
Results = Mapping[tuple[str, int], Mapping[str, RunResult]]

_FORMAT = 1
# As many as a curve shows.
_STRETCHES = 100


def dump_results(reproduction: Reproduction, results: Results) -> str:
    """The text of a file."""
    runs = [
        {
            "method": method,
            "seed": seed,
            "evaluations": {file: _stored(result) for file, result in found.items()},
        }
        for (method, seed), found in results.items()
    ]
    head = {
        "format": _FORMAT,
        "paper": reproduction.paper.name,
        "scale": reproduction.scale.name,
    }
    lines = ",\n".join(json.dumps(run, allow_nan=False) for run in runs)
    return f'{json.dumps(head)[:-1]}, "runs": [\n{lines}\n]}}\n'


def read_results(files: Iterable[str | Path], reproduction: Reproduction) -> Results:
    """The runs of ``reproduction`` that files hold; of two of the same seed the first. What is
    not of this paper, scale, settings and data is a `ReproduceError`, and so is a file of which
    no run is planned."""
    found: dict[tuple[str, int], Mapping[str, RunResult]] = {}
    for file in map(Path, files):
        stored = _read(file, reproduction)
        if not stored.keys() & {run.key for run in reproduction.runs}:
            held = ", ".join(f"{method} of seed {seed}" for method, seed in stored) or "none"
            raise ReproduceError(
                f"{file} holds no run that is planned here, which --seeds and --only say: its runs "
                f"are {held}"
            )
        for run in reproduction.runs:
            if run.key in stored and run.key not in found:
                found[run.key] = _checked(stored[run.key], run, reproduction, file)
    return found


def _stored(result: RunResult) -> dict[str, Any]:
    """An evaluation without what only a report of a single run draws. Of the training the
    mean loss of each of some stretches of steps, by the last step of the stretch."""
    every = max(1, -(-len(result.steps) // _STRETCHES))
    ends = range(len(result.steps), 0, -every)[::-1]
    losses = [fmean(loss for _, loss in result.steps[max(0, end - every) : end]) for end in ends]
    stored = evaluation(result)
    return {
        **stored,
        "config": _without_folders(stored["config"]),
        "biases": [],
        "grid_biases": [],
        "adaptive": [],
        "provenance": {"machine": model_name(), **result.provenance},
        "step_ms": round(result.step_ms, 2),
        "steps": [(result.steps[end - 1][0], round(loss, 4)) for end, loss in zip(ends, losses)],
        "seconds": [round(result.seconds[end - 1], 2) for end in ends],
    }


def _without_folders(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which what lies on this machine has its name, and no place."""
    return {
        **config,
        "init": Path(config["init"]).name,
        "data": [Path(path).name for path in config["data"]],
        "validation_data": [Path(path).name for path in config["validation_data"]],
    }


def _read(file: Path, reproduction: Reproduction) -> dict[tuple[str, int], dict[str, Any]]:
    try:
        stored = json.loads(file.read_text())
    except OSError as error:
        raise ReproduceError(f"cannot read {file}: {error.strerror or error}") from None
    except ValueError as error:
        raise ReproduceError(f"{file} holds no results: {error}") from None
    try:
        format, paper, scale = (stored[name] for name in ("format", "paper", "scale"))
        runs = {(run["method"], run["seed"]): run["evaluations"] for run in stored["runs"]}
    except (KeyError, TypeError) as error:
        raise ReproduceError(f"{file} holds no results: it lacks {error}") from None
    if format != _FORMAT:
        raise ReproduceError(
            f"{file} has results of format {format}, which this Sextant does not read"
        )
    here = reproduction.paper.name, reproduction.scale.name
    if (paper, scale) != here:
        raise ReproduceError(
            f"{file} holds results of {paper} at scale {scale}, not of {' at scale '.join(here)}"
        )
    return runs


def _checked(
    stored: Mapping[str, Any], run: Planned, reproduction: Reproduction, file: Path
) -> dict[str, RunResult]:
    """A run's results, known to be of the settings, data and scale of the plan."""
    where = f"{file}: {run.name}"
    found = {}
    for name in run.evaluations:
        if name not in stored:
            raise ReproduceError(f"{where}: {name} is missing")
        result = found[name] = from_evaluation(stored[name], Path(where))
        try:
            result.step_ms = float(stored[name]["step_ms"])
            result.steps = [(int(step), float(loss)) for step, loss in stored[name]["steps"]]
            result.seconds = list(map(float, stored[name]["seconds"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ReproduceError(f"{where}: {name} is damaged: {error}") from None
        if not reproduction.scale.is_of(result):
            raise ReproduceError(f"{where}: {name} is not an evaluation of this scale")
    _check_training(found[EVALUATION], run, reproduction, where)
    return found


def _check_training(
    result: RunResult, run: Planned, reproduction: Reproduction, where: str
) -> None:
    data = reproduction.data
    try:
        there = TrainConfig.load(json.dumps(result.config))
    except (TypeError, ValueError) as error:
        raise ReproduceError(f"{where}: {error}") from None
    others = different(there, kind_of(run.config).completed(run.config, data))
    if others:
        raise ReproduceError(f"{where} was trained with other settings: {', '.join(others)}")
    if result.provenance[result.data] != data.digest:
        source = result.provenance["source"]
        raise ReproduceError(f"{where} was trained on other {result.data} ({source})")
