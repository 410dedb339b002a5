"""Steps of a training whose positions are shifted windows (random shift; Li et al. 2025,
SeqPE, section 4.1).

With probability ``shift`` a step's positions are not 0, 1, ... but one of the windows of
as many consecutive positions below ``shift_range``: one for the whole batch, or another
for each sample. Of images, rows and columns of patches are shifted, each by its own.
Windows are drawn once, at the start, or anew at every step. All of it is a function of
the settings and the step, so that a run that goes on draws what it would have drawn.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

import torch

from .config import TrainConfig


class Shift:
    """Where the positions of steps begin."""

    def __init__(self, config: TrainConfig):
        self.config = config
        # All windows, by their first positions.
        self.windows: Sequence[int] = range(self._count())
        if config.shift_windows:
            count = min(config.shift_windows, len(self.windows))
            self.windows = self._draw("windows").sample(self.windows, count)

    def _count(self) -> int:
        """How many windows there are below ``shift_range``."""
        return self.config.shift_range - self.config.reach + 1

    def _draw(self, what: object) -> random.Random:
        text = f"shift {self.config.seed} {what}"
        return random.Random(hashlib.sha256(text.encode()).digest())

    def starts(self, step: int) -> list[int]:
        """The first position of each sample of a step, or the one of all; [0] in steps
        that are not shifted. Windows of one step differ as long as there are enough,
        then they come again in the same order."""
        draw = self._draw(step)
        if draw.random() >= self.config.shift:
            return [0]
        count = self.config.batch if self.config.shift_per == "sample" else 1
        drawn = draw.sample(self.windows, min(count, len(self.windows)))
        return [drawn[i % len(drawn)] for i in range(count)]

    @property
    def farthest(self) -> int:
        """The greatest first position of all windows."""
        return max(self.windows) if self.config.shift_windows else self._count() - 1

    def positions(self, step: int) -> torch.Tensor:
        """Positions of a step, int32 [1 or batch, length, 1]."""
        starts = torch.tensor(self.starts(step), dtype=torch.int32)
        return starts[:, None, None] + torch.arange(self.config.length, dtype=torch.int32)[:, None]


class GridShift(Shift):
    """Where the rows and columns of the patches of images begin: windows are squares, which
    are counted row by row."""

    def _count(self) -> int:
        return super()._count() ** 2

    @property
    def farthest(self) -> int:
        """The greatest first row or column of all windows."""
        side = super()._count()
        if not self.config.shift_windows:
            return side - 1
        return max(max(divmod(window, side)) for window in self.windows)

    def corners(self, step: int) -> list[list[int]]:
        """The first row and column of each sample of a step, or those of all."""
        return [list(divmod(start, super(GridShift, self)._count())) for start in self.starts(step)]
