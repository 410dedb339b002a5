"""The encodings under test: every definition on the search path.

A fresh file in a folder of SEXTANT_PATH is picked up with no other file touched.
"""

import pytest
from cases import KERNEL_OPERANDS

import sextant
from sextant import definitions


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


@pytest.fixture
def drawn_threads(monkeypatch, seed):
    """Emulated threads run in an order of this seed and their exponentials are off by it;
    races, accesses to what is no operand's, and loads of matrices whose rows share banks are
    errors."""
    monkeypatch.setenv("SEXTANT_CHECK", "races,memory,banks")
    monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed))
    monkeypatch.setenv("SEXTANT_ROUNDING", str(seed))
