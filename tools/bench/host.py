"""What is measured on: vendor, processor, second cache and peaks.

The third level of cache and the width of the units differ by vendor more than all
else, and some goals with them; a table of results says whose machine it was.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from peak import machine

_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}


@functools.cache
def vendor() -> str:
    """Of the first processor, as it names itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "vendor_id":
                return _VENDORS.get(value.strip(), value.strip())
    except OSError:
        pass
    return "unknown vendor"


@functools.cache
def _machine() -> dict:
    return machine(threads=1)


def processor() -> str:
    """The name of the processor, without marks of trade."""
    return re.sub(r"\((R|TM)\)| (CPU|Processor)\b", "", _machine()["processor"]).strip()


def describe() -> str:
    peaks = []
    for unit, key in (("f32 FMA", "peak_f32"), ("bf16 dot", "peak_bf16")):
        most = _machine()[key]
        peaks.append(f"{most / 1e9:.0f} GFLOP/s {unit}" if most else f"no {unit}")
    return (
        f"{processor()} ({vendor()}), L2 {_machine()['l2'] / 2**20:g} MiB per core, "
        f"one thread at most {' and '.join(peaks)}"
    )


def by_vendor(usual: float, **others: float) -> float:
    """A goal that some vendors' processors have otherwise, by the vendor's name in
    small letters."""
    return others.get(vendor().lower(), usual)
