"""Peak memory of encodings inside attention, forward and backward, and of a training
step with encodings of the whole model, and that it is linear in the length."""

from __future__ import annotations

import json
from collections.abc import Iterator

from inside import WORKS
from live_bytes import run_counted
from rows import Row, Settings

SHORT, LONG = 8192, 16384
HEADS, DIM = 4, 64

PROGRAM = """
import json, sys
import torch
torch.set_num_threads(1)
from inside import WORKS, Problem
from live_bytes import rises
from rows import inputs

number, heads, dim, *lengths = map(int, sys.argv[1:])


def call(length):
    shape = (1, heads, length, dim)
    problem = Problem(WORKS[number], shape, inputs(shape, torch.float32))
    return problem.call(problem.ours)


call(lengths[0] // 32)()  # compiles
print(json.dumps(rises([call(n) for n in lengths])))
"""


STEP = """
import json, sys
import torch
torch.set_num_threads(1)
from live_bytes import rises
from sextant.training.config import TrainConfig
from sextant.training.model import Model

encoding, *lengths = sys.argv[1], *map(int, sys.argv[2:])
model = Model(TrainConfig(encodings=(encoding,), layers=2, width=128, heads=2, length=256))


def call(length):
    tokens, labels = torch.randint(0, 256, (2, 1, length)).unbind()
    return lambda: model.step(tokens, labels, 1e-3)


print(json.dumps(rises([call(n) for n in lengths])))
"""
# Encodings of the whole model.
MODELS = ("seqpe", "tape", "expe")


def memory(settings: Settings) -> Iterator[Row]:
    """What a call holds at most beyond its inputs; one thread whatever is asked."""
    if settings.threads != 1:
        return
    short, long = (n // 8 if settings.is_quick else n for n in (SHORT, LONG))
    yield from _inside(settings, short, long)
    for encoding in MODELS:
        text = f"step of a GPT, 2 layers, width 128, 1 x {long // 2}, {encoding}"
        if settings.wants(text):
            less, most = _count(text, STEP, encoding, short // 2, long // 2)
            yield _row(text, less, most, short // 2, long // 2, f"{most / 2**20:.0f} MiB")


def _inside(settings: Settings, short: int, long: int) -> Iterator[Row]:
    for number, work in enumerate(WORKS):
        text = f"(1, {HEADS}, {long}, {DIM}) f32 causal {work.name} forward + backward"
        if not settings.wants(text):
            continue
        less, most = _count(work.name, PROGRAM, number, HEADS, DIM, short, long)
        rows = 4 * 4 * HEADS * long * DIM / 2**20
        note = f"{most / 2**20:.0f} MiB at {long}; inputs and output {rows:.0f}"
        yield _row(text, less, most, short, long, note)


def _count(name: str, program: str, *arguments: object) -> tuple[int, int]:
    """The bytes that calls of two lengths hold at most."""
    done = run_counted(program, *map(str, arguments))
    if done.returncode:
        raise SystemExit(f"bench: {name}: {done.stderr}")
    less, most = json.loads(done.stdout)
    return less, most


def _row(text: str, less: int, most: int, short: int, long: int, note: str) -> Row:
    section = f"peak memory beyond the inputs, at {long} over at {short}"
    return Row(section, text, 1, most / less, goal=2.2, at_most=True, note=note)
