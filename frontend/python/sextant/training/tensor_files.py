"""Files of tensors, of one kind each: safetensors that are written whole or not at all, with
the checksum of all that they hold."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from ..errors import RunError
from ..files import replace_file


@dataclass(frozen=True)
class TensorFiles:
    """A kind of file: the ``format`` that its metadata name, its ``name`` in errors, the
    class of these, and what to do about a file of another format."""

    format: str
    name: str
    error: type[RunError]
    cure: str

    def write(
        self, path: str | Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]
    ) -> None:
        """Writes atomically: afterwards the file is the old one or the new one."""
        stored = {n: t.detach().contiguous().cpu() for n, t in tensors.items()}
        texts = {**metadata, "format": self.format}
        texts["checksum"] = _checksum(stored, texts)
        try:
            replace_file(path, save(stored, texts))
        except OSError as error:
            raise self.error(
                f"cannot write {self.name} {path}: {error.strerror or error}; "
                "the one before, if any, is untouched"
            ) from None

    def read(self, path: str | Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        """Tensors and metadata of a file; damage is an error."""
        path = Path(path)
        try:
            _check_length(path)
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}
        except OSError as error:
            raise self.error(
                f"cannot read {self.name} {path}: {error.strerror or error}"
            ) from None
        except (SafetensorError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise self.error(f"{self.name} {path} is damaged: {error}") from None
        if metadata.get("format") != self.format:
            raise self.error(
                f"{path} is not a {self.name} of this version: expected format {self.format}, "
                f"got {metadata.get('format', 'none')}; {self.cure}"
            )
        if metadata.get("checksum") != _checksum(tensors, metadata):
            raise self.error(f"{self.name} {path} is damaged: its checksum is wrong")
        return tensors, metadata

    def metadata(self, path: str | Path) -> dict[str, str]:
        """What a file says of its tensors, which are not read; empty where there is no such
        file, or one that cannot be read."""
        try:
            with safe_open(path, framework="pt") as file:
                found = file.metadata() or {}
        except (OSError, SafetensorError):
            return {}
        return found if found.get("format") == self.format else {}


def _check_length(path: Path) -> None:
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


def _checksum(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> str:
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
