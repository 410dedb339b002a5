"""What the tests of kernels share."""

import os
import sys
from pathlib import Path

import pytest
import torch

# numeric_contract.py and attention_contract.py are one for all folders of tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


@pytest.fixture(autouse=True)
def seed():
    """A fresh seed for random inputs, printed so that a failure can be rerun."""
    value = int(os.environ.get("SEXTANT_SEED") or int.from_bytes(os.urandom(4), "big"))
    print(f"SEXTANT_SEED={value}")
    torch.manual_seed(value)
    return value
