"""The training loop: steps, log, checkpoints, interruption and resumption."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from ..files import replace_file
from ..report.results import CHECKPOINT, LOG
from .checkpoint import Checkpoint, CheckpointError, read_checkpoint, write_checkpoint
from .config import TrainConfig
from .data import Text, batch_at, load_text
from .model import Model


class TrainingError(Exception):
    """A run cannot be started, resumed or continued."""


class Interrupted(Exception):
    """The run was interrupted; its checkpoint holds ``step`` finished steps."""

    def __init__(self, step: int, path: Path):
        super().__init__(f"interrupted after step {step}; resume from {path}")
        self.step = step
        self.path = path


def train(
    config: TrainConfig,
    folder: str | Path,
    *,
    save_every: int = 100,
    resume: bool = True,
    progress: bool = True,
    text: Text | None = None,
    after_step: Callable[[int], None] | None = None,
) -> Model:
    """Trains as ``config`` says, into ``folder``, and gives the model.

    If the folder holds a checkpoint of the same settings the run goes on from it,
    and ends with the same bits as one that was never stopped; with ``resume``
    false it starts anew. A checkpoint is written every ``save_every`` steps, at
    the end, and at ctrl-C, which ends in `Interrupted` after the step at hand.
    ``after_step`` is called with the number of finished steps.
    """
    folder = Path(folder)
    path = folder / CHECKPOINT
    text = load_text(config.data, config.length + 1) if text is None else text
    model = Model(config)
    start = 0
    if resume and path.exists():
        start = restore(model, config, text, path)
    with _Log(folder / LOG, start) as log, _Interruption() as interruption:
        bar = tqdm(
            range(start, config.steps),
            desc=config.name,
            initial=start,
            total=config.steps,
            unit="step",
            disable=not progress,
            mininterval=0.5,
        )
        for step in bar:
            began = time.perf_counter()
            tokens, labels = batch_at(
                text.train, step, config.batch, config.length, config.seed
            )
            loss = model.step(tokens, labels, config.rate(step))
            elapsed = 1000 * (time.perf_counter() - began)
            if not math.isfinite(loss):
                raise TrainingError(
                    f"the loss is {loss} at step {step}; the checkpoint before, if any, "
                    f"is {path}; a lower learning rate may help"
                )
            log.add({"step": step, "loss": loss, "ms": elapsed})
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
            done = step + 1
            # Read once: a signal after this is the next step's.
            stop = interruption.asked
            if done == config.steps or done % save_every == 0 or stop:
                log.flush()
                save(model, config, text, done, path)
            if after_step:
                after_step(done)
            if stop and done < config.steps:
                raise Interrupted(done, path)
    if start >= config.steps and not path.exists():
        save(model, config, text, start, path)
    return model


def save(model: Model, config: TrainConfig, text: Text, step: int, path: Path) -> None:
    """Writes the state of a run."""
    tensors = {f"param/{n}": t for n, t in model.params.items()}
    tensors |= {f"state/{n}": t for n, t in model.state.items()}
    metadata = {"config": config.dump(), "step": str(step), "text": text.digest}
    write_checkpoint(path, Checkpoint(tensors, metadata))


def restore(model: Model, config: TrainConfig, text: Text, path: Path) -> int:
    """Loads a run's state into a model; gives the number of finished steps."""
    checkpoint = read_checkpoint(path)
    stored = TrainConfig.load(checkpoint.metadata.get("config", "{}"))
    ours, theirs = json.loads(config.dump()), json.loads(stored.dump())
    different = [k for k in ours if ours[k] != theirs[k] and k != "target"]
    if different:
        listed = ", ".join(f"{k} {theirs[k]} (now {ours[k]})" for k in different)
        raise TrainingError(
            f"{path} is of a run with other settings: {listed}; choose another "
            "folder, or start anew with --fresh"
        )
    if checkpoint.metadata.get("text") != text.digest:
        raise TrainingError(
            f"{path} is of a run on another text; choose another folder, or start "
            "anew with --fresh"
        )
    load_into(model, checkpoint, path)
    return checkpoint.step


def load_into(model: Model, checkpoint: Checkpoint, path: Path) -> None:
    """Copies a checkpoint's tensors into a model of the same settings."""
    for label, own in (("param", model.params), ("state", model.state)):
        stored = checkpoint.part(label)
        if set(stored) != set(own):
            missing = ", ".join(sorted(set(own) ^ set(stored))[:4])
            raise CheckpointError(f"{path} does not fit the model: {missing} ...")
        for name, tensor in stored.items():
            if tensor.shape != own[name].shape or tensor.dtype != own[name].dtype:
                raise CheckpointError(
                    f"{path} does not fit the model: {name} is {tuple(tensor.shape)}, "
                    f"expected {tuple(own[name].shape)}"
                )
            own[name].copy_(tensor)


def load_model(path: str | Path, target: str | None = None) -> tuple[Model, TrainConfig, int]:
    """The model of a checkpoint, its settings and its finished steps."""
    path = Path(path)
    if path.is_dir():
        path = path / CHECKPOINT
    checkpoint = read_checkpoint(path)
    if "config" not in checkpoint.metadata:
        raise CheckpointError(f"{path} is not a checkpoint of a training run")
    config = TrainConfig.load(checkpoint.metadata["config"])
    if target:
        config = replace(config, target=target)
    model = Model(config)
    load_into(model, checkpoint, path)
    return model, config, checkpoint.step


class _Log:
    """The log of a run, one entry per line; what is not written is a
    `TrainingError` that names the file."""

    def __init__(self, path: Path, start: int):
        """Opens the log and drops entries of steps from ``start`` on, which a killed
        run left."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if start and path.exists():
                lines = path.read_text(errors="replace").splitlines()
                kept = [line for line in lines if _step_of(line) < start]
                replace_file(path, "".join(line + "\n" for line in kept).encode())
            self._file = path.open("a" if start else "w")
        except OSError as error:
            raise self._error(error) from None

    def _error(self, error: OSError) -> TrainingError:
        return TrainingError(
            f"cannot write {self.path}: {error.strerror}; the last checkpoint, if any, "
            "is untouched"
        )

    def add(self, entry: dict) -> None:
        try:
            self._file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise self._error(error) from None

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise self._error(error) from None

    def __enter__(self) -> "_Log":
        return self

    def __exit__(self, kind, *details) -> bool:
        try:
            self._file.close()
        except OSError as error:
            if kind is None:
                raise self._error(error) from None
        return False


def _step_of(line: str) -> float:
    """The step of an entry; infinite for a line that was cut short."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf


class _Interruption:
    """Turns ctrl-C into a wish; a second one interrupts at once."""

    def __init__(self):
        self.asked = False

    def __enter__(self):
        try:
            self._before = signal.signal(signal.SIGINT, self._ask)
        except ValueError:  # not in the main thread
            self._before = None
        return self

    def _ask(self, number, frame):
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *details):
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        return False
