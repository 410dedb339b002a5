"""Which targets this machine can run."""

import torch

import sextant


def available(target):
    q = torch.randn(1, 1, 1, 16)
    try:
        sextant.attention(q, q, q, target=target)
    except (sextant.CompileError, RuntimeError):
        return False
    return True
