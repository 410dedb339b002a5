"""Signals that ask a training to end."""

from __future__ import annotations

import signal
from pathlib import Path

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """The run was interrupted by ``signal``; its checkpoint holds ``step`` finished
    steps."""

    def __init__(self, step: int, path: Path, signal: int):
        super().__init__(
            f"interrupted after step {step}, which {path} holds; the same command goes on "
            "from there"
        )
        self.step = step
        self.path: Path | None = path
        self.signal = signal

    def __reduce__(self):  # the text is no argument: processes send it to each other
        return type(self), (self.step, self.path, self.signal)


class AskedToEnd(Interrupted):
    """A command of several runs was interrupted by ``signal`` where none has saved a step."""

    def __init__(self, signal: int):
        Exception.__init__(self, "interrupted; the same command goes on from what is finished")
        self.step = 0
        self.path = None
        self.signal = signal

    def __reduce__(self):
        return type(self), (self.signal,)


class Interruption:
    """Inside ``with``, turns ctrl-C, SIGTERM and the SIGHUP of a terminal that is closed into a
    wish (``asked``, the signal's number, 0 without); a second one of the first two interrupts
    at once. A terminal that is closed may say so several times, and a session that ends with
    it says SIGTERM, too."""

    def __init__(self):
        self.asked = 0
        self._before = {}

    def __enter__(self) -> Interruption:
        for number in _SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup: it is to outlive its terminal
            try:
                self._before[number] = signal.signal(number, self._ask)
            except ValueError:  # not in the main thread
                break
        return self

    def _ask(self, number, frame):
        if self.asked and signal.SIGHUP not in (self.asked, number):
            raise KeyboardInterrupt
        self.asked = self.asked or number

    def __exit__(self, *details) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
