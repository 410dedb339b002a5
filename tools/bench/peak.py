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
def unit(dtype: str) -> str:
    """The vector unit that multiplies `dtype` fastest, of those that the chosen target
    (``SEXTANT_TARGET``) runs on: bf16 is converted to f32 where its dots are slower."""
    found = machine(1)
    kinds = ("f32", "bf16 dot") if dtype == "bf16" else ("f32",)
    units = [u for u in found["units"] if u.startswith(kinds)]
    if found[dtype] == "cpu:avx2":
        units = [u for u in units if u.endswith("256 bits")]
    return max(units, key=lambda u: found["units"][u]["peak"])


@functools.cache
def tiles(threads: int) -> float:
    """FLOP/s of `threads` threads on tiles of bf16; 0 where the processor has none."""
    return machine(threads)["peak_tiles"]


def peak(dtype: str, threads: int) -> float:
    """FLOP/s of `threads` threads together on the unit of `dtype`, at the clock that the
    processor has now: under heavy work some have a lower one than at rest."""
    return backend.compiler().flops(unit(dtype), threads, CALLS)
