"""How much memory there is, so that what cannot fit is an error before it is tried, and
what a process keeps of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

# The limits of a container, of version 2 and of version 1.
_GROUP_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def memory_limit() -> int:
    """Bytes that this process can have at most: the machine's, or its container's."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _GROUP_LIMITS:
        try:
            limits.append(int(Path(path).read_text()))
        except (OSError, ValueError):  # none, or "max"
            continue
    return min(limits)


def keep_freed_memory() -> None:
    """Lets this process use again what it freed, in place of giving it back.

    PyTorch takes each result of an operator from malloc. GNU's returns large blocks to the
    kernel as soon as they are freed, and gets them back page by page, each filled with zeros:
    up to one part in 25 of a training step of the demo. Other libraries of C have no such
    settings and keep theirs."""
    trim_threshold, mmap_threshold = -1, -3  # of GNU's malloc.h
    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(mmap_threshold, 2**30)
        mallopt(trim_threshold, 2**31 - 1)


def gibibytes(count: int) -> str:
    return f"{count / 2**30:.3g} GiB" if count < 2**50 else f"{count / 2**50:.3g} PiB"
