"""Tables of a run in a file: what functions of encodings make of the positions 0, 1, ... and
of parameters alone, at one length. An evaluation of blocks that are not longer takes the
first rows instead of making them.

The file is one of safetensors that is written whole or not at all. It knows the
checkpoint that it was made of, and serves no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from ..errors import RunError
from ..models.tables import build_tables
from ..program import compile
from .model import Model
from .state import Run
from .tensor_files import TensorFiles

FORMAT = "sextant-tables-1"
FILE = "tables.safetensors"
# What rows of two lengths may differ by, as a part of the largest element: other sums.
_ROUNDING = 1e-4


class TablesError(RunError):
    """Tables cannot be made, written, read, or used with a run."""


_FILES = TensorFiles(FORMAT, "file of tables", TablesError, "make it with sextant tables")


@dataclass(frozen=True)
class Tables:
    """``tensors`` by the names of a program's arguments; ``along``: the dimensions of each
    that are the ``length``. ``checkpoint``: the checksum of what they were made of."""

    tensors: Mapping[str, torch.Tensor]
    along: Mapping[str, list[int]]
    length: int
    checkpoint: str

    def rows(self, length: int) -> dict[str, torch.Tensor]:
        """The tables of a shorter length."""
        return {n: _narrowed(t, self.along[n], length) for n, t in self.tensors.items()}


def make_tables(model: Model, run: Run, length: int) -> Tables:
    """The tables of a run's model; a `TablesError` if rows depend on the length, and a
    ValueError if its encodings make none."""
    if length < 2:
        raise ValueError(f"tables have at least 2 rows, got {length}")
    if model.config.max_position:
        raise TablesError(
            f"{run.path.parent} draws random positions below {model.config.max_position} at every "
            "call, and tables hold those from 0 on"
        )
    program = compile(build_tables(model.shape), target=model.config.target, file="<gpt>")

    def made(length: int) -> dict[str, torch.Tensor]:
        positions = torch.arange(length, dtype=torch.int32)[None, :, None]
        values = model.run(program, "tables", {"positions": positions})
        return dict(zip(program.results("tables"), values))

    tensors, shorter = made(length), made(length - 1)
    along = {
        name: [d for d, (a, b) in enumerate(zip(t.shape, shorter[name].shape)) if a != b]
        for name, t in tensors.items()
    }
    for name, tensor in tensors.items():
        first = _narrowed(tensor, along[name], length - 1)
        apart = (first - shorter[name]).abs().max()
        if not apart <= _ROUNDING * tensor.abs().max():
            raise TablesError(
                f'rows of "{name}" depend on the length: at length {length} they differ by '
                f"{float(apart):g} from those at length {length - 1}, so that no table serves both"
            )
    return Tables(tensors, along, length, run.checkpoint.metadata["checksum"])


def _narrowed(tensor: torch.Tensor, dims: list[int], length: int) -> torch.Tensor:
    for dim in dims:
        tensor = tensor.narrow(dim, 0, length)
    return tensor


def write_tables(path: str | Path, tables: Tables) -> None:
    """Writes a file atomically."""
    metadata = {
        "length": str(tables.length),
        "along": json.dumps(tables.along),
        "checkpoint": tables.checkpoint,
    }
    _FILES.write(path, tables.tensors, metadata)


def read_tables(path: str | Path, run: Run, longest: int) -> Tables:
    """Reads the tables of a run for blocks of at most ``longest`` tokens."""
    folder = run.path.parent
    tensors, metadata = _FILES.read(path)
    length = int(metadata["length"])
    tables = Tables(tensors, json.loads(metadata["along"]), length, metadata["checkpoint"])
    if tables.checkpoint != run.checkpoint.metadata["checksum"]:
        raise TablesError(
            f"{path} holds tables of another run than {folder}, or of another step of it: make "
            f"them with sextant tables {folder} --length {max(length, longest)}"
        )
    if length < longest:
        raise TablesError(
            f"{path} holds tables of length {length}, blocks of {longest} tokens need more: make "
            f"them with sextant tables {folder} --length {longest}"
        )
    return tables
