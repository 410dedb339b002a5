"""Contextual encodings in plain PyTorch, written from the papers' formulas: what
the tests compare Sextant with, forward and in every gradient (by autograd).

Shapes: query (B, H, Lq, d), key (B, Hkv, Lk, d), value (B, Hkv, Lk, dv). Queries
are aligned with the last keys. Every function gives output and log-sum-exp.
"""

import math

import torch


def offsets(query, key):
    """key - query of every pair, (Lq, Lk)."""
    lq, lk = query.shape[2], key.shape[2]
    return torch.arange(lk)[None, :] - (torch.arange(lq) + lk - lq)[:, None]


def repeat(query, *rows):
    group = query.shape[1] // rows[0].shape[1]
    return [t.repeat_interleave(group, 1) for t in rows]


def softmax(score, visible):
    """Weights (0 in rows that see nothing) and log-sum-exp."""
    score = score.masked_fill(~visible, -math.inf)
    empty = ~visible.any(-1, keepdim=True)
    weights = torch.softmax(score.masked_fill(empty, 0.0), -1).masked_fill(~visible, 0.0)
    return weights, torch.logsumexp(score, -1)


def everything(query, key):
    return torch.ones(query.shape[2], key.shape[2], dtype=torch.bool)


def causal(query, key):
    return offsets(query, key) <= 0


def window(size):
    return lambda query, key: (offsets(query, key) <= 0) & (offsets(query, key) > -size)


def cope(query, key, value, table, sees=everything):
    key, value = repeat(query, key, value)
    visible = sees(query, key)
    score = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    gates = torch.sigmoid(score) * visible
    place = gates.flip(-1).cumsum(-1).flip(-1)
    last = table.shape[1] - 1
    place = torch.where(place < last, place, torch.full_like(place, last))
    products = query @ table
    low, high = place.floor(), place.ceil()
    below = products.gather(-1, low.long())
    above = products.gather(-1, high.long())
    part = place - low
    weights, lse = softmax(score + (1 - part) * below + part * above, visible)
    return weights @ value, lse


def shaw(query, key, value, ak, av=None, sees=everything, reach=16):
    key, value = repeat(query, key, value)
    place = offsets(query, key).clamp(-reach, reach) + reach
    visible = sees(query, key)
    score = query @ key.transpose(-1, -2)
    score = score + torch.einsum("bhid,ijd->bhij", query, ak[place])
    weights, lse = softmax(score / math.sqrt(query.shape[-1]), visible)
    output = weights @ value
    if av is not None:
        output = output + torch.einsum("bhij,ijd->bhid", weights, av[place])
    return output, lse


def deberta(query, key, value, kr, qr, sees=everything, reach=512):
    """Equation 4: content to content, content to position and position to content.
    Pairs (i, j) of positions take row delta of the projected tables, of each head
    (2 reach, head_dim); position to content takes delta(j, i)."""
    heads, dim = query.shape[1], query.shape[-1]
    by_head = [t.unflatten(0, (-1, dim)).mT for t in (kr, qr)]  # (H or Hkv, 2 reach, d)
    by_head[1] = by_head[1].repeat_interleave(heads // by_head[1].shape[0], 0)
    key, value = repeat(query, key, value)
    distance = -offsets(query, key)  # i - j

    def delta(distance):
        return torch.where(
            distance <= -reach, 0, torch.where(distance >= reach, 2 * reach - 1, distance + reach)
        )

    to_position = torch.einsum("bhid,hijd->bhij", query, by_head[0][:, delta(distance)])
    to_content = torch.einsum("bhjd,hijd->bhij", key, by_head[1][:, delta(-distance)])
    score = query @ key.transpose(-1, -2) + to_position + to_content
    weights, lse = softmax(score / math.sqrt(3 * dim), sees(query, key))
    return weights @ value, lse


def transformer_xl(query, key, value, u, v, wr, sees=everything):
    key, value = repeat(query, key, value)
    heads, dim = u.shape
    width = wr.shape[1]
    visible = sees(query, key)
    # Sinusoids of every distance that occurs, [sin | cos].
    distance = -offsets(query, key)
    frequency = 10000.0 ** (-2 * torch.arange(width // 2, dtype=u.dtype) / width)
    angle = distance[..., None] * frequency
    sinusoid = torch.cat([angle.sin(), angle.cos()], -1)
    rows = torch.einsum("hdc,ijc->hijd", wr.view(heads, dim, width), sinusoid)
    score = (query + u[:, None]) @ key.transpose(-1, -2)
    score = score + torch.einsum("bhid,hijd->bhij", query + v[:, None], rows)
    weights, lse = softmax(score / math.sqrt(dim), visible)
    return weights @ value, lse
