"""Encodings inside attention as a PyTorch user writes them: what ours is compared
with, eager and through `torch.compile`.

Each function takes query, key, value (B, H, L, d), the trained parameters by name
and the tensors that such a user makes once and keeps (`constants`). Attention is
causal. Where the encoding is a row map, a bias or wider rows,
`scaled_dot_product_attention` does the rest. Of several usual forms the fastest is
taken: neighbouring lanes turn as complex numbers, halves of a row as two products.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

GRID_ROWS = 32
UNIT = 1 / 63  # of liere: the grid of the measured shape reaches to column 63
FACTOR = 4.0  # of rope's scalings


def trained(length: int) -> int:
    """Of rope's scalings: the length before it grew by FACTOR."""
    return length // int(FACTOR)


def columns_of(length: int) -> int:
    """Of the grid: it has GRID_ROWS rows."""
    return length // GRID_ROWS


def grid(length: int) -> torch.Tensor:
    """Row and column of every position."""
    index = torch.arange(length)
    columns = columns_of(length)
    return torch.stack([index // columns, index % columns], -1)


def slopes(heads: int) -> torch.Tensor:
    """ALiBi's, (heads, 1, 1)."""
    power = 2 ** (heads.bit_length() - 1)
    steps = [8 * h / power for h in range(1, power + 1)]
    steps += [4 * h / power for h in range(1, 2 * (heads - power), 2)]
    return 2.0 ** -torch.tensor(steps)[:, None, None]


def constants(shape, place: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
    """Positions (the index unless given) and their distances, the causal mask in two
    forms, what ALiBi subtracts, and the grid of the positions."""
    heads, length = shape[1:3]
    index = torch.arange(length)
    place = index if place is None else place
    distance = place[:, None] - place[None, :]
    visible = index[:, None] >= index[None, :]
    return {
        "place": place,
        "distance": distance,
        "visible": visible,
        "hidden": torch.zeros(length, length).masked_fill(~visible, -math.inf),
        "slopes": slopes(heads),
        "alibi": -slopes(heads) * distance.abs(),
        "grid": grid(length),
    }


def _softmax(score, value, visible):
    return torch.softmax(score.masked_fill(~visible, -math.inf), -1) @ value


def _score(query, key):
    return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


def _turn(rows, turn):
    """Neighbouring lanes as complex numbers, times those of every row (L, d / 2)."""
    return torch.view_as_real(torch.view_as_complex(rows.unflatten(-1, (-1, 2))) * turn).flatten(-2)


def _turn_halves(rows, cos, sin):
    first, second = rows.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def _rope(query, key, value, place, frequency, temperature=1.0):
    angle = place[:, None] * frequency
    cos, sin = angle.cos() * temperature, angle.sin() * temperature
    query, key = _turn_halves(query, cos, sin), _turn_halves(key, cos, sin)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def _frequency(dim, base=10000.0):
    return base ** (-torch.arange(0, dim, 2) / dim)


def rope(query, key, value, params, constants):
    return _rope(query, key, value, constants["place"], _frequency(query.shape[-1]))


def rope_ntk(query, key, value, params, constants):
    dim = query.shape[-1]
    base = 10000.0 * FACTOR ** (dim / (dim - 2))
    return _rope(query, key, value, constants["place"], _frequency(dim, base))


def rope_ntk_dynamic(query, key, value, params, constants):
    length, dim = query.shape[2:]
    stretch = FACTOR * length / trained(length) - (FACTOR - 1)
    base = 10000.0 * stretch ** (dim / (dim - 2))
    return _rope(query, key, value, constants["place"], _frequency(dim, base))


def rope_yarn(query, key, value, params, constants):
    length, dim = query.shape[2:]

    def pair(turns):
        """The pair that turns so often within the trained length."""
        return dim * math.log(trained(length) / (2 * math.pi * turns)) / (2 * math.log(10000.0))

    low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), dim - 1)
    ramp = ((torch.arange(dim // 2) - low) / (high - low)).clamp(0, 1)
    frequency = _frequency(dim) * (1 - ramp + ramp / FACTOR)
    temperature = 0.1 * math.log(FACTOR) + 1
    return _rope(query, key, value, constants["place"], frequency, temperature)


def _rope_2d(query, key, value, angle):
    turn = torch.polar(torch.ones_like(angle), angle)
    return F.scaled_dot_product_attention(
        _turn(query, turn), _turn(key, turn), value, is_causal=True
    )


def rope_2d(query, key, value, params, constants):
    dim = query.shape[-1]
    down, across = constants["grid"].float().T[:, :, None]
    frequency = 100.0 ** (-torch.arange(0, dim, 4) / dim)
    return _rope_2d(query, key, value, torch.cat([across * frequency, down * frequency], -1))


def rope_2d_mixed(query, key, value, params, constants):
    down, across = constants["grid"].float().T[:, None, :, None]
    x, y = params["rope_2d_mixed.freqs"][:, :, None]
    return _rope_2d(query, key, value, across * x + down * y)


def xpos(query, key, value, params, constants):
    dim = query.shape[-1]
    t = torch.arange(0, dim, 2)
    place = constants["place"][:, None].float()
    angle = place * 10000.0 ** (-t / dim)
    power = (place - (place[0] + place[-1]) / 2) / 512
    scale = ((t + 0.4 * dim) / (1.4 * dim)) ** power
    query, key = _turn(query, torch.polar(scale, angle)), _turn(key, torch.polar(1 / scale, angle))
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def liere(query, key, value, params, constants):
    """A matrix per position and block, from one batch of exponentials."""
    above = params["liere.gen"][:, 0].triu(1)
    skew = above - above.mT
    turn = torch.matrix_exp(torch.einsum("la,anij->lnij", constants["grid"] * UNIT, skew))

    def turned(rows):
        blocks = rows.unflatten(-1, (-1, skew.shape[-1]))
        return torch.einsum("lnij,bhlnj->bhlni", turn, blocks).flatten(-2)

    return F.scaled_dot_product_attention(turned(query), turned(key), value, is_causal=True)


def alibi(query, key, value, params, constants):
    """Of distances that a call brings."""
    bias = constants["hidden"] - constants["slopes"] * constants["distance"].abs()
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias[None])


def kerple_multiplicative(query, key, value, params, constants):
    r1, r2, r3, r4 = (
        params[f"kerple_multiplicative.{n}"][:, None, None] for n in ("r1", "r2", "r3", "r4")
    )
    distance = constants["distance"].abs().float()
    score = _score(query, key) * torch.exp(-r3 * distance**r4) - r1 * distance**r2
    return _softmax(score, value, constants["visible"])


def forgetting(query, key, value, params, constants):
    total = F.logsigmoid(params["forgetting.gate"]).cumsum(-1)
    bias = total[..., :, None] - total[..., None, :] + constants["hidden"]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)


def swin(query, key, value, params, constants):
    rows, columns = GRID_ROWS, columns_of(query.shape[2])
    down, across = (constants["grid"][:, None] - constants["grid"][None, :]).unbind(-1)
    index = (down + rows - 1) * (2 * columns - 1) + across + columns - 1
    bias = params["swin.table"][index].permute(2, 0, 1) + constants["hidden"]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias[None])


def _fire(params, constants, threshold, activation):
    """A bias (H, L, L)."""
    c, mult, w1, b1, w2, b2 = params

    def psi(u):
        return torch.log(torch.abs(c * u) + 1)

    far = torch.maximum(constants["place"][:, None].float(), torch.abs(mult * threshold))
    x = psi(constants["distance"].abs().float()) / (psi(far) + 1e-6)
    return F.linear(activation(x[..., None] * w1 + b1), w2, b2).permute(2, 0, 1)


def _fire_params(params, prefix):
    return [params[f"{prefix}.{n}"] for n in ("c", "mult", "w1", "b1", "w2", "b2")]


def fire(query, key, value, params, constants):
    bias = _fire(_fire_params(params, "fire"), constants, 512.0, F.relu)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=(bias + constants["hidden"])[None]
    )


def fire_leaky(query, key, value, params, constants):
    bias = _fire(_fire_params(params, "fire"), constants, 64.0, F.leaky_relu)
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


def deberta(query, key, value, params, constants):
    """As shaw: one product per row of the projected tables, gathered."""
    heads, dim = query.shape[1], query.shape[-1]
    kr, qr = (params[f"deberta.{n}"].unflatten(0, (heads, dim)) for n in ("kr", "qr"))
    reach = kr.shape[-1] // 2
    back = (constants["distance"] + reach).clamp(0, 2 * reach - 1)
    ahead = (reach - constants["distance"]).clamp(0, 2 * reach - 1)
    shape = (*query.shape[:2], -1, -1)
    to_position = (query @ kr).gather(-1, back.expand(*shape))
    to_content = (key @ qr).gather(-1, ahead.mT.expand(*shape)).mT
    score = (query @ key.mT + to_position + to_content) / math.sqrt(3 * dim)
    return _softmax(score, value, constants["visible"])


def transformer_xl(query, key, value, params, constants):
    heads, length, dim = query.shape[1:]
    u, v, wr = (params[f"transformer_xl.{n}"] for n in ("u", "v", "wr"))
    width = wr.shape[1]
    angle = torch.arange(length - 1, -1, -1)[:, None] * _frequency(width)
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


def _dape(query, key, value, params, constants, bias, variant="concat_residual"):
    """`bias` (H, L, L) is what the host adds, None without."""
    w1, b1, w2, b2 = (params[f"dape.{n}"] for n in ("w1", "b1", "w2", "b2"))
    score = _score(query, key)
    kept = seen = score
    if bias is not None:
        seen = torch.cat([score, bias.expand_as(score)], 1)
        kept = score if variant == "concat" else score + bias
    rows = seen.permute(0, 2, 3, 1)
    change = F.linear(F.leaky_relu(F.linear(rows, w1, b1), 0.01), w2, b2)
    return _softmax(kept + change.permute(0, 3, 1, 2), value, constants["visible"])


def _dape_kerple_bias(params, constants):
    r1, r2 = (params[f"dape.kerple_log.{n}"][:, None, None] for n in ("r1", "r2"))
    return -r1 * torch.log1p(r2 * constants["distance"].abs())


def dape_kerple_log(query, key, value, params, constants):
    bias = _dape_kerple_bias(params, constants)
    return _dape(query, key, value, params, constants, bias)


def dape_concat(query, key, value, params, constants):
    bias = _dape_kerple_bias(params, constants)
    return _dape(query, key, value, params, constants, bias, "concat")


def dape_alibi(query, key, value, params, constants):
    return _dape(query, key, value, params, constants, constants["alibi"])


def dape_fire(query, key, value, params, constants):
    bias = _fire(_fire_params(params, "dape.fire"), constants, 512.0, F.relu)
    return _dape(query, key, value, params, constants, bias)


def dape(query, key, value, params, constants):
    """Without a host: add_residual, whose network sees the scores alone."""
    return _dape(query, key, value, params, constants, None)


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
