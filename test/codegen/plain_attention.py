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


def scores(query, key, score=None, mask=None, rope=False, scale=None):
    """Final scores, -inf where hidden; queries and keys are aligned at the end.
    Those of bf16 operands are rounded to bf16 and then f32."""
    lq, lk = query.shape[2], key.shape[2]
    if rope:
        query, key = rotate(query, lk - lq), rotate(key, 0)
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    i = torch.arange(lk - lq, lk)[:, None]
    j = torch.arange(lk)[None]
    s = query @ key.transpose(-1, -2)
    s = s / math.sqrt(query.shape[-1]) if scale is None else s * scale
    if score:
        s = score(s, i, j)
    if mask:
        s = s.masked_fill(~mask(i, j), -torch.inf)
    return s.float() if s.dtype == torch.bfloat16 else s


def probabilities(s, lse):
    """exp(s - lse); a row without keys is zeros (C4)."""
    return torch.exp(s - lse.masked_fill(lse == -torch.inf, 0.0)[..., None])


def attention(query, key, value, **settings):
    """Output and log-sum-exp; `settings` are those of `scores`."""
    s = scores(query, key, **settings)
    value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    lse = torch.logsumexp(s, -1)
    return probabilities(s, lse).to(value.dtype) @ value, lse


def gradients(leaves, call, output_gradient, lse_gradient):
    """Gradients of sum(o do) + sum(lse dlse), rows without keys left out."""
    out, lse = call()
    finite = lse.masked_fill(lse == -torch.inf, 0.0)
    loss = (out * output_gradient).sum() + (finite * lse_gradient).sum()
    return torch.autograd.grad(loss, leaves)


def gradients_of_stored(leaves, settings, output, lse, output_gradient, lse_gradient):
    """The same from an output and a log-sum-exp that are given, as a backward that
    recomputes P has them: dS = P (dP - rowsum(o do) + dlse). Without a log-sum-exp the
    probabilities are normalized here.

    `leaves` are query, key, value and what `settings` depends on; all tensors are
    of one type, but for those of rows of bf16 (then f32).
    """
    query, key, value = leaves[:3]
    s = scores(query, key, **settings)
    value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    with torch.no_grad():
        p = probabilities(s, torch.logsumexp(s, -1) if lse is None else lse)
        dp = output_gradient @ value.transpose(-1, -2)
        delta = (output * output_gradient).sum(-1) - lse_gradient
        ds = p * (dp - delta[..., None])
        dv = p.to(value.dtype).transpose(-1, -2) @ output_gradient
    return torch.autograd.grad((s, value), leaves, (ds, dv))
