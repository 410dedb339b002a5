"""The log of a run: a line of JSON for each step, and, if asked for, event files of
TensorBoard."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..errors import RunError
from ..files import replace_file

EVENTS = "tensorboard"
# What of an entry is a curve.
_CURVES = ("loss", "validation", "rate", "ms")


class LogError(RunError):
    """A log cannot be written."""


class Log:
    """The log of a run, one entry per line; what is not written is a
    `LogError` that names the file."""

    def __init__(self, path: Path, start: int, events: Path | None = None):
        """``start``: how many steps are done. ``events``: the folder of event files, if they
        are written."""
        self.path, self.start, self.folder = path, start, events
        self._events: Any = None
        if events:
            writer = event_writer()
            try:
                self._events = writer(str(events), purge_step=start)
            except OSError as error:
                raise self._error(error, events) from None

    def _error(self, error: OSError, path: Path | None = None) -> LogError:
        return LogError(
            f"cannot write {path or self.path}: {error.strerror or error}; the last checkpoint, if "
            "any, is untouched"
        )

    def add(self, entry: dict) -> None:
        try:
            self._file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise self._error(error) from None
        try:
            for name in _CURVES if self._events else ():
                if name in entry:
                    self._events.add_scalar(name, entry[name], entry["step"])
        except OSError as error:  # which the writer's thread met, maybe some entries ago
            raise self._error(error, self.folder) from None

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise self._error(error) from None

    def __enter__(self) -> Log:
        """Opens the log and drops entries of steps that are not done, which a killed run left."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.start and self.path.exists():
                lines = self.path.read_text(errors="replace").splitlines()
                kept = [line for line in lines if _step_of(line) < self.start]
                replace_file(self.path, "".join(line + "\n" for line in kept).encode())
            self._file = self.path.open("a" if self.start else "w")
        except OSError as error:
            raise self._error(error) from None
        return self

    def __exit__(self, kind, *details) -> None:
        failed = None
        for close, path in (
            (self._events.close if self._events else None, self.folder),
            (self._file.close, self.path),
        ):
            try:
                if close:
                    close()
            except OSError as error:
                failed = failed or self._error(error, path)
        if failed and kind is None:  # else the first error is the one to tell
            raise failed


def event_writer() -> Any:
    """PyTorch's writer of event files: of a folder and the steps from which on those that a
    killed run left are no longer shown. Without its package it is a `LogError`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise LogError(
            f"event files need the package tensorboard ({error}): pip install tensorboard"
        ) from None
    return SummaryWriter


def _step_of(line: str) -> float:
    """The step of an entry; infinite for a line that was cut short."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf
