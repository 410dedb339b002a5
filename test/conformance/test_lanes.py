"""A target of another width than any processor has: 32 lanes, as many as a warp of a GPU
has threads. What is written for vectors of any width must not know those of today."""

import pytest
import torch
from cases import Case, compare

from sextant import backend

# Nobody runs machine code of this target: what is tested is the IR.
pytestmark = pytest.mark.quick_code
NAME = "test:lanes32"
# Two shapes of one kernel: within one vector, and several tiles with a part of one.
SHAPES = [
    dict(query=21, key=34, label="part-of-a-vector"),
    dict(query=150, key=150, batch=1, heads=2, kv_heads=2, label="tiles"),
]


@pytest.fixture(scope="module")
def lanes32():
    """Registered once for each process, which lasts: names of targets are for good."""
    compiler = backend.compiler()
    known = compiler.list_targets()
    if NAME not in known:
        # The wider its own vectors, the fewer instructions there are to compile.
        like = next((t for t in ("cpu:avx512", "cpu:avx2") if t in known), None)
        if not like:
            pytest.skip("this machine has neither cpu:avx512 nor cpu:avx2")
        compiler.register_target(NAME, like=like, width=32, registers=16)
    return NAME


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s["label"])
def test_32_lanes_match_the_reference(encoding, lanes32, shape, seed):
    compare(Case(encoding, **shape), lanes32, torch.float32, seed)


def test_a_target_is_registered_once(lanes32):
    with pytest.raises(Exception, match="there is a target 'test:lanes32' already"):
        backend.compiler().register_target(lanes32, like="cpu:avx2", width=32, registers=16)
    with pytest.raises(Exception, match="unknown target 'z80'"):
        backend.compiler().register_target("test:z81", like="z80", width=32, registers=16)
    with pytest.raises(Exception, match="at least one lane"):
        backend.compiler().register_target("test:none", like="cpu:avx2", width=0, registers=16)
