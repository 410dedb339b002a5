"""Encodings in plain PyTorch, float64, written from the papers' formulas: what
test_gradients.py compares Sextant with, forward and in every gradient. Nothing
here is shared with it.

Shapes: query (B, H, Lq, d), key (B, H, Lk, d), value (B, H, Lk, dv). Positions
are float64 (B or 1, L, axes). A term maps the scaled score (B, H, Lq, Lk); a row
map takes rows, their positions and whether they are the query's.
"""

import math

import torch


def attention(query, key, value, qpos, kpos, *, term=None, rows=None, causal=False):
    """Output (B, H, Lq, dv) and log-sum-exp (B, H, Lq)."""
    if rows is not None:
        query, key = rows(query, qpos, True), rows(key, kpos, False)
    score = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if term is not None:
        score = term(score, qpos, kpos)
    if causal:
        lq, lk = score.shape[-2:]
        late = torch.arange(lk) > torch.arange(lq)[:, None] + lk - lq
        score = score.masked_fill(late, -math.inf)
    return torch.softmax(score, -1) @ value, torch.logsumexp(score, -1)


def distance(qpos, kpos, axis=0):
    """Query minus key, (B or 1, 1, Lq, Lk)."""
    return (qpos[:, :, None, axis] - kpos[:, None, :, axis])[:, None]


# Terms of the score -----------------------------------------------------------


def fire(score, qpos, kpos, params, threshold=512.0, activation="relu", **_):
    c, mult, w1, b1, w2, b2 = (params[n] for n in ("c", "mult", "w1", "b1", "w2", "b2"))

    def psi(u):
        return torch.log(torch.abs(c * u) + 1)

    far = torch.maximum(qpos[:, None, :, None, 0], torch.abs(mult * threshold))
    x = psi(distance(qpos, kpos).abs()) / (psi(far) + 1e-6)
    layer = x[..., None] * w1 + b1
    act = torch.relu if activation == "relu" else torch.nn.functional.leaky_relu
    bias = act(layer) @ w2.T + b2
    return score + bias[:, 0].permute(0, 3, 1, 2)


def kerple_multiplicative(score, qpos, kpos, params):
    d = distance(qpos, kpos).abs()
    r1, r2, r3, r4 = (params[n][:, None, None] for n in ("r1", "r2", "r3", "r4"))
    safe = torch.where(d == 0, 1.0, d)
    bias = torch.where(d == 0, 0.0, safe**r2)
    decay = torch.where(d == 0, 0.0, safe**r4)
    return score * torch.exp(-r3 * decay) - r1 * bias


def swin(score, qpos, kpos, params, rows=7, columns=7):
    dy = distance(qpos, kpos, 0).clamp(1 - rows, rows - 1).long()
    dx = distance(qpos, kpos, 1).clamp(1 - columns, columns - 1).long()
    index = (dy + rows - 1) * (2 * columns - 1) + dx + columns - 1
    return score + params["table"][index[:, 0]].permute(0, 3, 1, 2)


# Row maps ---------------------------------------------------------------------


def turned(rows, angle, pairing, scale=1.0):
    """Pairs turned by angle (..., L, pairs); lanes beyond 2 pairs pass."""
    pairs = angle.shape[-1]
    if pairing == "half":
        first = torch.arange(pairs)
        second = first + pairs
    else:
        first = 2 * torch.arange(pairs)
        second = first + 1
    z = torch.complex(rows[..., first], rows[..., second])
    z = z * torch.polar(torch.as_tensor(scale, dtype=torch.float64).expand(angle.shape), angle)
    out = rows.clone()
    out[..., first], out[..., second] = z.real, z.imag
    return out


def rope_2d(rows, pos, is_query, kpos, theta=100.0, pairing="interleaved"):
    width = rows.shape[-1]
    t = torch.arange(width // 4, dtype=torch.float64)
    frequency = theta ** (-4 * t / width)
    angle = torch.cat([pos[:, None, :, 1:] * frequency, pos[:, None, :, :1] * frequency], -1)
    return turned(rows, angle, pairing)
