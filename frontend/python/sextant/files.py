"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: str | Path, data: bytes) -> None:
    """Writes a file atomically: afterwards it is the old one or the new one.

    The data goes to a temporary file beside its place, which is synced and renamed,
    so a full disk or a killed process leaves what was there before. Makes the
    folder. Raises `OSError`, and then leaves no temporary file behind. A link stays
    one; a device or a pipe is written to.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.write(data)
        return
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.fchmod(handle, 0o644)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        temporary = ""
        _sync_folder(path.parent)
    finally:
        if temporary:
            try:
                os.unlink(temporary)
            except OSError:
                pass


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
