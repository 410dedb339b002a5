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
        self.path, self.start = path, start
        self._events: Any = _writer(events, start) if events else None

    def _error(self, error: OSError) -> LogError:
        return LogError(
            f"cannot write {self.path}: {error.strerror}; the last checkpoint, if any, "
            "is untouched"
        )

    def add(self, entry: dict) -> None:
        try:
            self._file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise self._error(error) from None
        for name in _CURVES if self._events else ():
            if name in entry:
                self._events.add_scalar(name, entry[name], entry["step"])

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
        if self._events:
            self._events.close()
        try:
            self._file.close()
        except OSError as error:
            if kind is None:
                raise self._error(error) from None


def _writer(folder: Path, start: int) -> Any:
    """PyTorch's writer of event files; steps from ``start`` on, which a killed run left, are
    no longer shown."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise LogError(
            f"event files need the package tensorboard ({error}): pip install tensorboard"
        ) from None
    return SummaryWriter(str(folder), purge_step=start)


def _step_of(line: str) -> float:
    """The step of an entry; infinite for a line that was cut short."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf
