"""What is measured on: vendor, processor, second cache and peaks.

The third level of cache and the width of the units differ by vendor more than all
else, and some goals with them; a table of results says whose machine it was.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from peak import machine

from sextant import backend

_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}


@functools.cache
def _first_processor() -> dict[str, str]:
    """What the system says of it: ``vendor_id``, ``flags`` and more."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def vendor() -> str:
    name = _first_processor().get("vendor_id", "unknown vendor")
    return _VENDORS.get(name, name)


@functools.cache
def _machine() -> dict:
    return machine(threads=1)


def processor() -> str:
    """The name of the processor, without marks of trade."""
    return re.sub(r"\((R|TM)\)| (CPU|Processor)\b", "", _machine()["processor"]).strip()


def _products() -> str:
    """Who multiplies matrices of f32 in our programs; in eager PyTorch it is BLAS."""
    chosen = bytes(backend.operators().products().tolist()).decode()
    return "onednn, gradients of weights by blas" if chosen == "both" else chosen


def describe() -> str:
    peaks = []
    units = {"f32 FMA": "peak_f32", "bf16 dot": "peak_bf16", "bf16 tiles": "peak_tiles"}
    for unit, key in units.items():
        most = _machine()[key]
        peaks.append(f"{most / 1e9:.0f} GFLOP/s {unit}" if most else f"no {unit}")
    return (
        f"{processor()} ({vendor()}), L2 {_machine()['l2'] / 2**20:g} MiB per core, "
        f"one thread at most {', '.join(peaks)}, "
        f"products of our programs by {_products()}"
    )


def by_vendor(usual: float, **others: float) -> float:
    """A goal that some vendors' processors have otherwise, by the vendor's name in
    small letters."""
    return others.get(vendor().lower(), usual)
