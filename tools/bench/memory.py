"""Peak memory of encodings inside attention, forward and backward, and that it is
linear in the length."""

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


def memory(settings: Settings) -> Iterator[Row]:
    """What a call holds at most beyond its inputs; one thread whatever is asked."""
    if settings.threads != 1:
        return
    short, long = (n // 8 if settings.is_quick else n for n in (SHORT, LONG))
    for number, work in enumerate(WORKS):
        text = f"(1, {HEADS}, {long}, {DIM}) f32 causal {work.name} forward + backward"
        if not settings.wants(text):
            continue
        done = run_counted(PROGRAM, *map(str, (number, HEADS, DIM, short, long)))
        if done.returncode:
            raise SystemExit(f"bench: {work.name}: {done.stderr}")
        less, most = json.loads(done.stdout)
        yield Row(
            f"peak memory beyond the inputs, at {long} over at {short}",
            text,
            1,
            most / less,
            goal=2.2,
            at_most=True,
            note=f"{most / 2**20:.0f} MiB at {long}; inputs and output "
            f"{4 * 4 * HEADS * long * DIM / 2**20:.0f}",
        )
