"""What surrounds the kernels: a training step, and the time to compile."""

from __future__ import annotations

import functools
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


# The first call of a process, with all that it imports and loads on the way.
_FIRST = """
import time
import sextant, torch
q, k, v = (torch.randn(1, 2, 4, 64) for _ in range(3))
shapes = {"c": (), "mult": (), "w1": (32,), "b1": (32,), "w2": (2, 32), "b2": (2,)}
params = {f"fire.{name}": torch.rand(shape) for name, shape in shapes.items()}
start = time.perf_counter()
sextant.attention(q, k, v, ["causal", "fire"], params)
print(time.perf_counter() - start)
"""


# A model's text and program, in seconds of the processor: others use it, too.
_MODEL = """
import sys, time
import sextant
from sextant.models.gpt import Config, build
encoding, layers, width, heads = sys.argv[1], *map(int, sys.argv[2:])
start = time.process_time()
sextant.compile(build(Config(encodings=("causal", encoding), layers=layers, width=width, heads=heads)))
print(time.process_time() - start)
"""


def _run(program: str, cache: str, *arguments: str) -> list[float]:
    """What a program prints in a process with that cache."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "XDG_CACHE_HOME": cache},
        check=True,
        capture_output=True,
        text=True,
    )
    return [float(x) for x in done.stdout.split()]


def _first() -> list[float]:
    """Seconds of the first call with an empty cache, and in another process with the
    one that it filled."""
    with tempfile.TemporaryDirectory() as cache:
        return _run(_FIRST, cache) + _run(_FIRST, cache)


def _again(phase: str) -> list[float]:
    with tempfile.TemporaryDirectory() as cache:
        return _run(_COMPILE, cache, phase)


def _models(settings: Settings) -> Iterator[Row]:
    """A whole GPT with an encoder of positions, against one with a bias: empty caches."""
    sizes = ("2", "128", "2") if settings.is_quick else ("12", "768", "12")
    work = f"GPT, {sizes[0]} layers, width {sizes[1]}, seqpe over alibi"
    if not settings.wants(work):
        return

    def seconds(encoding: str) -> float:
        with tempfile.TemporaryDirectory() as cache:
            return _run(_MODEL, cache, encoding, *sizes)[0]

    pairs = [(seconds("seqpe"), seconds("alibi")) for _ in range(3)]
    ratios = sorted(ours / other for ours, other in pairs)
    note = f"{sorted(ours for ours, _ in pairs)[1]:.2f} s"
    yield Row(
        "compile a model", work, 1, ratios[1], "x", 2.0, ratios[0], ratios[-1], True, note
    )  # fmt: skip


def compiling(settings: Settings) -> Iterator[Row]:
    """What a user waits for before the first result."""
    yield from _attentions(settings)
    yield from _models(settings)


def _attentions(settings: Settings) -> Iterator[Row]:
    """One attention with an empty disk cache, and from the cache: in fresh processes,
    from the first call on, and in one that has called before."""
    cases = [
        (
            "first call of a process, fire forward",
            _first,
            (("cold", 0.5), ("from the disk cache", 0.05)),
        )
    ]
    for phase, name, goal in (
        ("forward", "forward", 0.5),
        ("both", "forward and backward", 0.9),
    ):
        goals = (("cold", goal), ("from the disk cache", 0.010))
        cases.append((name, functools.partial(_again, phase), goals))
    for name, measure, goals in cases:
        works = [(f"{name}, {how}", goal) for how, goal in goals]
        if not any(settings.wants(work) for work, _ in works):
            continue
        times = [measure() for _ in range(3)]
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
