"""What it costs, and saves, that threads which wait for each other soon sleep.

OpenMP reads its environment once, so that each measurement is a process. The two
ways to wait alternate, as candidates do elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping

from rows import Row, Settings

from sextant.processors import SHORT_WAIT

# OpenMP's own waits, and those that the command line asks for.
WAITS: dict[str, Mapping[str, str]] = {"own": {}, "short": SHORT_WAIT}

# Steps of the demo's model; the first ones warm up.
_STEPS = """
import sys, time
import torch
from sextant.training.config import TrainConfig
from sextant.training.model import Model
model = Model(TrainConfig(encodings=("rope",)))
tokens = torch.randint(256, (32, 129))
for step in range(int(sys.argv[1]) + 2):
    start = time.perf_counter()
    model.step(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), 1e-3)
    if step > 1:
        print(time.perf_counter() - start)
"""


def _seconds(waits: Mapping[str, str], threads: int, steps: int) -> float:
    """The median step of a process with these variables of OpenMP."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    environment["OMP_NUM_THREADS"] = str(threads)
    environment.update(waits)
    done = subprocess.run(
        [sys.executable, "-c", _STEPS, str(steps)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return statistics.median(float(x) for x in done.stdout.split())


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    """``count`` processes that compute all the time."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def waiting(settings: Settings) -> Iterator[Row]:
    """A training step of the demo's model with the waits of the command line, against
    OpenMP's own."""
    if settings.threads < 2:
        return  # nobody waits
    cores = len(os.sched_getaffinity(0))
    for work, busy, steps, goal in (
        ("on an idle machine", 0, 30, 0.97),
        ("with a busy process per core", cores, 4, 1.5),
    ):
        if not settings.wants(work):
            continue
        ratios: list[float] = []
        times: dict[str, list[float]] = {name: [] for name in WAITS}
        with _busy(busy):
            for number in range(settings.few):
                order = list(times) if number % 2 else list(reversed(times))
                for name in order:
                    times[name].append(_seconds(WAITS[name], settings.threads, steps))
                ratios.append(times["own"][-1] / times["short"][-1])
        own, short = (statistics.median(times[name]) for name in ("own", "short"))
        yield Row(
            "training step with short waits vs OpenMP's own",
            work,
            settings.threads,
            statistics.median(ratios),
            "x",
            goal,
            min(ratios),
            max(ratios),
            note=f"{short:.3f} s, else {own:.3f} s",
        )
