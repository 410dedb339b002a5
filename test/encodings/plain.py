"""Attention and every encoding in plain numpy, float64, written from the papers'
formulas: what the tests compare Sextant with. Nothing here is shared with it.

Shapes: query (B, H, Lq, d), key (B, Hkv, Lk, d), value (B, Hkv, Lk, dv). A score
term is a function of `At`, a mask too; a row map takes rows (B, H, L, d) and
their coordinates (B, L).
"""

import fractions
import math

import numpy as np


class At:
    """Where scores stand: arrays that broadcast to (B, H, Lq, Lk)."""

    def __init__(self, batch, heads, lq, lk, head_dim, scale, qpos=None, kpos=None):
        self.head = np.arange(heads).reshape(1, heads, 1, 1)
        self.query = (np.arange(lq) + lk - lq).reshape(1, 1, lq, 1)
        self.key = np.arange(lk).reshape(1, 1, 1, lk)
        qpos = self.query if qpos is None else qpos.reshape(-1, 1, lq, 1)
        kpos = self.key if kpos is None else kpos.reshape(-1, 1, 1, lk)
        self.offset = kpos - qpos
        self.batch = np.arange(batch).reshape(batch, 1, 1, 1)
        self.heads, self.head_dim, self.scale = heads, head_dim, scale


def attention(query, key, value, scores=(), masks=(), rows=(), qpos=None, kpos=None):
    """Output (B, H, Lq, dv) and log-sum-exp (B, H, Lq)."""
    batch, heads, lq, dim = query.shape
    lk = key.shape[2]
    scale = 1 / math.sqrt(dim)
    at = At(batch, heads, lq, lk, dim, scale, qpos, kpos)
    q_at = (np.arange(lq) + lk - lq)[None] if qpos is None else qpos.reshape(-1, lq)
    k_at = np.arange(lk)[None] if kpos is None else kpos.reshape(-1, lk)
    for row_map in rows:
        query, key = row_map(query, q_at), row_map(key, k_at)
    key = np.repeat(key, heads // key.shape[1], axis=1)
    value = np.repeat(value, heads // value.shape[1], axis=1)
    score = scale * np.einsum("bhid,bhjd->bhij", query, key)
    for term in scores:
        score = term(score, at)
    visible = np.ones(score.shape, bool)
    for mask in masks:
        visible &= mask(at)
    score = np.where(visible, score, -np.inf)
    top = np.max(score, axis=-1, keepdims=True)
    weights = np.exp(score - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.where(np.isfinite(top), top, 0) + np.log(total)
    output = weights / np.where(total == 0, 1, total) @ value
    return output, lse[..., 0]


# Masks ------------------------------------------------------------------------


def causal(at):
    return at.key <= at.query


def window(at, size=256, two_sided=False):
    distance = at.query - at.key
    return abs(distance) < size if two_sided else (0 <= distance) & (distance < size)


def prefix(at, length):
    return (at.key < length[at.batch % len(length)]) | (at.key <= at.query)


def document(at, ids):
    batch = at.batch % len(ids)
    return ids[batch, np.maximum(at.query, 0)] == ids[batch, at.key]


def padding(at, visible):
    return visible[at.batch % len(visible), at.key] != 0


# Terms of the score -----------------------------------------------------------


def softcap(score, at, cap=50.0):
    return cap * np.tanh(score / cap)


def alibi_slopes(heads):
    """As in the paper's code: powers of two, then every second one in between."""

    def of_power(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    power = 2 ** math.floor(math.log2(heads))
    slopes = of_power(power) + of_power(2 * power)[0::2][: heads - power]
    return np.array(slopes)


def alibi(score, at, scaled=False, later_half=False):
    slope = alibi_slopes(at.heads)[at.head]
    bias = -slope * abs(at.offset)
    if later_half:
        bias = bias + np.where(at.offset < 0, 0.5 * slope, 0)
    return score + (bias * at.scale if scaled else bias)


def t5_bucket(distance, buckets, max_distance):
    """Bucket of a distance >= 0 by exact rational comparison, not by logarithms."""
    exact = buckets // 2
    if distance < exact:
        return distance
    spread = buckets - exact
    ratio = fractions.Fraction(distance, exact) ** spread
    far = fractions.Fraction(max_distance, exact)
    k = 0
    while k + 1 < spread and ratio >= far ** (k + 1):
        k += 1
    return exact + k


def t5_bias(
    score, at, table, buckets=32, max_distance=128, bidirectional=False, times_sqrt_dim=False
):
    side = buckets // 2 if bidirectional else buckets

    def bucket(offset):
        if bidirectional:
            return t5_bucket(abs(offset), side, max_distance) + (side if offset > 0 else 0)
        return t5_bucket(max(-offset, 0), side, max_distance)

    unique, inverse = np.unique(at.offset, return_inverse=True)
    index = np.array([bucket(int(o)) for o in unique])[inverse.reshape(at.offset.shape)]
    factor = math.sqrt(at.head_dim) if times_sqrt_dim else 1
    return score + factor * table[index, at.head]


def kerple_log(score, at, r1, r2):
    return score - r1[at.head] * np.log(1 + r2[at.head] * abs(at.offset))


def kerple_power(score, at, r1, r2):
    distance = abs(at.offset).astype(float)
    return score - r1[at.head] * np.where(distance == 0, 0, distance ** r2[at.head])


def sandwich(score, at, width=128):
    ratio = 8 * (at.head + 1) / at.heads
    total = sum(
        np.cos(-at.offset * 10000.0 ** (-2 * t / width)) for t in range(width // 2)
    )
    return score + total / ratio


def talking_heads(score, at, pre):
    return np.einsum("hg,bgij->bhij", pre, score)


def dape(score, at, w1, b1, w2, b2, host=None, variant="concat_residual", slope=0.01):
    """``host``: a score term whose sum with the score is all that it does."""
    bias = np.zeros_like(score) if host is None else host(score, at) - score
    joined = np.concatenate([score, bias], 1)
    seen = {"add_residual": score + bias, "bias_residual": bias}.get(variant, joined)
    hidden = np.einsum("ug,bgij->buij", w1, seen) + b1[:, None, None]
    hidden = np.where(hidden > 0, hidden, slope * hidden)
    out = np.einsum("hu,buij->bhij", w2, hidden) + b2[:, None, None]
    return score + out + (0 if variant == "concat" else bias)


# Row maps ---------------------------------------------------------------------


def rope(rows, coords, pairing="half", base=10000.0, lanes=0, scaling="none", factor=1.0):
    width = lanes or rows.shape[-1]
    t = np.arange(width // 2)
    angle = coords[:, None, :, None] * base ** (-2 * t / width)
    if scaling == "linear":
        angle = angle / factor
    out = rows.copy()
    if pairing == "half":
        first, second = t, t + width // 2
    else:
        first, second = 2 * t, 2 * t + 1
    turned = (rows[..., first] + 1j * rows[..., second]) * np.exp(1j * angle)
    out[..., first], out[..., second] = turned.real, turned.imag
    return out


def sinusoidal(x, coords, base=10000.0, layout="interleaved"):
    width = x.shape[-1]
    t = np.arange(width // 2)
    angle = coords[..., None] * base ** (-2 * t / width)
    out = x.copy()
    sine, cosine = (2 * t, 2 * t + 1) if layout == "interleaved" else (t, t + width // 2)
    out[..., sine] += np.sin(angle)
    out[..., cosine] += np.cos(angle)
    return out


def learned(x, coords, table, train_length=0):
    """Beyond train_length: linear interpolation over the greatest position plus one,
    corners not aligned (as torch.nn.functional.interpolate does it)."""
    length = coords.max() + 1
    if not train_length or length <= train_length:
        return x + table[np.clip(coords, 0, len(table) - 1)]
    source = np.maximum((coords + 0.5) * train_length / length - 0.5, 0)
    low = np.minimum(np.floor(source).astype(int), train_length - 1)
    high = np.minimum(low + 1, train_length - 1)
    part = (source - np.floor(source))[..., None]
    return x + (1 - part) * table[low] + part * table[high]
