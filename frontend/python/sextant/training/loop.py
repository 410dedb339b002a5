"""The training loop: steps, log, checkpoints, interruption and resumption."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from ..bars import bar
from ..errors import NOT_FINITE, RunError
from ..files import remove_unfinished, spell_path
from ..memory import gibibytes
from ..report.results import CHECKPOINT, EVALUATION, LOG
from .begin import begin_from
from .best import BEST, Best
from .compiled import CompiledModel
from .config import TrainConfig
from .interruption import Interrupted, Interruption
from .kind import Data
from .kinds import kind_of
from .lock import FolderLock
from .log import EVENTS, Log
from .state import Definitions, Run, read_state, save

# Seconds between losses of a GPU that are shown: for each the host waits until its step has
# ended, while the GPU gets no work.
_SHOWN_EVERY = 0.5


class TrainingError(RunError):
    """A run cannot be started, resumed or continued."""


def plan(config: TrainConfig, folder: str | Path, *, resume: bool = True) -> list[str]:
    """What `train` would do, in lines of text; raises what it would raise before its
    first step, besides what only writing can show."""
    path = _checkpoint_of(Path(folder))
    kind = kind_of(config)
    data = kind.load(config)
    config = kind.completed(config, data)
    kind.check_memory(config)
    run = read_state(path) if resume and path.exists() else None
    if run is not None:
        _extended(run, config, data)
    found = run.definitions if run else Definitions.installed(config)
    model = _new_model(config, found, 1)
    begins = f"goes on after step {run.step}" if run else "begins anew"
    if config.init and not run:
        new = begin_from(model, config.init)
        begins = f"begins with the parameters of {config.init}, {len(new)} tensors are new"
    if path.exists() and not run:
        begins += ", in place of the run that it holds"
    return [
        f"{config.name}: {config.style}, {config.layers} layers of width {config.width}, "
        f"{model.size:,} trained parameters, {model.frozen_size:,} frozen",
        kind.data_line(data),
        f"{config.steps} steps of {kind.step_size(config)}, seed {config.seed}; "
        f"{folder} {begins}",
        _rate_line(config),
        *kind.position_lines(config),
        f"memory: about {gibibytes(kind.training_bytes(config))} or more",
        *(f"note: {note}" for note in found.notes),
    ]


def train(
    config: TrainConfig,
    folder: str | Path,
    *,
    save_every: int = 100,
    resume: bool = True,
    progress: bool = True,
    data: Data | None = None,
    tensorboard: bool = False,
    after_step: Callable[[int], None] | None = None,
) -> CompiledModel:
    """Trains as ``config`` says, into ``folder``, and gives the model.

    If the folder holds a checkpoint of the same settings the run goes on from it,
    with the definitions that it began with, and ends with the same bits as one that
    was never stopped; with ``resume`` false it starts anew, and the checkpoint, the log and the
    evaluation of before are gone. More steps than the
    checkpoint's extend the run: from there on the learning rate is that of the new
    number of steps. A checkpoint is written every ``save_every`` steps, at the end,
    at ctrl-C, SIGTERM or SIGHUP, which ends in `Interrupted` after the step at hand, and before an
    error leaves that came outside of a step's program, as one of a sampler does.
    With ``config.validate_every`` the step with the least loss on held-out data is kept
    beside the last one, as `best.BEST`. ``tensorboard``: writes what the log says into event
    files, too. One process trains in a folder at a time. ``data``: what the settings name, if it is
    read already. ``after_step`` is called with the number of finished steps.
    """
    folder = Path(folder)
    path = _checkpoint_of(folder)
    kind = kind_of(config)
    data = kind.load(config) if data is None else data
    config = kind.completed(config, data)
    kind.check_memory(config)
    with FolderLock(folder):
        for name in (CHECKPOINT, BEST, LOG):
            remove_unfinished(folder / name)
        run = read_state(path) if resume and path.exists() else None
        if run is None:
            found, start, extended = Definitions.installed(config), 0, []
        else:
            found, start, extended = run.definitions, run.step, _extended(run, config, data)
            for note in found.notes:
                print(f"sextant: note: {note}", file=sys.stderr)
        model = _new_model(config, found, start + 1)
        best = Best(path)
        if run is not None:
            run.load_into(model)
            best.go_on(run.checkpoint)
        elif config.init:
            begin_from(model, config.init)

        def keep(step: int) -> None:
            save(model, data, found, step, path, extended, best.metadata())

        log = Log(folder / LOG, start, folder / EVENTS if tensorboard else None)
        if run is None and path.exists():
            # From here on the folder holds this run: what ends it before its first save must
            # not leave the one before, beside a log and settings that are not its own.
            keep(0)
        with log:
            if not start:
                best.begin()
                if path.exists():
                    (folder / EVALUATION).unlink(missing_ok=True)
            if start < config.steps:
                training = _Training(model, data, path, log, keep, best, save_every)
                training.run(start, progress, after_step)
    return model


def _rate_line(config: TrainConfig) -> str:
    """The learning rate, for a person: it may never be the one that was asked for."""
    last = config.rate(config.steps - 1)
    if config.steps < config.warmup:
        return (
            f"learning rate: up to {last:g}, since {config.steps} steps end in the {config.warmup} of "
            f"the warm-up to {config.lr:g}: take fewer with --warmup"
        )
    return f"learning rate: up to {config.lr:g} in {config.warmup} steps, {last:g} in the last one"


def _checkpoint_of(folder: Path) -> Path:
    """A run's checkpoint, which can be read again only where its path is a text."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise TrainingError(
            f"the folder {spell_path(folder)} has a name that is no UTF-8, by which no checkpoint "
            "can be read: choose another one"
        ) from None
    return folder / CHECKPOINT


def _new_model(config: TrainConfig, found: Definitions, step: int) -> CompiledModel:
    """The model of a training that goes on with a step; what is wrong with it is raised."""
    kind = kind_of(config)
    with found.used():
        kind.check_uses(config)
        model = kind.model(config)
    model.inputs(model.program, "train_step", step)  # raises what a sampler has to say
    kind.check_model(model)
    return model


@dataclass
class _Training:
    """A training that has begun; ``keep`` writes a checkpoint. ``unlogged``: entries of steps
    whose loss nobody has asked for since losses were ``shown``, a time."""

    model: CompiledModel
    data: Data
    path: Path
    log: Log
    keep: Callable[[int], None]
    best: Best
    save_every: int
    unlogged: list[dict] = field(default_factory=list)
    shown: float = field(default_factory=time.monotonic)

    def run(self, start: int, progress: bool, after_step: Callable[[int], None] | None) -> None:
        """The steps from ``start`` on."""
        config = self.model.config
        with contextlib.closing(_bar(config, start, progress)) as steps, Interruption() as asking:
            for step in steps:
                entry: dict = {"step": step}
                done = step + 1
                try:
                    self._step(step, entry)
                    is_best = self._validate(done, entry)
                except TrainingError:  # of numbers that no run can go on from
                    raise
                except Exception:
                    self._save_finished(start, entry)
                    raise
                self.unlogged.append(entry)
                # Read once: a signal after this is the next step's.
                asked = asking.asked
                saves = done == config.steps or done % self.save_every == 0 or asked or is_best
                if saves or self._shows():
                    self._log()
                    steps.set_postfix(loss=f"{entry['loss']:.3f}", refresh=False)
                if saves:
                    self.log.flush()
                    self.keep(done)
                if is_best:
                    self.best.write()
                if after_step:
                    after_step(done)
                if asked and done < config.steps:
                    raise Interrupted(done, self.path, asked)

    def _save_finished(self, start: int, entry: dict) -> None:
        """Saves what was finished before an error: also the step of ``entry`` if it was the
        loss on held-out data that could not be taken. What a step's program leaves when it
        fails may be half of an update, which the checkpoint before is better than."""
        if not self.model.is_whole:
            return
        done = entry["step"] + ("loss" in entry)
        if done == start:
            return
        try:
            if "loss" in entry:
                self.unlogged.append(entry)
            self._log()
            self.log.flush()
            self.keep(done)
        except RunError as error:  # the first error is the one to tell
            print(f"sextant: note: the steps before are not saved: {error}", file=sys.stderr)
        else:
            print(
                f"sextant: note: {self.path} holds step {done}; the same command goes on from there",
                file=sys.stderr,
            )

    def _step(self, step: int, entry: dict) -> None:
        """One step, and what the log says of it, with the loss as the model gives it."""
        model, config = self.model, self.model.config
        began = time.perf_counter()
        batch = kind_of(config).batch(config, self.data, step)
        loss = model.start_step(*batch, config.rate(step))
        elapsed = 1000 * (time.perf_counter() - began)
        entry |= {"loss": loss, "ms": elapsed, "rate": config.rate(step)}
        if (starts := model.first_positions(step + 1)) is not None:
            entry["starts"] = starts

    def _shows(self) -> bool:
        """Whether it is time to show a loss: always where that waits for nothing."""
        now = time.monotonic()
        if self.model.device.type != "cpu" and now - self.shown < _SHOWN_EVERY:
            return False
        self.shown = now
        return True

    def _log(self) -> None:
        """Writes what is not in the log."""
        self._read_losses(self.unlogged)
        for entry in self.unlogged:
            self._check_finite(entry["loss"], "loss", entry["step"])
            self.log.add(entry)
        self.unlogged.clear()

    def _read_losses(self, entries: list[dict]) -> None:
        """Waits for losses. The time belongs to their steps, which ran meanwhile."""
        began = time.perf_counter()
        for entry in entries:
            entry["loss"] = float(entry["loss"])
        waited = 1000 * (time.perf_counter() - began)
        for entry in entries:
            entry["ms"] += waited / len(entries)

    def _validate(self, done: int, entry: dict) -> bool:
        """Takes the loss on held-out data where it is time to; whether it is the least."""
        config = self.model.config
        if not config.validate_every or (done % config.validate_every and done < config.steps):
            return False
        self._log()
        self._read_losses([entry])
        self._check_finite(entry["loss"], "loss", entry["step"])
        loss = kind_of(config).validation_loss(self.model, self.data)
        self._check_finite(loss, "loss on held-out data", entry["step"])
        entry["validation"] = loss
        return self.best.takes(done, loss)

    def _check_finite(self, loss: float, what: str, step: int) -> None:
        if not math.isfinite(loss):
            raise TrainingError(
                f"the {what} is {loss} at step {step}; the checkpoint before, if any, "
                f"is {self.path}; {NOT_FINITE}"
            )


def _bar(config: TrainConfig, start: int, progress: bool) -> tqdm:
    return bar(
        range(start, config.steps),
        desc=config.name,
        initial=start,
        total=config.steps,
        unit="step",
        shown=progress,
    )


def _extended(run: Run, config: TrainConfig, data: Data) -> list[list[int]]:
    """How often a run that goes on was extended; a `TrainingError` if its settings or
    its data are others."""
    ours, theirs = json.loads(config.dump()), json.loads(run.config.dump())
    free = {"target", "data", "validation_data", "validate_every"}  # the data is known by its digest
    if config.steps > run.config.steps:
        free.add("steps")
    different = [k for k in ours if ours[k] != theirs[k] and k not in free]
    if different:
        listed = ", ".join(f"{k} {theirs[k]} (now {ours[k]})" for k in different)
        raise TrainingError(
            f"{run.path} is of a run with other settings: {listed}; choose another "
            "folder, or start anew with sextant train --fresh"
        )
    if run.digest != data.digest:
        raise TrainingError(
            f"{run.path} is of a run on {run.kind.another} ({run.source}); choose another "
            "folder, or start anew with sextant train --fresh"
        )
    if config.steps > run.config.steps:
        return [*run.extended, [run.step, run.config.steps]]
    return run.extended
