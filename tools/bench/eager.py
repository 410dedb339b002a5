"""Encodings inside attention as a PyTorch user writes them: what ours is compared
with, eager and through `torch.compile`.

Each function takes query, key, value (B, H, L, d), the trained parameters by name
and the tensors that such a user makes once and keeps (`constants`). Attention is
causal. Where the encoding is a row map, a bias or wider rows,
`scaled_dot_product_attention` does the rest.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

GRID_ROWS = 32


def grid(length: int) -> torch.Tensor:
    """Row and column of every position."""
    index = torch.arange(length)
    columns = max(1, length // GRID_ROWS)
    return torch.stack([index // columns, index % columns], -1)


def constants(shape) -> dict[str, torch.Tensor]:
    """Distances, the causal mask in two forms, and the grid of the positions."""
    length = shape[2]
    index = torch.arange(length)
    distance = index[:, None] - index[None, :]
    return {
        "index": index,
        "distance": distance,
        "visible": distance >= 0,
        "hidden": torch.zeros(length, length).masked_fill(distance < 0, -math.inf),
        "grid": grid(length),
    }


def _softmax(score, value, visible):
    return torch.softmax(score.masked_fill(~visible, -math.inf), -1) @ value


def _score(query, key):
    return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


def _turn(rows, cos, sin, scale=None):
    pairs = rows.unflatten(-1, (-1, 2))
    even, odd = pairs[..., 0], pairs[..., 1]
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1)
    if scale is not None:
        turned = turned * scale[..., None]
    return turned.flatten(-2)


def rope_2d_mixed(query, key, value, params, constants):
    down, across = constants["grid"].float().T[:, None, :, None]
    x, y = params["rope_2d_mixed.freqs"][:, :, None]
    angle = across * x + down * y
    cos, sin = angle.cos(), angle.sin()
    query, key = _turn(query, cos, sin), _turn(key, cos, sin)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def xpos(query, key, value, params, constants):
    dim = query.shape[-1]
    t = torch.arange(0, dim, 2)
    place = constants["index"][:, None].float()
    angle = place * 10000.0 ** (-t / dim)
    cos, sin = angle.cos(), angle.sin()
    power = (place - (place[0] + place[-1]) / 2) / 512
    scale = ((t + 0.4 * dim) / (1.4 * dim)) ** power
    query, key = _turn(query, cos, sin, scale), _turn(key, cos, sin, 1 / scale)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def forgetting(query, key, value, params, constants):
    total = F.logsigmoid(params["forgetting.gate"]).cumsum(-1)
    bias = total[..., :, None] - total[..., None, :] + constants["hidden"]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)


def swin(query, key, value, params, constants):
    rows, columns = GRID_ROWS, query.shape[2] // GRID_ROWS
    down, across = (constants["grid"][:, None] - constants["grid"][None, :]).unbind(-1)
    index = (down + rows - 1) * (2 * columns - 1) + across + columns - 1
    bias = params["swin.table"][index].permute(2, 0, 1) + constants["hidden"]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias[None])


def fire(query, key, value, params, constants):
    c, mult, w1, b1, w2, b2 = (params[f"fire.{n}"] for n in ("c", "mult", "w1", "b1", "w2", "b2"))

    def psi(u):
        return torch.log(torch.abs(c * u) + 1)

    far = torch.maximum(constants["index"][:, None].float(), torch.abs(mult * 512.0))
    x = psi(constants["distance"].abs().float()) / (psi(far) + 1e-6)
    bias = F.linear(torch.relu(x[..., None] * w1 + b1), w2, b2).permute(2, 0, 1)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=(bias + constants["hidden"])[None]
    )


def cope(query, key, value, params, constants):
    table, visible = params["cope.table"], constants["visible"]
    score = _score(query, key)
    gates = torch.sigmoid(score) * visible
    place = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=table.shape[1] - 1)
    products = query @ table
    low, high = place.floor(), place.ceil()
    below, above = products.gather(-1, low.long()), products.gather(-1, high.long())
    part = place - low
    return _softmax(score + (1 - part) * below + part * above, value, visible)


def shaw(query, key, value, params, constants):
    """The better of the usual forms: one product per row of the tables, gathered
    (scores) and summed by row (values), where others gather (L, L, d) floats."""
    ak, av = params["shaw.ak"], params["shaw.av"]
    reach = ak.shape[0] // 2
    place = (reach - constants["distance"].clamp(-reach, reach)).expand(*query.shape[:2], -1, -1)
    products = (query @ ak.T).gather(-1, place) / math.sqrt(query.shape[-1])
    score = (_score(query, key) + products).masked_fill(~constants["visible"], -math.inf)
    weights = torch.softmax(score, -1)
    sums = weights.new_zeros(*weights.shape[:-1], ak.shape[0]).scatter_add(-1, place, weights)
    return weights @ value + sums @ av


def transformer_xl(query, key, value, params, constants):
    heads, length, dim = query.shape[1:]
    u, v, wr = (params[f"transformer_xl.{n}"] for n in ("u", "v", "wr"))
    width = wr.shape[1]
    frequency = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angle = torch.arange(length - 1, -1, -1)[:, None] * frequency
    rows = (torch.cat([angle.sin(), angle.cos()], -1) @ wr.T).unflatten(-1, (heads, dim))
    by_key = (query + u[:, None]) @ key.transpose(-1, -2)
    by_distance = (query + v[:, None]) @ rows.permute(1, 2, 0)
    # Row i is shifted left by L - 1 - i: column j then holds distance i - j.
    padded = F.pad(by_distance, (1, 0)).reshape(*query.shape[:2], length + 1, length)
    shifted = padded[..., 1:, :]
    return _softmax((by_key + shifted) / math.sqrt(dim), value, constants["visible"])


def talking_heads(query, key, value, params, constants):
    score = torch.einsum("hg,bgij->bhij", params["talking_heads.pre"], _score(query, key))
    return _softmax(score, value, constants["visible"])


def dape(query, key, value, params, constants):
    r1, r2 = (params[f"dape.kerple_log.{n}"][:, None, None] for n in ("r1", "r2"))
    w1, b1, w2, b2 = (params[f"dape.{n}"] for n in ("w1", "b1", "w2", "b2"))
    score = _score(query, key)
    bias = (-r1 * torch.log1p(r2 * constants["distance"].abs())).expand_as(score)
    rows = torch.cat([score, bias], 1).permute(0, 2, 3, 1)
    change = F.linear(F.leaky_relu(F.linear(rows, w1, b1), 0.01), w2, b2)
    return _softmax(score + bias + change.permute(0, 3, 1, 2), value, constants["visible"])


def columns(query, key, value, params, constants):
    a, b = (params[f"embedded.{n}"].expand_as(query) for n in ("a", "b"))
    return F.scaled_dot_product_attention(
        torch.cat([query, a], -1),
        torch.cat([key, b], -1),
        value,
        is_causal=True,
        scale=1 / math.sqrt(query.shape[-1]),
    )


def two_values(query, key, value, params, constants):
    values = torch.cat([value, params["second"]], -1)
    return F.scaled_dot_product_attention(query, key, values, is_causal=True)
