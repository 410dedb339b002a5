"""Signals that ask a training to end."""

from __future__ import annotations

import signal
from pathlib import Path

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """The run was interrupted by ``signal``; its checkpoint holds ``step`` finished
    steps."""

    def __init__(self, step: int, path: Path, signal: int):
        super().__init__(
            f"interrupted after step {step}, which {path} holds; the same command goes on "
            "from there"
        )
        self.step = step
        self.path = path
        self.signal = signal


class Interruption:
    """Inside ``with``, turns ctrl-C and SIGTERM into a wish (``asked``, the signal's
    number, 0 without); a second one interrupts at once."""

    def __init__(self):
        self.asked = 0
        self._before = {}

    def __enter__(self) -> Interruption:
        for number in _SIGNALS:
            try:
                self._before[number] = signal.signal(number, self._ask)
            except ValueError:  # not in the main thread
                break
        return self

    def _ask(self, number, frame):
        if self.asked:
            raise KeyboardInterrupt
        self.asked = number

    def __exit__(self, *details) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
