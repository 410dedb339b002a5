"""Attention with a score function and a mask, written out in plain PyTorch."""

import math

import torch


def causal(i, j):
    return j <= i


def rotate(rows, first, base=10000.0):
    """Rotary embedding, halves paired, of rows [B, H, L, d] from position `first`."""
    length, dim = rows.shape[2:]
    step = torch.arange(dim // 2, dtype=torch.float64)
    position = torch.arange(first, first + length, dtype=torch.float64)
    angle = position[:, None] * base ** (-2 * step / dim)
    c, s = angle.cos().to(rows.dtype), angle.sin().to(rows.dtype)
    x, y = rows[..., : dim // 2], rows[..., dim // 2 :]
    return torch.cat([x * c - y * s, x * s + y * c], -1)


def attention(query, key, value, score=None, mask=None, rope=False):
    """Output and log-sum-exp; queries and keys are aligned at the end."""
    lq, lk = query.shape[2], key.shape[2]
    if rope:
        query, key = rotate(query, lk - lq), rotate(key, 0)
    group = query.shape[1] // key.shape[1]
    key, value = (rows.repeat_interleave(group, 1) for rows in (key, value))
    i = torch.arange(lk - lq, lk)[:, None]
    j = torch.arange(lk)[None]
    s = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if score:
        s = score(s, i, j)
    if mask:
        s = s.masked_fill(~mask(i, j), -torch.inf)
    s = s.float() if s.dtype == torch.bfloat16 else s
    lse = torch.logsumexp(s, -1)
    # A row without keys is zeros (C4).
    shift = lse.masked_fill(lse == -torch.inf, 0.0)
    p = torch.exp(s - shift[..., None])
    return p.to(value.dtype) @ value, lse


def gradients(leaves, call, output_gradient, lse_gradient):
    """Gradients of sum(o do) + sum(lse dlse), rows without keys left out."""
    out, lse = call()
    finite = lse.masked_fill(lse == -torch.inf, 0.0)
    loss = (out * output_gradient).sum() + (finite * lse_gradient).sum()
    return torch.autograd.grad(loss, leaves)
