"""The measured peak of this machine's units, in FLOP/s: the compiler's own measurement
(codegen/Host/Peak.h), which `sextant-prof --machine` prints, too."""

from __future__ import annotations

import functools
import json

from sextant import backend

# Some milliseconds: a processor that has just run a kernel keeps its clock for no longer.
CALLS = 5


def machine(threads: int) -> dict:
    """What `threads` threads together can do, measured now: ``processor``, ``l2``,
    ``peak_f32``, ``peak_bf16``, ``peak_tiles`` and more (codegen/Driver/Machine.h)."""
    return json.loads(backend.compiler().machine(threads))


@functools.cache
def _unit(dtype: str) -> str:
    """The vector unit that multiplies `dtype` fastest: bf16 is converted to f32 where its
    dots are slower."""
    units = machine(1)["units"]
    kinds = ("f32", "bf16 dot") if dtype == "bf16" else ("f32",)
    return max((u for u in units if u.startswith(kinds)), key=lambda u: units[u]["peak"])


@functools.cache
def tiles(threads: int) -> float:
    """FLOP/s of `threads` threads on tiles of bf16; 0 where the processor has none."""
    return machine(threads)["peak_tiles"]


def peak(dtype: str, threads: int) -> float:
    """FLOP/s of `threads` threads together on the vector unit that multiplies `dtype`
    fastest, at the clock that the processor has now: under heavy work some have a lower
    one than at rest."""
    return backend.compiler().flops(_unit(dtype), threads, CALLS)
