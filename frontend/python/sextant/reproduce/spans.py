"""When a run was worked on: compilation, steps and evaluations, each time that it was begun
or gone on with. A sum of steps alone does not say how long a reproduction takes.

A run's folder holds a line for each span: its beginning, in seconds since 1970, and its end.
Runs side by side overlap, so the time of several is that of the union of their spans.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

FILE = "spans.jsonl"
# Of an evaluation's provenance.
SPANS = "spans"

Span = tuple[float, float]


@contextlib.contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Keeps the span of what is done inside, whether it is finished, stopped or fails. A full
    disk is said by what failed there: here the span is lost."""
    began, ticks = time.time(), time.perf_counter()
    try:
        yield
    finally:
        ended = began + time.perf_counter() - ticks
        with contextlib.suppress(OSError), (folder / FILE).open("a") as file:
            file.write(f"[{began:.2f}, {ended:.2f}]\n")


def read_spans(folder: Path) -> list[Span]:
    """Of a run; a line that was cut is left out."""
    path = folder / FILE
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError, TypeError):
            began, ended = map(float, json.loads(line))
            found.append((began, ended))
    return found


def total(spans: Iterable[Span]) -> float:
    """Seconds of all, each counted by itself."""
    return sum(ended - began for began, ended in spans)


def covered(spans: Iterable[Span]) -> float:
    """Seconds in which at least one was."""
    seconds, last = 0.0, float("-inf")
    for began, ended in sorted(spans):
        seconds += max(0.0, ended - max(began, last))
        last = max(last, ended)
    return seconds
