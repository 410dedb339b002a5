"""How much memory there is, so that what cannot fit is an error before it is tried."""

from __future__ import annotations

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


def gibibytes(count: int) -> str:
    return f"{count / 2**30:.3g} GiB" if count < 2**50 else f"{count / 2**50:.3g} PiB"
