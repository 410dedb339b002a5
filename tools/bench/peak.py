"""The measured peak of this machine's vector units, in FLOP/s: the compiler's own
measurement (codegen/Peak.h), which `sextant-prof --machine` prints, too."""

from __future__ import annotations

import json

from sextant import backend


def machine(threads: int) -> dict:
    """What `threads` threads together can do, measured now: ``processor``, ``l2``,
    ``peak_f32``, ``peak_bf16`` and more (codegen/Machine.h)."""
    return json.loads(backend.compiler().machine(threads))


def peak(dtype: str, threads: int) -> float:
    """FLOP/s of `threads` threads together: multiply-adds of f32, or dot products of
    bf16, 0 if the processor has none."""
    return machine(threads)["peak_bf16" if dtype == "bf16" else "peak_f32"]
