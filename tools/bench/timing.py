"""Times of candidates that are compared with each other.

Candidates alternate within a round, so that what else the machine does hits all of
them alike; a ratio is taken per round and its median and quartiles are reported.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """How many times as fast `ours` is as `other`."""

    median: float
    low: float  # quartiles over rounds
    high: float


class Rounds:
    """Seconds of each candidate in each round."""

    def __init__(self, candidates: Mapping[str, Callable[[], object]], rounds: int):
        self.seconds: dict[str, list[float]] = {name: [] for name in candidates}
        for run in candidates.values():
            run()  # compiles, fills caches
        for number in range(rounds):
            order = list(candidates.items())
            if number % 2:
                order.reverse()
            for name, run in order:
                start = time.perf_counter()
                run()
                self.seconds[name].append(time.perf_counter() - start)

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def ratio(self, ours: str, other: str) -> Ratio:
        ratios = sorted(b / a for a, b in zip(self.seconds[ours], self.seconds[other]))
        if len(ratios) == 1:
            return Ratio(ratios[0], ratios[0], ratios[0])
        low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return Ratio(median, low, high)
