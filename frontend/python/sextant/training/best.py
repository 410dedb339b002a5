"""The checkpoint of a run with the least loss on held-out data, beside the last one.

A step that is the best so far is saved as the last checkpoint first, and then copied, so
that the best step is never behind the one from which a run goes on.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

from ..files import read_file, replace_file
from .checkpoint import Checkpoint, CheckpointError, read_checkpoint

BEST = "best.safetensors"
_ENTRY = "best"


class Best:
    """The least ``loss`` of a run's validations so far, and after how many steps it was."""

    def __init__(self, last: Path):
        self.last, self.path = last, last.with_name(BEST)
        self.step, self.loss = 0, math.inf

    def begin(self) -> None:
        """A run that begins anew has none."""
        self.path.unlink(missing_ok=True)

    def go_on(self, checkpoint: Checkpoint) -> None:
        """As the last checkpoint has it. A process that was killed between both files left
        the best one behind; a best one that somebody removed is said, and no more."""
        stored = json.loads(checkpoint.metadata.get(_ENTRY, "null"))
        if not stored:
            return
        self.step, self.loss = stored
        if self.step == checkpoint.step:
            self.write()
            return
        try:
            found = read_checkpoint(self.path).step
        except CheckpointError as error:
            found, reason = -1, str(error)
        else:
            reason = f"{self.path} is of step {found}"
        if found != self.step:
            print(
                f"sextant: note: the best checkpoint, of step {self.step}, is not here ({reason}): "
                "the best step from now on is kept",
                file=sys.stderr,
            )
            self.step, self.loss = 0, math.inf

    def takes(self, step: int, loss: float) -> bool:
        """Whether a step is the best so far; from then on it is the one."""
        if loss >= self.loss:
            return False
        self.step, self.loss = step, loss
        return True

    def metadata(self) -> dict[str, str]:
        """What the last checkpoint says of the best one."""
        return {_ENTRY: json.dumps([self.step, self.loss])} if self.step else {}

    def write(self) -> None:
        """Copies the last checkpoint, atomically."""
        try:
            replace_file(self.path, read_file(self.last))
        except OSError as error:
            raise CheckpointError(
                f"cannot write checkpoint {self.path}: {error.strerror or error}; {self.last} "
                "holds the same step"
            ) from None
