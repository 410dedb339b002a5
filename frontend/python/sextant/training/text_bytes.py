"""The bytes of a text's files, one after the other.

Compressed files (``.xz``) and small ones are read into memory. A larger plain file stays
where it is (`disk_file.DiskFile`).
"""

from __future__ import annotations

import errno
import hashlib
import lzma
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import torch

from ..memory import gibibytes, memory_limit
from .disk_file import DataError, DiskFile
from .idx import is_idx
from .packed import HEAD, unpacker

# From this size on a plain file stays where it is.
_LARGE = 2**20
# Bytes of text that are decompressed at once.
_CHUNK = 2**22
# Compressed bytes that are read at once: so exactly an error names its place.
_BLOCK = 2**16
_XZ = ".xz"


class _InMemory:
    """Bytes that are here."""

    def __init__(self, raw: bytes | bytearray):
        self.raw = memoryview(raw)

    def __reduce__(self):
        return _InMemory, (bytes(self.raw),)

    def __len__(self) -> int:
        return len(self.raw)

    def read(self, start: int, stop: int) -> memoryview:
        return self.raw[start:stop]

    def chunks(self) -> Iterator[memoryview]:
        yield self.raw


_Part = _InMemory | DiskFile


class TextBytes:
    """Bytes of files, joined, or the first of them; a slice is a uint8 tensor."""

    def __init__(self, parts: Sequence[_Part], size: int | None = None):
        self.parts = list(parts)
        self.size = sum(map(len, parts)) if size is None else size

    @classmethod
    def of(cls, raw: bytes) -> TextBytes:
        return cls([_InMemory(raw)])

    def __len__(self) -> int:
        return self.size

    def first(self, size: int) -> TextBytes:
        return TextBytes(self.parts, size)

    def __getitem__(self, wanted: slice) -> torch.Tensor:
        start, stop, step = wanted.indices(self.size)
        assert step == 1, "bytes are read one after the other"
        found = bytearray()
        begin = 0
        for part in self.parts:
            if stop > begin and start < begin + len(part):
                found += part.read(max(start - begin, 0), min(stop - begin, len(part)))
            begin += len(part)
        if not found:
            return torch.empty(0, dtype=torch.uint8)
        return torch.frombuffer(found, dtype=torch.uint8)

    def digest(self) -> str:
        """The SHA-256 of all parts."""
        whole = hashlib.sha256()
        for part in self.parts:
            for chunk in part.chunks():
                whole.update(chunk)
        return whole.hexdigest()


def read_bytes(paths: Iterable[Path]) -> TextBytes:
    """The bytes of files, which are ordinary ones: a resumed run reads them again, and a
    device may have no end."""
    parts: list[_Part] = []
    joined = bytearray()  # what is in memory, up to a file that is not
    in_memory = 0
    for path in paths:
        try:
            found = _read(path, in_memory)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from None
        if isinstance(found, DiskFile):
            parts += [_InMemory(joined), found]
            joined = bytearray()
        else:
            joined += found
            in_memory += len(found)
    return TextBytes([part for part in (*parts, _InMemory(joined)) if len(part)])


def _read(path: Path, in_memory: int) -> DiskFile | bytes | bytearray:
    """A file; ``in_memory``: bytes that those before it have there."""
    # Without a writer, opening a pipe would wait for ever.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode):
            raise DataError(
                f"cannot read {path}: it is {_kind(found.st_mode)}; a text is an ordinary file, "
                "which a resumed run can read again"
            )
        head = os.pread(handle, HEAD, 0)
        if is_idx(head):
            raise DataError(
                f"{path} is an IDX file, of images or labels, and no text: a model of images "
                "learns from it (--model vit)"
            )
        if path.suffix != _XZ and (tool := unpacker(head)):
            raise DataError(
                f"{path} is packed, and its bytes are no text: unpack it with {tool}, or pack it "
                f"anew as FILE{_XZ}, which is decompressed here"
            )
        if path.suffix != _XZ and found.st_size >= _LARGE:
            return DiskFile(path, os.dup(handle))
        with open(handle, "rb", closefd=False) as file:
            return _decompressed(path, file, in_memory) if path.suffix == _XZ else file.read()
    finally:
        os.close(handle)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _decompressed(path: Path, file: BinaryIO, in_memory: int) -> bytearray:
    """The text of all streams of an xz file."""
    size = os.fstat(file.fileno()).st_size
    found = bytearray()
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    raw = b""
    while True:
        try:
            found += decoder.decompress(raw, _CHUNK)
        except lzma.LZMAError as error:
            raise DataError(
                f"{path} is damaged, or no xz file, before its byte {file.tell()} of {size}, after "
                f"{len(found)} bytes of text: {error}"
            ) from None
        # An array that grows has a copy for a moment.
        if 2 * (in_memory + len(found)) > memory_limit():
            raise DataError(
                f"{path} makes a text of more than {gibibytes(len(found))}, which does not fit "
                f"into {gibibytes(memory_limit())} of memory while it is decompressed; decompress "
                "it into a file, which stays on the disk"
            )
        raw = b""
        if decoder.eof:
            raw = _next_stream(decoder.unused_data, file)
            if not raw:
                return found
            decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        elif decoder.needs_input:
            raw = file.read(_BLOCK)
            if not raw:
                raise DataError(
                    f"{path} is cut: its {size} bytes end before the compressed text does, after "
                    f"{len(found)} bytes of text; fetch it again"
                )


def _next_stream(raw: bytes, file: BinaryIO) -> bytes:
    """The beginning of the stream behind one and the zeros that may pad it; empty at the end."""
    raw = raw.lstrip(b"\0")
    while not raw and (block := file.read(_BLOCK)):
        raw = block.lstrip(b"\0")
    return raw
