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


def forgetting(score, qpos, kpos, params):
    """Sums over t = j + 1 .. i, by indices; the other way round beyond i."""
    log_gate = torch.nn.functional.logsigmoid(params["gate"])
    total = torch.cat([torch.zeros_like(log_gate[..., :1]), log_gate.cumsum(-1)], -1)
    lq, lk = score.shape[-2:]
    query = (torch.arange(lq) + lk - lq + 1).clamp(min=0)
    return score + total[..., query, None] - total[..., None, 1:]


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


def rope(rows, pos, is_query, kpos, pairing="half", base=10000.0, lanes=0, scaling="none",
         factor=1.0, train_length=0):  # fmt: skip
    width = lanes or rows.shape[-1]
    t = torch.arange(width // 2, dtype=torch.float64)
    temperature = 1.0
    if scaling == "ntk":
        base = base * factor ** (width / (width - 2))
    if scaling == "ntk_dynamic":
        length = float(kpos[..., 0].max()) + 1
        if length > train_length:
            stretch = factor * length / train_length - (factor - 1)
            base = base * stretch ** (width / (width - 2))
    frequency = base ** (-2 * t / width)
    if scaling == "linear":
        frequency = frequency / factor
    if scaling == "yarn":
        def pair(turns):
            return width * math.log(train_length / (2 * math.pi * turns)) / (2 * math.log(base))

        low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), width - 1)
        ramp = ((t - low) / (high - low if high != low else 0.001)).clamp(0, 1)
        frequency = frequency * (1 - ramp + ramp / factor)
        temperature = 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
    return turned(rows, pos[:, None, :, :1] * frequency, pairing, temperature)


def xpos(rows, pos, is_query, kpos, scale_base=512, base=10000.0, pairing="interleaved"):
    width = rows.shape[-1]
    t = torch.arange(width // 2, dtype=torch.float64)
    angle = pos[:, None, :, :1] * base ** (-2 * t / width)
    zeta = (2 * t + 0.4 * width) / (1.4 * width)
    middle = (kpos[..., 0].min() + kpos[..., 0].max()) / 2
    scale = zeta ** ((pos[:, None, :, :1] - middle) / scale_base)
    return turned(rows, angle, pairing, scale if is_query else 1 / scale)


def on_the_grid(pos, outside):
    """Positions, those with a negative coordinate at the origin if they are ``outside``."""
    return pos * (pos >= 0).all(-1, keepdim=True) if outside else pos


def rope_2d(rows, pos, is_query, kpos, theta=100.0, pairing="interleaved", outside=False):
    pos = on_the_grid(pos, outside)
    width = rows.shape[-1]
    t = torch.arange(width // 4, dtype=torch.float64)
    frequency = theta ** (-4 * t / width)
    angle = torch.cat([pos[:, None, :, 1:] * frequency, pos[:, None, :, :1] * frequency], -1)
    return turned(rows, angle, pairing)


def rope_2d_mixed(rows, pos, is_query, kpos, params, outside=False):
    pos = on_the_grid(pos, outside)
    across, down = params["freqs"][:, None, :, None]
    angle = pos[:, None, :, 1:] * across + pos[:, None, :, :1] * down
    return turned(rows, angle, "interleaved")


def liere(rows, pos, is_query, kpos, params, axes=2, block=0, per_head=False, unit=1.0,
          outside=False):  # fmt: skip
    pos = on_the_grid(pos[..., :axes], outside)
    gen = params["gen"].triu(1)
    skew = gen - gen.mT
    size = skew.shape[-1]
    generator = torch.einsum("bla,ahnrc->bhlnrc", pos, skew) * unit
    turn = torch.linalg.matrix_exp(generator.contiguous())
    width = rows.shape[-1] // size * size
    blocks = rows[..., :width].unflatten(-1, (-1, size))
    turn = turn.expand(*rows.shape[:2], -1, -1, -1, -1)
    moved = (turn @ blocks[..., None])[..., 0]
    return torch.cat([moved.flatten(-2), rows[..., width:]], -1)
