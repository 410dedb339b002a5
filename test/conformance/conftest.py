"""The encodings under test: every definition on the search path.

A fresh file in a folder of SEXTANT_PATH is picked up with no other file touched.
"""

import os
import sys
from pathlib import Path

import pytest

import sextant
from sextant import backend, definitions

# numeric_contract.py and attention_contract.py are one for all folders of tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cases import KERNEL_OPERANDS  # noqa: E402


def installed() -> list[str]:
    return [e.name for e in sextant.encodings()]


def in_attention(name: str) -> bool:
    """Whether an encoding acts in attention (and not on embeddings)."""
    return not definitions.signature([name]).operands - KERNEL_OPERANDS


def pytest_generate_tests(metafunc):
    if "encoding" in metafunc.fixturenames:
        names = [n for n in installed() if in_attention(n)]
        metafunc.parametrize("encoding", names)
    if "row_encoding" in metafunc.fixturenames:
        names = [n for n in installed() if not in_attention(n)]
        metafunc.parametrize("row_encoding", names)
    if "cpu_target" in metafunc.fixturenames:
        targets = [t for t in backend.compiler().list_targets() if t.startswith("cpu:")]
        metafunc.parametrize("cpu_target", targets)
    if "f32_target" in metafunc.fixturenames:
        # The target with products of bf16 has the same kernels in f32.
        targets = [t for t in backend.compiler().list_targets() if t.startswith("cpu:")]
        targets = [t for t in targets if not t.endswith("bf16")]
        metafunc.parametrize("f32_target", targets)


@pytest.fixture
def seed():
    """A fresh seed for random inputs, printed so that a failure can be rerun."""
    value = int(os.environ.get("SEXTANT_SEED") or int.from_bytes(os.urandom(4), "big"))
    print(f"SEXTANT_SEED={value}")
    return value % 2**31
