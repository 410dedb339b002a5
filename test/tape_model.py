"""TAPE (Zhu et al. 2025) in plain PyTorch, for tests to compare with: the layer as the
released code computes it, on its full state, the same on half of it, and the paper's
form. Nothing here is shared with Sextant.

The state of a layer has for each head h, token n and pair t of lanes (t and t + d/2) a
complex number z, by which queries and keys are multiplied. It starts as RoPE's and
changes in every layer, by what attention made of it and by what the token's MLP gave.
"""

import math

import torch
import torch.nn.functional as F


def start(length, dim, base=10000.0, scaling="none", factor=1.0, train_length=0, dtype=torch.float64):
    """RoPE's state [length, dim / 2], complex. ``scaling`` is that of RoPE beyond the
    length of training: `none`, `linear`, `ntk`, or `yarn` (Peng et al. 2023), whose
    temperature makes the state longer than 1."""
    pair = torch.arange(dim // 2, dtype=torch.float64)
    if scaling == "ntk":
        base = base * factor ** (dim / (dim - 2))
    rates, size = base ** (-2 * pair / dim), 1.0
    if scaling == "linear":
        rates = rates / factor
    elif scaling == "yarn":
        turns = lambda r: dim * math.log(train_length / (2 * math.pi * r)) / (2 * math.log(base))  # noqa: E731
        low, high = max(math.floor(turns(32)), 0), min(math.ceil(turns(1)), dim - 1)
        ramp = ((pair - low) / (high - low or 0.001)).clamp(0, 1)
        rates = rates * (1 - ramp + ramp / factor)
        size = max(0.1 * math.log(factor) + 1, 1.0)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.polar(torch.full_like(angles, size), angles).to(_complex(dtype))


def parameters(heads, width, hidden=48, dtype=torch.float64, drawn=True):
    """Of one layer, in the released form. At the start w1 and the mixing of heads are 0,
    and the layer is RoPE's; ``drawn`` gives them values as after some training."""
    scale = 0.3 if drawn else 0.0

    def normal(deviation, *shape):
        return deviation * torch.randn(shape, dtype=dtype)

    return {
        "mix": normal(scale, heads, heads),
        "x": normal(0.2 if drawn else 0.02, hidden, width),
        "w1": normal(scale, hidden, heads),
        "w2": normal(0.2 if drawn else 0.02, heads, hidden),
    }


def tape(query, key, value, z, causal=True):
    """Output and contextualised state, both [B, H, L, ...], and the probabilities, of
    queries and keys [B, H, L, d] and a complex state [B, H, L, d / 2]. Queries that are
    fewer than keys are the last ones."""
    behind = z[..., z.shape[-2] - query.shape[-2] :, :]
    scores = (_pairs(query) * behind).conj() @ (_pairs(key) * z).mT
    scores = scores.real / math.sqrt(query.shape[-1])
    if causal:
        queries, keys = scores.shape[-2:]
        hidden = torch.ones(queries, keys).tril(keys - queries) == 0
        scores = scores.masked_fill(hidden, -math.inf)
    p = scores.softmax(-1)
    return p @ value, p.to(z.dtype) @ z, p


# Released form, half state ------------------------------------------------------------


def after_attention(z, contextualised, mix):
    """The released code sums a matrix [H, H] over its columns: a gate per head."""
    return z + mix.sum(1)[:, None, None] * contextualised


def after_mlp(z, output, params):
    """``output``: of the token's MLP, [B, L, C]. Heads are mixed, the same in all pairs."""
    gate = F.silu(output @ params["x"].T)
    inner = torch.einsum("eh,bhlt->blet", params["w1"].to(z.dtype), z)
    inner = inner * gate[..., None]
    return z + torch.einsum("he,blet->bhlt", params["w2"].to(z.dtype), inner)


def after_both(z, contextualised, output, params):
    """Both updates at once, in the cheap order: the mixing of a token's heads is a matrix
    [H, H] of it."""
    gate = F.silu(output @ params["x"].T)
    mixing = torch.einsum("he,ble,eg->blhg", params["w2"], gate, params["w1"])
    moved = after_attention(z, contextualised, params["mix"])
    return moved + torch.einsum("blhg,bglt->bhlt", mixing.to(z.dtype), moved)


# Released form, full state -------------------------------------------------------------


def full(z):
    """Cosine and sine of all d channels, as the released code holds a state."""
    return torch.cat([z.real, z.real], -1), torch.cat([z.imag, z.imag], -1)


def tape_full(query, key, value, cos, sin, causal=True):
    """As `tape`, of a full state: rotation by half-splits, and three products."""

    def turned(x):
        half = x.shape[-1] // 2
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    scores = turned(query) @ turned(key).mT / math.sqrt(query.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), -math.inf)
    p = scores.softmax(-1)
    return p @ value, p @ cos, p @ sin


def layer_full(cos, sin, y_cos, y_sin, output, params):
    """Both updates of a full state, operation by operation as released."""
    updated = [
        state + torch.einsum("bqnd,qe->bqnd", y, params["mix"])
        for state, y in ((cos, y_cos), (sin, y_sin))
    ]
    gate = F.silu(output @ params["x"].T)
    inner = [torch.einsum("eh,bhld->bled", params["w1"], state) * gate[..., None] for state in updated]
    return [state + torch.einsum("he,bled->bhld", params["w2"], i) for state, i in zip(updated, inner)]


# The paper's form ------------------------------------------------------------------------


def paper_parameters(hidden=48, dtype=torch.float64, drawn=True, equivariant=True):
    """Of one layer: the mixing acts on the two rows of a pair's matrix, or on all four
    numbers where it is not equivariant. w2 starts as 0."""
    rows = 2 if equivariant else 4
    return {
        "x": 0.3 * torch.randn(hidden, 2, dtype=dtype),
        "w1": 0.3 * torch.randn(hidden, rows, dtype=dtype),
        "w2": (0.3 if drawn else 0.0) * torch.randn(rows, hidden, dtype=dtype),
    }


def as_matrices(z):
    """Pairs' states as matrices [..., 2, 2]: a position's is the rotation by minus its
    angle, of which the product with another's transpose is relative."""
    return torch.stack([torch.stack([z.real, z.imag], -1), torch.stack([-z.imag, z.real], -1)], -2)


def paper_attention(query, key, value, e, causal=True):
    """As `tape`, of states e [B, H, L, d / 2, 2, 2]: the score sums q^T e_q e_k^T k over
    the pairs, where e_q is the state of the query's token."""
    q, k = (torch.view_as_real(_pairs(x)) for x in (query, key))
    scores = torch.einsum("bhita,bhitac,bhjtdc,bhjtd->bhij", q, e, e, k) / math.sqrt(query.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), -math.inf)
    p = scores.softmax(-1)
    return p @ value, torch.einsum("bhij,bhjtac->bhitac", p, e)


def paper_layer(e, contextualised, output, params, attention=True, equivariant=True):
    """One residual around both updates: e + W2 diag(psi(x)) W1 e~. ``output``: of
    attention, [B, H, L, d], whose pairs psi reads. Without ``attention`` e stands for
    e~; without the mixing nothing is added."""
    seen = contextualised if attention else e
    gate = F.silu(torch.view_as_real(_pairs(output)) @ params["x"].T)
    rows = seen if equivariant else seen.flatten(-2)[..., None]
    inner = torch.einsum("er,bhltrc->bhltec", params["w1"], rows) * gate[..., None]
    return e + torch.einsum("re,bhltec->bhltrc", params["w2"], inner).reshape(e.shape)


# In a model ------------------------------------------------------------------------------


def _begin(q, begins):
    """The state before the first layer, whose queries are ``q``."""
    return start(q.shape[2], q.shape[3], dtype=q.dtype, **begins).expand(*q.shape[:2], -1, -1)


class InModel:
    """What `plain_gpt.forward` calls, in the released form: parameters by layer. With
    ``attention`` or ``mlp`` off that update does not act. ``begins``: settings of
    `start`."""

    def __init__(self, params, attention=True, mlp=True, **begins):
        self.params, self.z, self.begins = params, None, begins
        self.attention, self.mlp = attention, mlp

    def attend(self, layer, q, k, v):
        if layer == 0:
            self.z = _begin(q, self.begins)
        out, contextualised, _ = tape(q, k, v, self.z)
        if self.attention:
            self.z = after_attention(self.z, contextualised, self.params[layer]["mix"])
        return out

    def after_mlp(self, layer, output):
        if self.mlp:
            self.z = after_mlp(self.z, output, self.params[layer])


class InPaperModel:
    """As `InModel`, in the paper's form; without ``tensor`` a pair's state is a vector,
    the complex number z, which turns queries and keys and whose update is that of a matrix
    of one row."""

    def __init__(
        self, params, attention=True, mlp=True, equivariant=True, tensor=True, **begins
    ):
        self.params, self.begins, self.tensor = params, begins, tensor
        self.mlp, self.update = mlp, dict(attention=attention, equivariant=equivariant)

    def attend(self, layer, q, k, v):
        if layer == 0:
            z = _begin(q, self.begins)
            self.e = as_matrices(z) if self.tensor else torch.view_as_real(z)[..., None, :]
        if self.tensor:
            out, contextualised = paper_attention(q, k, v, self.e)
        else:
            out, seen, _ = tape(q, k, v, torch.view_as_complex(self.e[..., 0, :].contiguous()))
            contextualised = torch.view_as_real(seen)[..., None, :]
        if self.mlp:
            self.e = paper_layer(self.e, contextualised, out, self.params[layer], **self.update)
        return out

    def after_mlp(self, layer, output):
        pass


class InFullModel:
    """As `InModel`, on the full state, operation by operation as released."""

    def __init__(self, params, **begins):
        self.params, self.begins = params, begins

    def attend(self, layer, q, k, v):
        if layer == 0:
            self.state = full(_begin(q, self.begins))
        out, *self.contextualised = tape_full(q, k, v, *self.state)
        return out

    def after_mlp(self, layer, output):
        self.state = layer_full(*self.state, *self.contextualised, output, self.params[layer])


def _pairs(x):
    """Lanes t and t + d/2 as a complex number."""
    half = x.shape[-1] // 2
    return torch.complex(x[..., :half], x[..., half:])


def _complex(dtype):
    return torch.complex64 if dtype == torch.float32 else torch.complex128
