"""One training at a time in a folder."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path

from ..errors import RunError

LOCK = ".lock"


class LockError(RunError):
    """Another process trains in the folder, or it cannot be locked."""


class FolderLock:
    """Held inside ``with``. The system lets go of it when the process ends, however it
    ends, so the file that a killed process leaves locks nobody out. A folder that was made
    for it goes with it if nothing else has come to be in it: what cannot begin leaves none."""

    def __init__(self, folder: str | Path):
        self.path = Path(folder) / LOCK
        self._handle: int | None = None
        self._made: list[Path] = []  # the innermost first

    def __enter__(self) -> FolderLock:
        folder = self.path.parent
        self._made = [path for path in (folder, *folder.parents) if not path.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            while self._handle is None:
                self._handle = self._acquire()
            os.ftruncate(self._handle, 0)
            os.write(self._handle, json.dumps(_self()).encode())
        except OSError as error:
            self.__exit__()
            raise LockError(
                f"cannot lock {folder}: {error.strerror or error}; choose a folder "
                "that can be written"
            ) from None
        return self

    def _acquire(self) -> int | None:
        """The locked file; None if it is no longer the one at the path."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _describe(os.read(handle, 4096))
            os.close(handle)
            raise LockError(
                f"{holder} trains in {self.path.parent}: wait for its end, or choose "
                "another folder"
            ) from None
        except OSError:
            os.close(handle)
            raise
        # The holder before removes the file on its way out.
        try:
            is_current = os.path.samestat(os.fstat(handle), os.stat(self.path))
        except FileNotFoundError:
            is_current = False
        if is_current:
            return handle
        os.close(handle)
        return None

    def __exit__(self, *details) -> None:
        if self._handle is None:
            return
        try:
            os.unlink(self.path)
        except OSError:
            pass
        os.close(self._handle)
        self._handle = None
        for folder in self._made:
            try:
                folder.rmdir()
            except OSError:  # it holds something
                break


def _self() -> dict:
    return {"process": os.getpid(), "host": socket.gethostname()}


def _describe(stored: bytes) -> str:
    """The process that wrote a lock's file."""
    try:
        found = json.loads(stored)
        return f"process {int(found['process'])} on {found['host']}"
    except (ValueError, KeyError, TypeError):  # it has just taken the lock
        return "another process"
