"""How far a reproduction is, and how much time is left, in one line."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..bars import bar
from ..training.config import TrainConfig
from ..training.kind import Data
from ..training.kinds import kind_of
from .listing import Planned, State
from .scale import Scale

_TIMED = 5


def units(run: Planned, state: State, scale: Scale) -> float:
    """What is to be done for a run, in tokens of a training of a model without encodings."""
    training = _training(run, run.config.steps - state.steps, scale)
    return training + len(state.missing) * _evaluation(run, scale)


def _whole(run: Planned, scale: Scale) -> float:
    """All of a run, done or not."""
    return units(run, State(0, tuple(run.evaluations)), scale)


def _training(run: Planned, steps: int, scale: Scale) -> float:
    return steps * run.method.cost * scale.step(run.config)


def _evaluation(run: Planned, scale: Scale) -> float:
    return run.method.cost * scale.units()


def seconds_per_unit(config: TrainConfig, data: Data, scale: Scale) -> float:
    """The time of a token of a training of such a model here and now."""
    kind = kind_of(config)
    config = kind.completed(config, data)
    model = kind.model(config)
    times = []
    for step in range(_TIMED):
        batch = kind.batch(config, data, step)
        began = time.perf_counter()
        model.step(*batch, config.rate(step))
        times.append(time.perf_counter() - began)
    return min(times) / scale.step(config)


def spelled(seconds: float) -> str:
    """A time, as one says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


class Progress:
    """A line on the standard error: the runs at hand, what of the whole is done, and how
    long the rest takes at the rate so far."""

    def __init__(self, runs: Sequence[tuple[Planned, State]], scale: Scale, shown: bool):
        self.scale = scale
        self.count = len(runs)
        total = sum(_whole(run, scale) for run, _ in runs)
        left = sum(units(run, state, scale) for run, state in runs)
        self.bar = bar(
            total=total,
            initial=total - left,
            shown=shown,
            bar_format="{desc} {percentage:3.0f} %, {elapsed} so far, {remaining} left",
        )
        self.done = {run.key: state.steps for run, state in runs}
        self.left = {run.key: len(state.missing) for run, state in runs}
        self.said: dict[tuple[str, int], str] = {}

    def trained(self, run: Planned, steps: int) -> None:
        self._say(run, f"{run.name}: step {steps}/{run.config.steps}")
        self._add(_training(run, steps - self.done[run.key], self.scale))
        self.done[run.key] = steps

    def evaluated(self, run: Planned) -> None:
        self.left[run.key] -= 1
        self._say(run, f"{run.name}: evaluated" if self.left[run.key] else "")
        self._add(_evaluation(run, self.scale))

    def _say(self, run: Planned, text: str) -> None:
        """Of the runs that are at work, in the order in which they began."""
        if text:
            self.said[run.key] = text
        else:
            self.said.pop(run.key, None)
        finished = self.count - sum(left > 0 for left in self.left.values())
        described = ", ".join([f"{finished}/{self.count} done", *self.said.values()])
        self.bar.set_description_str(described, refresh=False)

    def _add(self, done: float) -> None:
        """Never beyond the whole, from which sums may differ in their last digits."""
        self.bar.update(min(done, self.bar.total - self.bar.n))

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *details) -> None:
        self.bar.close()
