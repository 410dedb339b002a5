"""Files that are written whole or not at all."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from pathlib import Path

_UNFINISHED = ".unfinished"


def spell_path(path: str | Path) -> str:
    """A path as people read it: names on a disk are bytes, and need be no UTF-8, as which
    checkpoints and pages store what they say."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def read_file(path: str | Path) -> bytes:
    """The bytes of a regular file; of nothing that may have no end, or wait for a
    writer. A file that is cut while it is read is a short one."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            kind = next((text for is_kind, text in _KINDS if is_kind(mode)), "something else")
            raise OSError(f"{os.fspath(path)} is {kind}, not a file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def replace_file(path: str | Path, data: bytes) -> None:
    """Writes a file atomically: afterwards it is the old one or the new one.

    The data goes to a temporary file beside its place, which is synced and renamed,
    so a full disk or a killed process leaves what was there before. Temporary files
    that killed processes left of this file are removed. Makes the folder. Raises
    `OSError`, and then leaves no temporary file behind. A link stays one; a device
    or a pipe is written to. Who may read the file stays as it was, and a new one is as
    private as the process makes all others.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.write(data)
        return
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(path)
        handle, temporary = _temporary(path)
        os.fchmod(handle, _mode(path))
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


def _mode(path: Path) -> int:
    """Permissions of the file that is there, or of a new one."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0o077)  # which tells it only by a change: to one that shows nobody more
        os.umask(mask)
        return 0o666 & ~mask


def remove_unfinished(path: str | Path) -> None:
    """Removes temporary files of ``path`` whose writers are gone.

    A writer holds a lock on its file for as long as it lives, so what can be locked
    is left over. Where files cannot be locked, or removed, they stay.
    """
    path = Path(path)
    for name in os.listdir(path.parent):
        if not (name.startswith(f".{path.name}.") and name.endswith(_UNFINISHED)):
            continue
        try:
            handle = os.open(path.parent / name, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path.parent / name)
        except OSError:
            pass
        finally:
            os.close(handle)


def _temporary(path: Path) -> tuple[int, str]:
    """A new temporary file of ``path``, locked for as long as it is open."""
    while True:
        handle, name = tempfile.mkstemp(_UNFINISHED, f".{path.name}.", path.parent)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # no locks here: nobody else can tell that it is left over
            return handle, name
        # Somebody may have taken it for left over before it was locked.
        if os.fstat(handle).st_nlink:
            return handle, name
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
