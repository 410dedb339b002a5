"""How large models are, and how they are evaluated: texts at lengths, images at sizes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..report import figures
from ..report.groups import Group
from ..report.results import RunResult
from ..training.config import TrainConfig

ALL_TOKENS = "all_tokens"
LAST_TOKENS = "last_tokens"
STEP_TIME = "step_time"


# What was measured of a run, by point.
Measure = Callable[[RunResult], Mapping[int, float]]


@dataclass(frozen=True)
class Protocol:
    """A measure of runs at several points, less of which is better. ``figure`` draws it, if
    it is drawn. ``each``: what a number is of, if not of a point; ``digits``: that orderings
    show of it."""

    title: str
    unit: str
    of: Measure
    figure: Callable[[Sequence[Group]], str] | None = None
    each: str = ""
    digits: int = 3


@dataclass(frozen=True)
class Scale(ABC):
    """``settings`` of `TrainConfig`; ``points`` at which runs are evaluated, the training's
    own first."""

    name: str
    settings: Mapping[str, Any]
    points: tuple[int, ...]

    @property
    @abstractmethod
    def protocols(self) -> dict[str, Protocol]:
        """By name, as orderings and tables of papers have them."""

    @property
    def measures(self) -> dict[str, Protocol]:
        """What orderings can be of: a protocol, or the time of a step, which is measured
        once, and stands at 1."""
        time = Protocol("time of a step", "ms", lambda run: {1: run.step_ms}, None, "ms a step", 0)
        return {**self.protocols, STEP_TIME: time}

    @abstractmethod
    def spell(self, point: int) -> str:
        """A point as tables have it."""

    @property
    @abstractmethod
    def evaluation(self) -> dict[str, Any]:
        """What `evaluate_run` is asked."""

    @property
    @abstractmethod
    def evaluated(self) -> str:
        """What runs are evaluated on, in words."""

    @abstractmethod
    def is_of(self, result: RunResult) -> bool:
        """Whether an evaluation is one of this scale."""

    @abstractmethod
    def units(self) -> float:
        """What an evaluation takes, in tokens of a training."""

    @abstractmethod
    def step(self, config: TrainConfig) -> float:
        """Tokens of a training step."""

    @abstractmethod
    def sizes(self) -> dict[str, float]:
        """What templates of papers may name."""

    def deviations(self) -> dict[str, float]:
        """Of initial weights: what 0.02 is in a model of a ``width`` that papers have. Weights
        with ``deviation_of_WIDTH`` give rows as large in a model of this scale."""
        width = self.settings["width"]
        return {f"deviation_of_{w}": round(0.02 * math.sqrt(w / width), 4) for w in (384, 768)}

    @property
    @abstractmethod
    def loss_unit(self) -> str:
        """The unit of losses of a training."""

    @property
    def held_out(self) -> dict[str, Any]:
        """Settings by which as much data is held out as evaluations take."""
        return {}


# What an evaluation of a token costs, as a part of its training, and how much that grows
# for each training length of a block, whose tokens see all before them.
_EVALUATED = 0.4
_PER_MULTIPLE = 0.05


@dataclass(frozen=True)
class TextScale(Scale):
    """Points are multiples of the training length, at which all tokens of blocks that do not
    overlap count, or the ``last`` ones of each; ``blocks`` blocks of the longest length are
    evaluated."""

    points: tuple[int, ...] = (1, 2, 4, 8, 16)
    last: int = 64
    blocks: int = 64

    @property
    def protocols(self) -> dict[str, Protocol]:
        def figure(name: str, title: str) -> Callable[[Sequence[Group]], str]:
            return lambda groups: figures.extrapolation(groups, name, title)

        last = f"the last {self.last} tokens of each block"
        return {
            ALL_TOKENS: Protocol(
                "all tokens",
                "nats per byte",
                lambda run: run.all_tokens,
                figure(ALL_TOKENS, "all tokens"),
            ),
            LAST_TOKENS: Protocol(
                last, "nats per byte", lambda run: run.last_tokens, figure(LAST_TOKENS, last)
            ),
        }

    def spell(self, point: int) -> str:
        return f"{point}x"

    @property
    def loss_unit(self) -> str:
        return "nats per byte"

    @property
    def evaluation(self) -> dict[str, Any]:
        return {"multiples": self.points, "last": self.last}

    @property
    def evaluated(self) -> str:
        return (
            f"blocks of {self.points[0]}x to {self.points[-1]}x the training length of "
            f"{self.validation:,} bytes of held-out text"
        )

    def is_of(self, result: RunResult) -> bool:
        return tuple(result.all_tokens) == self.points and result.last == self.last

    def units(self) -> float:
        return self.validation * _EVALUATED * sum(1 + _PER_MULTIPLE * p for p in self.points)

    def step(self, config: TrainConfig) -> float:
        return config.batch * config.length

    def sizes(self) -> dict[str, float]:
        """The training ``length``, an ``eighth`` and a ``half`` of it, ``twice`` of it, and what
        of a ``quarter`` is for each of its tokens; ``beyond``, twice the longest length of an
        evaluation, and the number of decimal ``digits`` of positions below it; four for each
        head, ``gates``."""
        length = self.settings["length"]
        beyond = 2 * self.points[-1] * length
        return {
            "length": length,
            "twice": 2 * length,
            "eighth": max(length // 8, 1),
            "half": max(length // 2, 1),
            "quarter": 0.25 / length,
            "beyond": beyond,
            "digits": len(str(beyond - 1)),
            "gates": 4 * self.settings["heads"],
            **self.deviations(),
        }

    @property
    def held_out(self) -> dict[str, Any]:
        return {"validation": self.validation}

    @property
    def validation(self) -> int:
        """Bytes of text that an evaluation takes."""
        return self.blocks * self.points[-1] * self.settings["length"] + 1


ERROR = "error"
LOSS = "loss"


@dataclass(frozen=True)
class ImageScale(Scale):
    """Points are sizes of square images, of which about ``count`` are held out."""

    count: int = 1000

    @property
    def protocols(self) -> dict[str, Protocol]:
        def errors(run: RunResult) -> dict[int, float]:
            return {size: 100 * (1 - share) for size, share in run.accuracy.items()}

        def losses(run: RunResult) -> dict[int, float]:
            return run.size_losses

        title = "of held-out images"
        return {
            ERROR: Protocol(f"errors {title}", "top-1 error (%)", errors, figures.accuracy_by_size),
            LOSS: Protocol(f"losses {title}", "loss (nats)", losses),
        }

    def spell(self, point: int) -> str:
        return f"{point} px"

    @property
    def loss_unit(self) -> str:
        return "nats"

    @property
    def evaluation(self) -> dict[str, Any]:
        return {"sizes": self.points}

    @property
    def evaluated(self) -> str:
        return f"held-out images of {', '.join(map(str, self.points))} pixels a side"

    def is_of(self, result: RunResult) -> bool:
        return tuple(result.accuracy) == self.points

    def units(self) -> float:
        return self.count * _EVALUATED * sum(map(self._tokens, self.points))

    def step(self, config: TrainConfig) -> float:
        return config.batch * self._tokens(config.size)

    def _tokens(self, size: int) -> float:
        """Of an image, the class token among them."""
        return (size // self.settings["patch"]) ** 2 + 1

    def sizes(self) -> dict[str, float]:
        """Patches on a ``side`` of a training image, and ``cells``, all of them."""
        side = self.settings["size"] // self.settings["patch"]
        return {"side": side, "cells": side * side, **self.deviations()}
