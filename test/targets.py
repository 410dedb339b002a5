"""The targets of the CPU, and which of them this machine can run."""

import functools

import pytest
import torch
from attention_contract import Inputs

# Those with kernels of f32 of their own, and what adds products of bf16 to them.
F32 = ["cpu:avx2", "cpu:avx512"]
DOT = ["cpu:avx512bf16"]
CPU = [*F32, *DOT]
# Products of bf16 as tiles of a matrix unit.
AMX, EMULATED_AMX = "cpu:amx", "cpu-emulated:amx"
# What tensors each is tested with.
DTYPES = {
    "cpu:avx2": torch.float32,
    "cpu:avx512": torch.float32,
    "cpu:avx512bf16": torch.bfloat16,
}
# Of attention with contextual places: batch, heads, kv heads, queries, keys, head
# dim, value dim, masks.
SHAPES = [
    (1, 1, 1, 1, 1, 16, 16, []),
    (2, 2, 1, 63, 65, 24, 40, ["causal"]),
    (1, 4, 2, 129, 300, 64, 64, ["causal", "window(size=90)"]),
    (1, 1, 1, 1000, 1000, 32, 16, ["causal"]),
    (1, 2, 2, 65, 40, 16, 16, ["causal"]),
]


def in_turn(values, names=CPU):
    """Each value with one of the targets, in turn: for what makes other kernels but not
    other instructions, where a product of both would compile thrice as many."""
    return [(names[n % len(names)], value) for n, value in enumerate(values)]


@functools.cache
def _of_this_machine():
    """As the compiler lists them. What is no target of the CPU is not tested here, and
    a new one must not be missed."""
    from sextant import backend

    found = [t for t in backend.compiler().list_targets() if t.startswith("cpu:")]
    assert set(found) <= {*CPU, AMX}, f"{found}: test/targets.py knows {CPU} and {AMX}"
    return found


def runnable(target):
    """The target, or what stands for it on a machine that lacks it: kernels with tiles
    are the same but for the instructions of the matrix unit, which any processor
    emulates."""
    return EMULATED_AMX if target == AMX and AMX not in _of_this_machine() else target


def available(target):
    """Whether the processor has what the target needs. Errors of kernels are errors."""
    return target in ("cpu", "reference", EMULATED_AMX) or target in _of_this_machine()


def require(target):
    """Skips the test where the target is not available."""
    if not available(target):
        pytest.skip(f"this machine has no {target}")


def drawn(target, shape, params, positions=None, draws=1.0):
    """Inputs of a shape (batch, heads, kv heads, queries, keys, head dim, value dim) in
    the target's dtype; skips the test where the target is not available."""
    require(target)
    batch, heads, kv_heads, queries, keys, dim, value_dim = shape
    tensors = [
        draws * torch.randn(batch, heads, queries, dim),
        torch.randn(batch, kv_heads, keys, dim),
        torch.randn(batch, kv_heads, keys, value_dim),
    ]
    return Inputs.drawn(*(t.to(DTYPES[target]) for t in tensors), params, positions or {})
