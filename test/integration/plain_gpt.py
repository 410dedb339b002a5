"""The models of `sextant.models.gpt` in plain PyTorch, for autograd to check.

Written from the papers, without a line of Sextant: the scores are materialised,
the encodings' formulas stand here a second time. Parameters have the names of the
compiled model.
"""

import functools
import math

import exact_positions
import torch
import torch.nn.functional as F


def forward(config, params, tokens, inside=None):
    """Logits [B, L, V] in the dtype of the parameters. ``inside`` is what acts in the
    layers in place of encodings with names: ``attend(layer, q, k, v)`` gives attention's
    output, ``after_mlp(layer, output)`` sees the MLP's before it is added."""
    x = params["embedding.weight"][tokens]
    length, width = x.shape[1], config.width
    names = [str(e).split("(")[0] for e in config.encodings]
    if "sinusoidal" in names:
        x = x + sinusoid(length, width).to(x.dtype)
    if "learned" in names:
        x = x + params["embedding.learned.table"][:length]
    for layer in range(config.layers):
        prefix = f"layers.{layer}"
        h = norm(config, params, x, f"{prefix}.norm1")
        attend = functools.partial(inside.attend, layer) if inside else None
        x = x + attention(config, params, h, prefix, names, attend)
        h = norm(config, params, x, f"{prefix}.norm2")
        h = mlp(config, params, h, f"{prefix}.mlp")
        if inside:
            inside.after_mlp(layer, h)
        x = x + h
    head = "embedding.weight" if config.tied else "head.weight"
    return norm(config, params, x, "norm") @ params[head].T


def loss(config, params, tokens, labels, inside=None):
    logits = forward(config, params, tokens, inside)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def linear(params, x, name):
    return F.linear(x, params[f"{name}.weight"], params.get(f"{name}.bias"))


def norm(config, params, x, name):
    weight = params[f"{name}.weight"]
    if config.style == "gpt2":
        return F.layer_norm(x, weight.shape, weight, params[f"{name}.bias"], config.epsilon)
    scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + config.epsilon)
    return x * scale * weight


def mlp(config, params, x, name):
    up = linear(params, x, f"{name}.up")
    if config.style == "gpt2":
        inner = F.gelu(up, approximate={"tanh": "tanh", "erf": "none"}[config.gelu])
    else:
        inner = F.silu(linear(params, x, f"{name}.gate")) * up
    return linear(params, inner, f"{name}.down")


def attention(config, params, x, prefix, names, attend=None):
    batch, length, _ = x.shape
    heads, kv_heads = config.heads, config.kv_heads or config.heads

    def project(name, count):
        seen = x if name == "value" else exact_positions_of(config, params, x, prefix)
        y = linear(params, seen, f"{prefix}.{name}")
        return y.reshape(batch, length, count, -1).transpose(1, 2)

    q, k, v = project("query", heads), project("key", kv_heads), project("value", kv_heads)
    if attend:
        out = attend(q, k, v)
        return linear(params, out.transpose(1, 2).reshape(batch, length, -1), f"{prefix}.output")
    if "rope" in names:
        q, k = rotate(q), rotate(k)
    k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores + bias(params, prefix, names, heads, length, x.dtype)
    if "causal" in names:
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    out = scores.softmax(-1) @ v
    return linear(params, out.transpose(1, 2).reshape(batch, length, -1), f"{prefix}.output")


def exact_positions_of(config, params, x, prefix):
    """What queries and keys are projected from: with ExPE and ExQPE another x."""
    for use in map(str, config.encodings):
        name, _, options = use.rstrip(")").partition("(")
        given = dict(o.strip().split("=") for o in options.split(",") if o)
        first_only = given.pop("layers", "all") == "first"
        if name not in ("expe", "exqpe") or (first_only and prefix != "layers.0"):
            continue
        given = {k: v if k == "values" else float(v) for k, v in given.items()}
        if "channels" in given:
            given["channels"] = int(given["channels"])
        learned = {n.split(".")[-1]: t for n, t in params.items() if n.startswith(f"attention.{name}.")}
        x = getattr(exact_positions, name)(x, **given, **learned)
    return x


def bias(params, prefix, names, heads, length, dtype):
    """[H, L, L]: what ALiBi, Kerple and T5 add."""
    i = torch.arange(length)
    distance = (i[:, None] - i[None, :]).abs()
    total = torch.zeros(heads, length, length, dtype=dtype)
    if "alibi" in names:
        slopes = torch.tensor(alibi_slopes(heads), dtype=dtype)
        total = total - slopes[:, None, None] * distance
    if "kerple_log" in names:
        r1 = params[f"{prefix}.attention.kerple_log.r1"][:, None, None]
        r2 = params[f"{prefix}.attention.kerple_log.r2"][:, None, None]
        total = total - r1 * torch.log1p(r2 * distance)
    if "t5_bias" in names:
        name = f"{prefix}.attention.t5_bias.table"
        table = params[name] if name in params else params["attention.t5_bias.table"]
        total = total + table[bucket(distance)].permute(2, 0, 1)
    return total


def alibi_slopes(heads):
    """Press et al. 2022: a geometric sequence for powers of two, else that of the
    power below and every second one of the power above."""
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (h + 1) / power) for h in range(power)]
    above = [2.0 ** (-8.0 * (h + 1) / (2 * power)) for h in range(0, 2 * power, 2)]
    return (slopes + above)[:heads]


def bucket(distance, buckets=32, maximum=128):
    """Causal buckets of Raffel et al. 2020, in exact arithmetic."""
    exact = buckets // 2
    far = distance.clamp(min=1).double() / exact
    grown = exact + (far.log2() / math.log2(maximum / exact) * exact + 1e-9).long()
    return torch.where(distance < exact, distance, grown.clamp(max=buckets - 1))


def rotate(x, base=10000.0):
    """Su et al. 2021, lanes t and t + d/2 as pairs."""
    half = x.shape[-1] // 2
    rates = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def sinusoid(length, width, base=10000.0):
    """Vaswani et al. 2017, sine and cosine interleaved."""
    rates = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).reshape(length, width)
