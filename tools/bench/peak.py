"""The measured peak of this machine's vector units, in FLOP/s: the compiler's own
measurement (codegen/Host/Peak.h), which `sextant-prof --machine` prints, too."""

from __future__ import annotations

import json

from sextant import backend


def machine(threads: int) -> dict:
    """What `threads` threads together can do, measured now: ``processor``, ``l2``,
    ``peak_f32``, ``peak_bf16`` and more (codegen/Host/Machine.h)."""
    return json.loads(backend.compiler().machine(threads))


def peak(dtype: str, threads: int) -> float:
    """FLOP/s of `threads` threads together on the unit that multiplies `dtype` fastest:
    multiply-adds of f32, which bf16 is converted to where its dots are slower."""
    peaks = machine(threads)
    return max(peaks["peak_f32"], peaks["peak_bf16"] if dtype == "bf16" else 0)
