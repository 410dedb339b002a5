"""Checkpoints: safetensors files that are written whole or not at all.

What a run keeps in one is said in `state`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from ..errors import RunError
from .tensor_files import TensorFiles

FORMAT = "sextant-checkpoint-2"


class CheckpointError(RunError):
    """A checkpoint cannot be read or written."""


@dataclass
class Checkpoint:
    """``tensors`` by name (``param/...``, ``state/...``, ``text/...``), and ``metadata``
    (text values; ``step`` counts the steps that are done)."""

    tensors: dict[str, torch.Tensor]
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def step(self) -> int:
        return int(self.metadata.get("step", "0"))

    def part(self, prefix: str) -> dict[str, torch.Tensor]:
        """Tensors below a prefix, without it."""
        start = prefix + "/"
        return {n[len(start) :]: t for n, t in self.tensors.items() if n.startswith(start)}


_FILES = TensorFiles(FORMAT, "checkpoint", CheckpointError, "train anew with --fresh")


def write_checkpoint(path: str | Path, checkpoint: Checkpoint) -> None:
    """Writes atomically: afterwards the file is the old one or the new one."""
    _FILES.write(path, checkpoint.tensors, checkpoint.metadata)


def read_metadata(path: str | Path) -> dict[str, str]:
    """The metadata alone, in no time; empty without a checkpoint that can be read."""
    return _FILES.metadata(path)


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Reads and checks a checkpoint; damage is a `CheckpointError`."""
    path = Path(path)
    if not path.exists():
        raise CheckpointError(
            f"cannot read checkpoint {path}: there is no such file; sextant train writes those of a run"
        )
    return Checkpoint(*_FILES.read(path))
