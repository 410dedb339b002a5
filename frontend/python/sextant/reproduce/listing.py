"""The runs of a reproduction: which there are to be, and which are there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import CompileError, RunError, nearest
from ..report.results import CHECKPOINT, EVALUATION, ReportError, read_run
from ..training.config import TrainConfig
from ..training.kind import Data
from ..training.kinds import kind_of
from ..training.state import read_state
from .paper import Method, Paper, Variation
from .scale import Scale

RUNS = "runs"


class ReproduceError(RunError):
    """A reproduction cannot begin, go on, or be reported on."""


@dataclass(frozen=True)
class Planned:
    """A run that a reproduction consists of; ``variations``: its further evaluations."""

    method: Method
    config: TrainConfig
    folder: Path
    variations: tuple[Variation, ...]

    @property
    def name(self) -> str:
        return f"{self.method.title}, seed {self.config.seed}"

    @property
    def key(self) -> tuple[str, int]:
        """What it is among the runs of a reproduction."""
        return self.method.name, self.config.seed

    @property
    def evaluations(self) -> dict[str, tuple[str, ...]]:
        """The file of each evaluation, and the settings of encodings that it has."""
        return {EVALUATION: ()} | {file_of(v): v.settings for v in self.variations}


def file_of(variation: Variation) -> str:
    """Where a run's folder holds an evaluation with other settings."""
    return f"evaluation.{variation.name}.json"


@dataclass(frozen=True)
class State:
    """How far a run is: finished ``steps``, and the files of evaluations ``missing``."""

    steps: int
    missing: tuple[str, ...]


def plan_runs(
    paper: Paper,
    scale: Scale,
    folder: Path,
    *,
    seeds: int = 1,
    only: Sequence[str] = (),
    data: Mapping[str, Sequence[str]],
) -> list[Planned]:
    """The runs in the order of their training: one that begins with the parameters of
    another comes behind it. What is wrong with the settings of any is an error now."""
    chosen = _chosen(paper, only)
    runs = []
    for method in paper.methods:
        if method.name not in chosen:
            continue
        own = tuple(v for v in paper.variations if v.of == method.name)
        for seed in range(seeds):
            config = config_of(paper, scale, method, seed, folder, data)
            try:
                kind_of(config).check_uses(config)
            except (CompileError, RunError, ValueError) as error:
                raise ReproduceError(f"{method.title}: {error}") from error
            runs.append(Planned(method, config, run_folder(folder, method.name, seed), own))
    return runs


def _chosen(paper: Paper, only: Sequence[str]) -> set[str]:
    """The methods that are asked for, and those that they begin with."""
    methods = {method.name: method for method in paper.methods}
    for name in only:
        if name not in methods:
            raise ReproduceError(f'{paper.name} has no method "{name}"{nearest(name, methods)}')
    found: set[str] = set()
    waiting = list(only or methods)
    while waiting:
        name = waiting.pop()
        found.add(name)
        if methods[name].begins:
            waiting.append(methods[name].begins)
    return found


def run_folder(folder: Path, method: str, seed: int) -> Path:
    return folder / RUNS / f"{method}.seed{seed}"


def config_of(
    paper: Paper,
    scale: Scale,
    method: Method,
    seed: int,
    folder: Path,
    data: Mapping[str, Sequence[str]],
) -> TrainConfig:
    """The settings of a run: the scale's, then the paper's, then the method's."""
    settings = {**scale.settings, **scale.held_out, **paper.settings, **method.settings}
    sizes = scale.sizes()
    begins = str(run_folder(folder, method.begins, seed).resolve()) if method.begins else ""
    filled = {name: _filled(value, sizes) for name, value in settings.items()}
    try:
        return TrainConfig.load(
            json.dumps(
                {
                    **filled,
                    "encodings": _filled(method.encodings, sizes),
                    "seed": seed,
                    **{name: list(files) for name, files in data.items()},
                    "init": begins,
                }
            )
        )
    except (ValueError, TypeError) as error:
        raise ReproduceError(f"{method.title}: {error}") from error


def _filled(value: object, sizes: Mapping[str, float]) -> object:
    """A template, or several, with sizes in their places; one that is a size is a number."""
    if isinstance(value, str):
        number = sizes.get(value[1:-1]) if value[:1] + value[-1:] == "{}" else None
        return value.format_map(sizes) if number is None else number
    if isinstance(value, tuple):
        return [_filled(item, sizes) for item in value]
    return value


# What is there -----------------------------------------------------------------------


def state_of(run: Planned, scale: Scale, data: Data) -> State:
    """How far a run is; a `ReproduceError` if what is there has other settings."""
    everything = tuple(run.evaluations)
    if not (run.folder / CHECKPOINT).exists():
        return State(0, everything)
    stored = read_state(run.folder)
    # What is left to the data is known where that was read.
    others = different(stored.config, stored.kind.completed(run.config, data))
    if others:
        raise ReproduceError(
            f"{run.name}: {run.folder} holds a run with other settings: {', '.join(others)}; "
            "choose another folder, or remove this one to train it anew"
        )
    if stored.digest != data.digest:
        raise ReproduceError(
            f"{run.name}: {run.folder} holds a run on {stored.kind.another} ({stored.source}): "
            "name its data, with --data as in the command that began it, or choose another folder"
        )
    if stored.step < run.config.steps:
        return State(stored.step, everything)
    saved = stored.checkpoint.metadata["saved"]
    missing = (file for file in everything if not _is_of(run.folder, file, saved, scale))
    return State(stored.step, tuple(missing))


def different(there: TrainConfig, here: TrainConfig) -> list[str]:
    """Settings that are others; a text is known by its digest, and where the run lies that
    this one begins with may change."""
    ours, theirs = json.loads(here.dump()), json.loads(there.dump())
    free = {"data", "validation_data", "target"} | (
        {"init"} if ours["init"] and theirs["init"] else set()
    )
    return [
        f"{name} {theirs[name]} (now {value})"
        for name, value in ours.items()
        if theirs[name] != value and name not in free
    ]


def as_stored(run: Planned) -> TrainConfig:
    """The settings with which training goes on: a folder that was moved holds runs that
    name where the runs lay that they began with."""
    if not (run.folder / CHECKPOINT).exists():
        return run.config
    return replace(run.config, init=read_state(run.folder).config.init)


def _is_of(folder: Path, file: str, saved: str, scale: Scale) -> bool:
    """Whether an evaluation is of the checkpoint that is there, and of this scale."""
    try:
        found = read_run(folder, file)
    except ReportError:
        return False
    return found.provenance["saved"] == saved and scale.is_of(found)
