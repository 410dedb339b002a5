"""Checkpoints: safetensors files that are written whole or not at all.

What a run keeps in one is said in `state`.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from ..errors import RunError
from ..files import replace_file

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


def write_checkpoint(path: str | Path, checkpoint: Checkpoint) -> None:
    """Writes atomically: afterwards the file is the old one or the new one."""
    path = Path(path)
    metadata = {**checkpoint.metadata, "format": FORMAT}
    tensors = {n: t.detach().contiguous().cpu() for n, t in checkpoint.tensors.items()}
    metadata["checksum"] = checksum(tensors, metadata)
    try:
        replace_file(path, save(tensors, metadata))
    except OSError as error:
        raise CheckpointError(
            f"cannot write checkpoint {path}: {error.strerror or error}; "
            "the one before, if any, is untouched"
        ) from None


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Reads and checks a checkpoint; damage is a `CheckpointError`."""
    path = Path(path)
    try:
        check_length(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except OSError as error:
        raise CheckpointError(
            f"cannot read checkpoint {path}: {error.strerror or error}"
        ) from None
    except (
        SafetensorError, ValueError, LookupError, TypeError, AttributeError
    ) as error:
        raise CheckpointError(f"checkpoint {path} is damaged: {error}") from None
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not a checkpoint of this version: expected format "
            f"{FORMAT}, got {metadata.get('format', 'none')}; train anew with --fresh"
        )
    if metadata.get("checksum") != checksum(tensors, metadata):
        raise CheckpointError(f"checkpoint {path} is damaged: its checksum is wrong")
    return Checkpoint(tensors, metadata)


def check_length(path: Path) -> None:
    """A file that ends before its header says is damaged; the library maps files
    and would report some cases late."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        if len(head) < 8:
            raise ValueError(f"{size} bytes are too few")
        (length,) = struct.unpack("<Q", head)
        if length > size - 8:
            raise ValueError(f"its header claims {length} bytes of {size}")
        header = json.loads(file.read(length))
    ends = [t["data_offsets"][1] for n, t in header.items() if n != "__metadata__"]
    want = 8 + length + max(ends, default=0)
    if want != size:
        raise ValueError(f"expected {want} bytes, got {size}")


def checksum(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> str:
    """SHA-256 over the metadata and the tensors' names, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(metadata):
        if name != "checksum":
            digest.update(f"{name}={metadata[name]}\n".encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous().cpu()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
