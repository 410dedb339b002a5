"""Which targets this machine can run."""

import pytest
import torch

import sextant
from attention_contract import Inputs

# Targets of the CPU, and what tensors they are tested with.
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


def available(target):
    q = torch.randn(1, 1, 1, 16)
    try:
        sextant.attention(q, q, q, target=target)
    except (sextant.CompileError, RuntimeError):
        return False
    return True


def drawn(target, shape, params, positions=None, draws=1.0):
    """Inputs of a shape (batch, heads, kv heads, queries, keys, head dim, value dim) in
    the target's dtype; skips the test where the target is not available."""
    if not available(target):
        pytest.skip(f"this machine has no {target}")
    batch, heads, kv_heads, queries, keys, dim, value_dim = shape
    tensors = [
        draws * torch.randn(batch, heads, queries, dim),
        torch.randn(batch, kv_heads, keys, dim),
        torch.randn(batch, kv_heads, keys, value_dim),
    ]
    return Inputs.drawn(*(t.to(DTYPES[target]) for t in tensors), params, positions or {})
