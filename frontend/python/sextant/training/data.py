"""Byte text for language models.

Tokens are bytes. The default text is on every machine: the sources of Python's
standard library, files ``*.py`` and ``*/*.py`` in sorted order, without tests and
site-packages. The last 5 % of a text are held out, unless another one is named for
validation.
"""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ..files import spell_path
from .text_bytes import DataError, TextBytes, read_bytes

HELD_OUT = 0.05
VALIDATION_BYTES = 64 * 1024
_EXCLUDED = {"test", "tests", "site-packages", "dist-packages", "__pycache__"}


@dataclass(frozen=True)
class Text:
    """A text as bytes (uint8): ``train``, whose slices are tensors, and ``validation``, and
    where it is from. ``digest`` is the SHA-256 of the whole, to recognise it."""

    train: TextBytes
    validation: torch.Tensor
    source: str
    digest: str


def standard_library_files(root: Path | None = None) -> list[Path]:
    """The default text's files, sorted by their path below ``root``."""
    root = Path(sysconfig.get_paths()["stdlib"]) if root is None else root
    found = [*root.glob("*.py"), *root.glob("*/*.py")]
    kept = [f for f in found if not _EXCLUDED & set(f.relative_to(root).parts)]
    return sorted(kept, key=lambda f: str(f.relative_to(root)))


def load_text(
    files: Sequence[str | Path] = (),
    minimum: int = 1,
    *,
    validation: int = 0,
    validation_files: Sequence[str | Path] = (),
) -> Text:
    """Reads ``files`` (default: the standard library's sources) as one text.

    ``minimum``: bytes that either part must have. ``validation``: bytes of the held-out
    part (`split_text`), which is the beginning of ``validation_files`` if there are some.
    Raises `DataError`.
    """
    paths = [Path(f) for f in files]
    source = ", ".join(map(spell_path, paths)) if paths else "Python's standard library"
    if not paths:
        paths = standard_library_files()
        if not paths:
            raise DataError(
                "the sources of Python's standard library are not on this machine; "
                "name a text with --data FILE..."
            )
    whole = read_bytes(paths)
    if not validation_files:
        return _split(whole, source, minimum, validation)
    return _with_validation(whole, source, minimum, validation, validation_files)


def split_text(raw: bytes, source: str, minimum: int = 1, validation: int = 0) -> Text:
    """Cuts a text in train and validation: the validation part is the first 64
    KiB of the last 5 %, or ``validation`` bytes, for which more is held out if the last 5 %
    are fewer."""
    return _split(TextBytes.of(raw), source, minimum, validation)


def _split(whole: TextBytes, source: str, minimum: int, validation: int) -> Text:
    cut = int(len(whole) * (1 - HELD_OUT))
    if validation:
        cut = max(min(cut, len(whole) - validation), 0)
    held_out = whole[cut : cut + (validation or VALIDATION_BYTES)]
    if cut < minimum or len(held_out) < max(minimum, validation):
        raise DataError(
            f"{source} has {len(whole)} bytes, of which {cut} are for training and "
            f"{len(held_out)} for validation; either part needs {minimum}"
            + (f", and the validation is to have {validation}" if validation else "")
        )
    return Text(whole.first(cut), held_out, source, whole.digest())


def _with_validation(
    whole: TextBytes, source: str, minimum: int, validation: int, files: Sequence[str | Path]
) -> Text:
    """All of a text to train on, and the beginning of another one."""
    other = read_bytes(map(Path, files))
    name = ", ".join(map(spell_path, files))
    held_out = other[: validation or VALIDATION_BYTES]
    wanted = max(minimum, validation)
    for size, least, what in ((len(whole), minimum, source), (len(held_out), wanted, name)):
        if size < least:
            raise DataError(f"{what} has {size} bytes, {least} are needed")
    digest = hashlib.sha256(f"{whole.digest()} {other.digest()}".encode()).hexdigest()
    return Text(whole, held_out, f"{source}, validated on {name}", digest)


def batch_at(data: TextBytes | torch.Tensor, step: int, batch: int, length: int, seed: int):
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
