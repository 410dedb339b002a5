"""What a process keeps of the memory that it freed."""

import os
import platform
import subprocess
import sys

import pytest

CHILD = """
import resource, sys
from pathlib import Path
from sextant.memory import keep_freed_memory
import torch

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

if sys.argv[1] == "keep":
    keep_freed_memory()
tensors = [torch.ones(2**21) for _ in range(8)]
held = resident()
del tensors
print(held - resident())
"""

# What somebody set for a run of tests is not what is tested.
SETTINGS = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")


def given_back(how: str) -> int:
    """Bytes of 64 MiB of tensors that are the kernel's again once they are freed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(SETTINGS)}
    # Blocks of that size come from the kernel, not from the heap, where nothing else is said.
    # (GNU's malloc raises the limit as it goes, so that else its version would decide.)
    environment["MALLOC_MMAP_THRESHOLD_"] = "65536"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, how],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of GNU's malloc")
def test_freed_memory_is_kept():
    """The resident set tells it, whatever the size of a page that the kernel gives: counts
    of page faults do not, where a page may be one of 2 MiB."""
    if given_back("return") < 2**25:
        pytest.skip("this C library keeps what is freed without being asked")
    assert given_back("keep") < 2**22
