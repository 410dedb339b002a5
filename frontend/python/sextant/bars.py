"""Bars of progress, on the standard error: a line that changes on a terminal, and now and
then a line of its own in a file, such as the log of a job."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from tqdm import tqdm

# Seconds between two states of a bar.
_ON_A_TERMINAL = {"mininterval": 0.5}
_IN_A_FILE = {"mininterval": 30.0, "maxinterval": 60.0}


class _Lines:
    """A stream whose cursor does not go back: each state of a bar is a line."""

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> None:
        if state := text.strip():
            self.stream.write(f"{state}\n")

    def flush(self) -> None:
        self.stream.flush()


def bar(items: Iterable | None = None, *, shown: bool = True, **settings: Any) -> tqdm:
    """A bar over ``items``, or one that is told (``total``); ``settings`` are tqdm's."""
    if sys.stderr.isatty():
        settings |= _ON_A_TERMINAL
    else:
        settings |= {**_IN_A_FILE, "file": _Lines(sys.stderr)}
    return tqdm(items, disable=not shown, **settings)
