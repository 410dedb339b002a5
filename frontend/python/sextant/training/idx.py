"""Files of the IDX format: images of 3 dimensions [count, height, width] or 4 (channels
last), labels of 1, elements of one byte.

Plain files stay on the disk (`disk_file`); those that xz has packed are unpacked into memory.
"""

from __future__ import annotations

import hashlib
import lzma
import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

import torch

from ..memory import gibibytes, memory_limit
from .disk_file import DataError, DiskFile, DiskRows
from .packed import HEAD, unpacker

_BYTES = 0x08  # the type of elements
_XZ = b"\xfd7zXZ\x00"


E = TypeVar("E", bound=torch.Tensor | DiskRows)


@dataclass(frozen=True)
class Idx(Generic[E]):
    """The elements of a file (uint8), and the SHA-256 of what it says unpacked."""

    elements: E
    digest: str


def read_images(path: Path) -> Idx[torch.Tensor | DiskRows]:
    """Images [count, height, width, channels]; raises `DataError`."""
    return _read(path, "images", (3, 4))


def read_labels(path: Path) -> Idx[torch.Tensor]:
    """Labels [count]; raises `DataError`."""
    found = _read(path, "labels", (1,))
    return Idx(found.elements[torch.arange(len(found.elements))], found.digest)


def _read(path: Path, what: str, ranks: tuple[int, ...]) -> Idx[torch.Tensor | DiskRows]:
    try:
        if not path.is_file():
            os.stat(path)  # says what is wrong, if it is not there
            kind = "a folder" if path.is_dir() else "no ordinary file"
            raise DataError(f"cannot read {path}: it is {kind}; {what} are an IDX file")
        with path.open("rb") as file:
            is_packed = file.read(len(_XZ)) == _XZ
        with lzma.open(path) if is_packed else path.open("rb") as file:
            return _contents(file, path, what, ranks, is_packed)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except EOFError:
        raise DataError(
            f"{path} is truncated: its xz data ends early, after {path.stat().st_size} bytes; "
            "fetch it again"
        ) from None
    except lzma.LZMAError as error:
        raise DataError(f"{path} is damaged: {error}; fetch it again") from None


def _contents(
    file: BinaryIO | lzma.LZMAFile, path: Path, what: str, ranks: tuple[int, ...], is_packed: bool
) -> Idx[torch.Tensor | DiskRows]:
    shape, header = _header(file, path, what, ranks)
    wanted = math.prod(shape)
    # Grey images have one channel.
    full = (*shape, 1) if len(shape) == 3 else shape
    if not is_packed:
        _check_size(path, path.stat().st_size - len(header), wanted, shape)
        whole = DiskFile(path, os.dup(file.fileno()))
        for _ in whole.chunks():
            pass
        return Idx(DiskRows(whole, len(header), full), whole.digest)
    if 2 * wanted > memory_limit():
        raise DataError(
            f"{path} holds {gibibytes(wanted)} of {what}, of which two copies do not fit into "
            f"{gibibytes(memory_limit())} of memory; unpack it (xz -d), so that it stays on the disk"
        )
    raw = bytearray(file.read(wanted + 1))
    _check_size(path, len(raw), wanted, shape)
    elements = torch.frombuffer(raw, dtype=torch.uint8).reshape(full)
    return Idx(elements, hashlib.sha256(header + raw).hexdigest())


def is_idx(head: bytes) -> bool:
    """Whether a file that begins so holds bytes in this format, not a text."""
    return head[:3] == bytes((0, 0, _BYTES)) and head[3:4] in (b"\1", b"\2", b"\3", b"\4")


def _header(
    file: BinaryIO | lzma.LZMAFile, path: Path, what: str, ranks: tuple[int, ...]
) -> tuple[tuple[int, ...], bytes]:
    """The shape, and the bytes that say so."""
    magic = file.read(4)
    expected = " or ".join(f"00 00 {_BYTES:02x} {rank:02x}" for rank in ranks)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        tool = unpacker(magic + file.read(HEAD - len(magic)))
        hint = f"; unpack it with {tool}" if tool else ""
        raise DataError(
            f"{path} is no IDX file of {what}: it begins with {magic.hex(' ') or 'nothing'}, "
            f"expected {expected}{hint}"
        )
    kind, rank = magic[2:]
    if kind != _BYTES:
        raise DataError(
            f"{path} has elements of IDX type 0x{kind:02x}; {what} are bytes (0x{_BYTES:02x})"
        )
    if rank not in ranks:
        raise DataError(
            f"{path} holds {rank} dimensions (it begins with {magic.hex(' ')}), {what} have "
            f"{' or '.join(map(str, ranks))}; --data takes images first, then their labels"
        )
    sizes = file.read(4 * rank)
    if len(sizes) < 4 * rank:
        raise DataError(f"{path} is truncated: it ends in its header, after {4 + len(sizes)} bytes")
    shape = struct.unpack(f">{rank}I", sizes)
    if 0 in shape:
        raise DataError(f"{path} holds no {what}: its header says {_times(shape)}")
    return shape, magic + sizes


def _check_size(path: Path, found: int, wanted: int, shape: tuple[int, ...]) -> None:
    if found < wanted:
        raise DataError(
            f"{path} is truncated: its header says {_times(shape)} bytes, {found:,} of "
            f"{wanted:,} are there; fetch it again"
        )
    if found > wanted:
        raise DataError(
            f"{path} is damaged: its header says {_times(shape)} bytes, and there are more"
        )


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
