"""Kernels as warps of a GPU: each lane of a vector is a thread, which an emulator runs as
a fiber. It draws the order of threads between two instructions of the whole warp, and
ends a launch whose threads do not meet at the same one, or of which one stores what
another accesses with no barrier between them."""

import pytest
import torch
from cases import Case, compare

TARGET = "cuda-emulated:sm_80"
SHAPES = [
    dict(query=21, key=34, label="part-of-a-vector"),
    dict(query=70, key=130, batch=1, heads=2, kv_heads=1, label="tiles"),
]


@pytest.fixture(autouse=True)
def checks(monkeypatch):
    monkeypatch.setenv("SEXTANT_CHECK", "races,scratch")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s["label"])
def test_warps_match_the_reference(encoding, shape, seed):
    compare(Case(encoding, **shape), TARGET, torch.float32, seed)
