"""Byte text for language models.

Tokens are bytes. The default text is on every machine: the sources of Python's
standard library, files ``*.py`` and ``*/*.py`` in sorted order, without tests and
site-packages. The last 5 % of a text are held out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ..errors import RunError
from ..memory import gibibytes, memory_limit

HELD_OUT = 0.05
VALIDATION_BYTES = 64 * 1024
_EXCLUDED = {"test", "tests", "site-packages", "dist-packages", "__pycache__"}


class DataError(RunError):
    """A text cannot be read, or is too short for what is asked."""


@dataclass(frozen=True)
class Text:
    """A text as bytes (uint8): ``train`` and ``validation``, and where it is
    from. ``digest`` is the SHA-256 of the whole, to recognise it."""

    train: torch.Tensor
    validation: torch.Tensor
    source: str
    digest: str


def standard_library_files(root: Path | None = None) -> list[Path]:
    """The default text's files, sorted by their path below ``root``."""
    root = Path(sysconfig.get_paths()["stdlib"]) if root is None else root
    found = [*root.glob("*.py"), *root.glob("*/*.py")]
    kept = [f for f in found if not _EXCLUDED & set(f.relative_to(root).parts)]
    return sorted(kept, key=lambda f: str(f.relative_to(root)))


def load_text(files: Sequence[str | Path] = (), minimum: int = 1) -> Text:
    """Reads ``files`` (default: the standard library's sources) as one text.

    ``minimum``: bytes that either part must have. Raises `DataError`.
    """
    paths = [Path(f) for f in files]
    source = ", ".join(map(str, paths)) if paths else "Python's standard library"
    if not paths:
        paths = standard_library_files()
        if not paths:
            raise DataError(
                "the sources of Python's standard library are not on this machine; "
                "name a text with --data FILE..."
            )
    return split_text(_read(paths), source, minimum)


def _read(paths: Sequence[Path]) -> bytes:
    """The bytes of files, which are ordinary ones: a resumed run reads them again,
    and a device may have no end."""
    parts, total = [], 0
    for path in paths:
        try:
            # Without a writer, opening a pipe would wait for ever.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                if stat.S_ISDIR(mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                if not stat.S_ISREG(mode):
                    raise DataError(
                        f"cannot read {path}: it is {_kind(mode)}; a text is an ordinary file, "
                        "which a resumed run can read again"
                    )
                total += os.fstat(file.fileno()).st_size
                # The parts, the whole, and the tensors made of it.
                if 3 * total > memory_limit():
                    raise DataError(
                        f"{path} makes a text of {gibibytes(total)}, of which three copies do "
                        f"not fit into {gibibytes(memory_limit())} of memory; name a part of it"
                    )
                parts.append(file.read())
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    return b"".join(parts)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def split_text(raw: bytes, source: str, minimum: int = 1) -> Text:
    """Cuts a text in train and validation: the validation part is the first 64
    KiB of the last 5 %."""
    cut = int(len(raw) * (1 - HELD_OUT))
    held_out = raw[cut : cut + VALIDATION_BYTES]
    if cut < minimum or len(held_out) < minimum:
        raise DataError(
            f"{source} has {len(raw)} bytes, of which {cut} are for training and "
            f"{len(held_out)} for validation; either part needs {minimum}"
        )
    digest = hashlib.sha256(raw).hexdigest()
    return Text(_bytes(raw[:cut]), _bytes(held_out), source, digest)


def _bytes(raw: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8)


def batch_at(data: torch.Tensor, step: int, batch: int, length: int, seed: int):
    """Inputs and labels (batch, length) i64 of a training step.

    A pure function of seed and step, so that a resumed run sees the same data.
    """
    generator = torch.Generator().manual_seed(_mix(seed, step))
    starts = torch.randint(0, len(data) - length, (batch,), generator=generator)
    rows = torch.stack([data[s : s + length + 1] for s in starts.tolist()]).long()
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def _mix(seed: int, step: int) -> int:
    digest = hashlib.sha256(f"batch {seed} {step}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def blocks(data: torch.Tensor, length: int):
    """Non-overlapping blocks: inputs and labels (count, length) i64."""
    count = (len(data) - 1) // length
    if count == 0:
        raise DataError(
            f"the validation text has {len(data)} bytes, a block of {length} needs "
            f"{length + 1}"
        )
    used = data[: count * length + 1].long()
    return (
        used[:-1].reshape(count, length).contiguous(),
        used[1:].reshape(count, length).contiguous(),
    )
