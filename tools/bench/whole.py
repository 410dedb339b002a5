"""What surrounds the kernels: a training step, and the time to compile."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import gpt
from rows import Row, Settings
from timing import Rounds


def training(settings: Settings) -> Iterator[Row]:
    """A step of a 12-layer, 768-wide GPT on 2048 bytes, against eager PyTorch."""
    size = {"layers": 12, "width": 768, "heads": 12, "length": 2048}
    if settings.is_quick:
        size = {"layers": 2, "width": 128, "heads": 4, "length": 256}
    for encoding, goal in (("alibi", 1.1), ("kerple_log", 1.5)):
        numbers = f"{size['layers']} layers, width {size['width']}, length {size['length']}"
        work = f"{numbers}, {encoding}"
        if not settings.wants(work):
            continue
        ours, eager = gpt.steps(encoding, **size)
        rounds = Rounds({"ours": ours, "torch": eager}, settings.few)
        yield settings.ratio(
            "training step of a GPT vs eager PyTorch",
            work,
            rounds,
            "ours",
            "torch",
            goal,
            f"{rounds.median('ours'):.2f} s per step",
        )


_COMPILE = """
import sys, time
import sextant, torch
both = sys.argv[1] == "both"
def call(dim, target="cpu"):
    q, k, v = (torch.randn(1, 1, 4, dim, requires_grad=both) for _ in range(3))
    start = time.perf_counter()
    out = sextant.attention(q, k, v, ["causal", "alibi"], target=target)
    if both:
        out.sum().backward()
    return time.perf_counter() - start
call(8, "reference") # PyTorch imports its own compiler at the first call
cold = call(64)
from sextant import plans
plans._plans.clear()
print(cold, call(64))
"""


def compiling(settings: Settings) -> Iterator[Row]:
    """One attention with an empty disk cache, and once more in that process from the
    disk cache; both run the kernel as well."""
    for phase, goal in (("forward", 0.5), ("both", 0.9)):
        name = "forward" if phase == "forward" else "forward and backward"
        works = ((f"{name}, cold", goal), (f"{name}, from the disk cache", 0.010))
        if not any(settings.wants(work) for work, _ in works):
            continue
        times = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as cache:
                run = subprocess.run(
                    [sys.executable, "-c", _COMPILE, phase],
                    env={**os.environ, "XDG_CACHE_HOME": cache},
                    check=True,
                    capture_output=True,
                    text=True,
                )
            times.append([float(x) for x in run.stdout.split()])
        for column, (work, limit) in enumerate(works):
            if not settings.wants(work):
                continue
            values = sorted(t[column] for t in times)
            yield Row(
                "compile one attention",
                work,
                1,
                values[1],
                "s",
                limit,
                values[0],
                values[-1],
                at_most=True,
            )
