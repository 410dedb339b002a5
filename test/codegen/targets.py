"""Which targets this machine can run."""

import torch

import sextant

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
