"""Steps of a training whose positions are shifted windows (random shift; Li et al. 2025,
SeqPE, section 4.1).

With probability ``shift`` a step's positions are not 0, 1, ... but one of the windows of
as many consecutive positions below ``shift_range``: one for the whole batch, or another
for each sample. Windows are drawn once, at the start, or anew at every step. All of it is
a function of the settings and the step, so that a run that goes on draws what it would
have drawn.
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
        self.windows: Sequence[int] = range(config.shift_range - config.length + 1)
        if config.shift_windows:
            count = min(config.shift_windows, len(self.windows))
            self.windows = self._draw("windows").sample(self.windows, count)

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

    def positions(self, step: int) -> torch.Tensor:
        """Positions of a step, int32 [1 or batch, length, 1]."""
        starts = torch.tensor(self.starts(step), dtype=torch.int32)
        return starts[:, None, None] + torch.arange(self.config.length, dtype=torch.int32)[:, None]
