"""Trains and evaluates what a paper compares, and goes on where it was stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import torch

from .. import side_by_side
from ..backend import reason
from ..errors import CompileError, RunError
from ..report.results import CHECKPOINT, RunResult, read_run
from ..training.data import Text
from ..training.interruption import AskedToEnd, Interrupted
from ..training.kind import Data
from ..training.kinds import kind_of
from ..training.lock import FolderLock
from ..training.loop import train
from ..training.runs import evaluate_run
from .listing import Planned, ReproduceError, State, as_stored, plan_runs, state_of
from .paper import Paper
from .progress import Progress, seconds_per_unit, spelled, units
from .results import Results, read_results
from .scale import Scale
from .spans import SPANS, kept_in, read_spans

SAVE_EVERY = 100
_NO_FILES: Mapping[str, Sequence[str]] = MappingProxyType({})


class Stopped(Interrupted):
    """A reproduction was interrupted, by ``cause``; nothing that was finished is lost."""

    def __init__(self, run: Planned, cause: Interrupted):
        super().__init__(cause.step, run.folder, cause.signal)
        where = f" after step {cause.step}" if cause.step else ""
        self.args = (f"{run.name}: stopped{where}; what is finished stays: go on with --resume",)


@dataclass(frozen=True)
class Reproduction:
    """A paper at a scale, in a folder. ``taken``: results of runs that were finished
    elsewhere."""

    paper: Paper
    scale: Scale
    folder: Path
    runs: tuple[Planned, ...]
    data: Data
    taken: Results = field(default_factory=dict)

    @classmethod
    def plan(
        cls,
        paper: Paper,
        scale: Scale,
        folder: str | Path,
        *,
        seeds: int = 1,
        only: Sequence[str] = (),
        data: Mapping[str, Sequence[str]] = _NO_FILES,
        results: Sequence[str | Path] = (),
    ) -> Reproduction:
        """Checks all settings and reads the data; trains nothing. ``data``: settings of
        `TrainConfig` that name files. ``results``: files of results whose runs are not
        trained again."""
        own = Path(folder) / paper.name / scale.name
        runs = plan_runs(paper, scale, own, seeds=seeds, only=only, data=data)
        config = runs[0].config
        found = cls(paper, scale, own, tuple(runs), kind_of(config).load(config))
        return replace(found, taken=read_results(results, found))

    def check_query(self, query: int) -> None:
        """A query that a user chose is of the held-out text, and some figure of the paper shows
        it: else it is a `ReproduceError`, before anything is trained."""
        is_drawn = any(drawing.of_query for drawing in self.paper.drawings)
        if not (is_drawn and isinstance(self.data, Text)):
            raise ReproduceError(
                f"--query says nothing of {self.paper.name}, which has no figure of a query"
            )
        count = len(self.data.validation)
        if not 0 <= query < count:
            raise ReproduceError(
                f"--query {query} is not of the held-out text, which has {count} bytes"
            )

    def states(self) -> list[tuple[Planned, State]]:
        return [(run, self.state(run)) for run in self.runs]

    def state(self, run: Planned) -> State:
        """How far a run is. One whose results were taken is finished, unless another is to
        begin with its parameters."""
        found = state_of(run, self.scale, self.data)
        if run.key in self.taken and not found.steps and not self._is_begun_with(run):
            return State(run.config.steps, ())
        return found

    def _is_begun_with(self, run: Planned) -> bool:
        """Whether a run that is not finished begins with this one."""
        return any(
            (other.method.begins, other.config.seed) == run.key and self.state(other).missing
            for other in self.runs
        )

    def results(self) -> dict[tuple[str, int], Mapping[str, RunResult]]:
        """Of the finished runs: those of the folder, and those that were taken."""
        found: dict[tuple[str, int], Mapping[str, RunResult]] = {}
        for run in self.runs:
            state = state_of(run, self.scale, self.data)
            if not state.missing:
                found[run.key] = _read_results(run)
            elif run.key in self.taken:  # also where it is begun here, and not finished
                found[run.key] = self.taken[run.key]
        return found

    def trained_folder(self, method: str) -> Path | None:
        """Of a method's first finished run, none if all were taken from elsewhere."""
        for run, state in self.states():
            if run.method.name == method and not state.missing and self._is_here(run):
                return run.folder
        return None

    @staticmethod
    def _is_here(run: Planned) -> bool:
        return (run.folder / CHECKPOINT).exists()

    def overview(self) -> list[str]:
        """The list of runs, how far each is, and how long the rest takes here."""
        found = self.states()
        rate = seconds_per_unit(
            replace(found[0][0].config, encodings=(), groups=()), self.data, self.scale
        )
        kind = kind_of(found[0][0].config)
        lines = [f"{self.paper.title}, {len(found)} runs, {self.scale.name}, on {self.data.source}"]
        for run, state in found:
            config = run.config
            begins = f", begins with {run.method.begins}" if run.method.begins else ""
            left = spelled(rate * units(run, state, self.scale)) if state.missing else "done"
            lines.append(
                f"  {run.method.name}: {run.name}, {config.name}, {config.steps} steps of "
                f"{kind.step_size(config)}{begins}; {state.steps} done, left: {left}"
            )
        total = sum(units(run, state, self.scale) for run, state in found)
        lines.append(f"about {spelled(rate * total)} at the present speed, besides compilation")
        return lines

    def run(self, *, resume: bool = False, progress: bool = True, jobs: int = 0) -> None:
        """Trains and evaluates what is missing, ``jobs`` runs at a time (0: `jobs_for`). Without
        ``resume`` a folder that holds runs is an error; what is there with other settings
        always is one."""
        with FolderLock(self.folder):
            found = self.states()
            begun = [run for run, _ in found if self._is_here(run)]
            if begun and not resume:
                raise ReproduceError(
                    f"{self.folder} holds runs, {begun[0].name} among them: go on with --resume, "
                    "or choose another folder"
                )
            left = [(run, state) for run, state in found if state.missing]
            tasks = self._tasks(left)
            threads = torch.get_num_threads()
            jobs = jobs or side_by_side.jobs_for(len(tasks), threads, self._bytes())
            with Progress(found, self.scale, progress) as line:
                try:
                    side_by_side.run(
                        tasks, jobs, threads, lambda n, event: _show(line, left[n][0], event)
                    )
                except side_by_side.TaskFailed as failed:
                    raise _told(left[failed.number][0], failed.error) from failed.error
                except AskedToEnd as asked:  # the runs at work had just finished
                    missing = (run for run, state in self.states() if state.missing)
                    raise Stopped(next(missing, found[-1][0]), asked) from asked

    def _tasks(self, left: Sequence[tuple[Planned, State]]) -> list[side_by_side.Task]:
        """One for each run. What begins with the parameters of another waits for it."""
        numbers = {run.key: number for number, (run, _) in enumerate(left)}
        tasks = []
        for run, state in left:
            first = numbers.get((run.method.begins, run.config.seed))
            after = () if first is None else (first,)
            arguments = (run, state, self.scale, self.data)
            tasks.append(side_by_side.Task(_finish, arguments, after))
        return tasks

    def _bytes(self) -> int:
        """What the training takes that takes most."""
        kind = kind_of(self.runs[0].config)
        return max(
            kind.training_bytes(kind.completed(run.config, self.data)) for run in self.runs
        )


def _read_results(run: Planned) -> dict[str, RunResult]:
    """Of a run that is here, by file, with the times at which it was worked on."""
    found = {file: read_run(run.folder, file) for file in run.evaluations}
    for result in found.values():
        result.provenance = {**result.provenance, SPANS: read_spans(run.folder)}
    return found


def _finish(run: Planned, state: State, scale: Scale, data: Data, *, tell) -> None:
    """What a run lacks. Tells the number of finished steps, and the name of each file of an
    evaluation when it is written."""
    with kept_in(run.folder):
        _train_and_evaluate(run, state, scale, data, tell)


def _train_and_evaluate(run: Planned, state: State, scale: Scale, data: Data, tell) -> None:
    if state.steps < run.config.steps:
        tell(state.steps)
        train(
            as_stored(run),
            run.folder,
            data=data,
            save_every=SAVE_EVERY,
            progress=False,
            after_step=tell,
        )
    for file in state.missing:
        evaluate_run(
            run.folder,
            settings=run.evaluations[file],
            progress=False,
            file=file,
            **scale.evaluation,
        )
        tell(file)


def _show(line: Progress, run: Planned, event: int | str) -> None:
    if isinstance(event, str):
        line.evaluated(run)
    else:
        line.trained(run, event)


def _told(run: Planned, error: BaseException) -> Exception:
    """An error that says which run it is of."""
    if isinstance(error, Interrupted):
        return Stopped(run, error)
    expected = (CompileError, RunError, RuntimeError, OSError, ValueError, MemoryError)
    if not isinstance(error, expected):
        raise error
    text = reason(error) or type(error).__name__
    return ReproduceError(
        f"{run.name} ({run.folder}): {text}; what is finished stays: go on with --resume"
    )
