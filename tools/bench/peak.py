"""The measured peak of this machine's vector units, in FLOP/s."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path


@functools.cache
def _library() -> ctypes.CDLL:
    source = Path(__file__).with_name("peak.c")
    compiler = next(filter(shutil.which, ("clang-22", "clang", "cc")), None)
    if compiler is None:
        raise SystemExit("bench: no C compiler: install clang-22")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "peak.so")
        flags = ["-O2", "-march=native", "-shared", "-fPIC", "-Wno-unknown-pragmas"]
        subprocess.run([compiler, *flags, str(source), "-o", path], check=True)
        library = ctypes.CDLL(path)
    for name in ("run_f32", "run_bf16"):
        getattr(library, name).restype = ctypes.c_int64
        getattr(library, name).argtypes = [ctypes.c_int64]
    return library


def peak(dtype: str, threads: int, seconds: float = 0.05) -> float:
    """FLOP/s of `threads` threads together; the best of a few runs. 0 if the
    processor has no such instruction."""
    run = getattr(_library(), "run_bf16" if dtype == "bf16" else "run_f32")
    if run(1) == 0:
        return 0.0
    rounds = 1000
    while True:
        start = time.perf_counter()
        run(rounds)
        if time.perf_counter() - start > seconds:
            break
        rounds *= 2
    best = 0.0
    for _ in range(5):
        done = [0] * threads

        def work(number: int) -> None:
            done[number] = run(rounds)

        workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        best = max(best, sum(done) / (time.perf_counter() - start))
    return best
