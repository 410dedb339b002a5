"""A file that stays on the disk: what is needed of it is read when it is needed.

Each use reads the bytes that it needs from the file that was opened at the start, which the
system keeps in its cache. It is not mapped into memory, where a file that is cut by somebody
else ends the process. A file that has changed since it was opened is read once more as a
whole, and an error unless its bytes are the same.
"""

from __future__ import annotations

import hashlib
import math
import os
import weakref
from collections.abc import Iterator
from pathlib import Path

import torch

from ..errors import RunError

# Bytes that are read at once where all of a file are.
_CHUNK = 2**22


class DataError(RunError):
    """Data cannot be read, or is too little for what is asked."""


class DiskFile:
    """A plain file, by a descriptor that is its own from now on. ``digest``: the SHA-256 of its
    bytes, once `chunks` has been through them."""

    def __init__(self, path: Path, handle: int):
        self.path, self.handle = path, handle
        weakref.finalize(self, os.close, handle)
        self.known = self._stamp()
        self.digest = ""

    def __reduce__(self):
        """Another process opens the file by its path; one that is not this file as it is now
        has changed, and is treated as such."""
        return _opened_again, (self.path.absolute(), self.known, self.digest)

    def __len__(self) -> int:
        return self.known[0]

    def _stamp(self) -> tuple[int, int]:
        """By which a change of the file is recognised: its size, and when anything of it
        changed last, which nobody can set."""
        found = os.fstat(self.handle)
        return found.st_size, found.st_ctime_ns

    def read(self, start: int, stop: int) -> bytes:
        found = self._pread(start, stop)
        while self._stamp() != self.known:
            self._check_same()
            found = self._pread(start, stop)
        return found

    def _pread(self, start: int, stop: int) -> bytes:
        """These bytes, or fewer of a file that was cut."""
        parts = []
        try:
            while start < stop and (part := os.pread(self.handle, stop - start, start)):
                parts.append(part)
                start += len(part)
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror or error}") from None
        return b"".join(parts)

    def chunks(self) -> Iterator[bytes]:
        """The whole file, whose digest is known afterwards."""
        whole = hashlib.sha256()
        for start in range(0, len(self), _CHUNK):
            part = self._pread(start, min(start + _CHUNK, len(self)))
            whole.update(part)
            yield part
        if self._stamp() != self.known:
            raise DataError(f"{self.path} changes while it is read; take a copy that stays as it is")
        self.digest = whole.hexdigest()

    def _check_same(self) -> None:
        """What has changed may be the time alone."""
        before, digest = self.known, self.digest
        self.known = self._stamp()
        if len(self) == before[0]:
            for _ in self.chunks():
                pass
            if self.digest == digest:
                return
        raise DataError(
            f"{self.path} has changed since it was opened, then {before[0]} bytes, now "
            f"{len(self)}; take a copy that stays as it is"
        )


def _opened_again(path: Path, known: tuple[int, int], digest: str) -> DiskFile:
    try:
        file = DiskFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    file.known, file.digest = known, digest
    return file


class DiskRows:
    """Bytes of a file from ``start`` on as rows, uint8 [count, ...]; some of them, by their
    index or indices, are a tensor."""

    def __init__(self, file: DiskFile, start: int, shape: tuple[int, ...]):
        self.file, self.start = file, start
        self.shape = torch.Size(shape)

    def __len__(self) -> int:
        return self.shape[0]

    def numel(self) -> int:
        return math.prod(self.shape)

    def __getitem__(self, index: torch.Tensor | int) -> torch.Tensor:
        row = self.shape[1:]
        size = math.prod(row)
        found = bytearray()
        for number in [index] if isinstance(index, int) else index.tolist():
            place = self.start + number * size
            found += self.file.read(place, place + size)
        rows = torch.frombuffer(found, dtype=torch.uint8)
        return rows.reshape(row if isinstance(index, int) else (-1, *row))

    def split(self, count: int) -> Iterator[torch.Tensor]:
        for first in range(0, len(self), count):
            yield self[torch.arange(first, min(first + count, len(self)))]
