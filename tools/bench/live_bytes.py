"""Bytes of heap blocks that live at the worst moment of a call, in a process of its
own that preloads live_bytes.c."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("live_bytes.c")


def run_counted(program: str, *arguments: str) -> subprocess.CompletedProcess:
    """Runs a Python program, which may import this module, with counted blocks and
    one thread."""
    # Functions of the allocator's names are not to be taken for the allocator's.
    flags = ["-O2", "-fno-builtin", "-shared", "-fPIC"]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "live_bytes.so"
        subprocess.run(["clang-22", *flags, SOURCE, "-o", library], check=True)
        path = os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={
                **os.environ,
                "LD_PRELOAD": str(library),
                "OMP_NUM_THREADS": "1",
                "SEXTANT_KEEP_MEMORY": "0",  # a block that is idle lives, too
                "PYTHONPATH": path,
            },
            text=True,
            capture_output=True,
        )


def rises(calls: Sequence[Callable[[], object]]) -> list[int]:
    """Within a counted process: how far the bytes that live rise at most above what
    they were before each call. What compiling left behind is freed in the first call,
    which is therefore made once more."""
    heap = ctypes.CDLL(None)
    for function in (heap.live_bytes_start, heap.live_bytes_most):
        function.restype = ctypes.c_size_t
    calls[0]()
    result = []
    for call in calls:
        before = heap.live_bytes_start()
        call()
        result.append(heap.live_bytes_most() - before)
    return result
