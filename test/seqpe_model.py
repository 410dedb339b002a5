"""SeqPE (Li et al. 2025) in plain PyTorch, written from the paper and from what its
released code is known to do, for tests to compare with. Nothing here is shared with
Sextant. All is computed in the dtype of the parameters.

A position is a tuple of integers; its digits are those of its coordinates, the first
coordinate (of an image: the row) first, most significant digit first. An encoder reads
them, and its output at a last slot, CLS, is the position's embedding. Projected to a
row per head for queries and one for keys, it acts in attention in one of three forms.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

FORMS = ("bias", "mul", "sum")
REDUCTIONS = ("rows", "released")


@dataclass(frozen=True)
class Encoder:
    """Settings: ``digits`` of one coordinate in ``base``, ``axes`` coordinates."""

    width: int = 32
    heads: int = 2
    digits: int = 5
    base: int = 10
    axes: int = 1
    blocks: int = 2
    causal: bool = True
    epsilon: float = 1e-5

    @property
    def slots(self):
        """Digits of a position; CLS stands behind them."""
        return self.axes * self.digits


# Digits ---------------------------------------------------------------------------


def tokens(settings, positions):
    """[P, slots] digits of positions [P, axes]."""
    if positions.min() < 0 or positions.max() >= settings.base**settings.digits:
        raise ValueError(f"positions have {settings.digits} digits of base {settings.base}")
    powers = settings.base ** torch.arange(settings.digits - 1, -1, -1)
    return (positions[..., None] // powers % settings.base).flatten(-2)


# Encoder --------------------------------------------------------------------------


def parameters(settings, dtype=torch.float64, deviation=0.02):
    """Initial values: normal, biases 0, norms 1. ``deviation`` may be larger in tests, so
    that no part of the network is close to linear."""
    c = settings.width

    def normal(*shape):
        return deviation * torch.randn(shape, dtype=dtype)

    found = {"token": normal(settings.base, c), "place": normal(settings.slots, c), "cls": normal(c)}
    if settings.axes > 1:
        found["axis"] = normal(settings.axes, c)
    shapes = {"qkv": (3 * c, c), "output": (c, c), "up": (4 * c, c), "down": (c, 4 * c)}
    linears = {f"blocks.{i}.{n}": s for i in range(settings.blocks) for n, s in shapes.items()}
    for name, shape in {**linears, "output": (c, c)}.items():
        found[f"{name}.weight"] = normal(*shape)
        found[f"{name}.bias"] = torch.zeros(shape[0], dtype=dtype)
    norms = [f"blocks.{i}.norm{n}" for i in range(settings.blocks) for n in (1, 2)]
    for name in [*norms, "norm"]:
        found[f"{name}.weight"] = torch.ones(c, dtype=dtype)
        found[f"{name}.bias"] = torch.zeros(c, dtype=dtype)
    return found


def encode(settings, params, positions, drop=lambda x, place: x):
    """Embeddings [P, C] of positions [P, axes]. ``drop(x, place)`` is called on what the
    parts of a block, by name, add to the residual stream."""
    digits = tokens(settings, positions)
    x = params["token"][digits] + _places(settings, params)
    x = torch.cat([x, params["cls"].expand(len(x), 1, -1)], 1)
    slots = settings.slots + 1
    visible = torch.ones(slots, slots).bool()
    visible = visible.tril() if settings.causal else visible
    for i in range(settings.blocks):
        prefix = f"blocks.{i}"
        q, k, v = _qkv(settings, params, prefix, x)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~visible, -math.inf)
        out = (scores.softmax(-1) @ v).transpose(1, 2).flatten(-2)
        x = x + drop(_linear(params, out, f"{prefix}.output"), f"{prefix}.output")
        x = x + drop(_mlp(settings, params, prefix, x), f"{prefix}.down")
    return _finish(settings, params, x[:, -1])


def encode_tree(settings, params, positions):
    """The same on the tree of prefixes, each once, and how many there are. With a causal
    mask what a slot holds depends on the digits up to it alone, so positions share it."""
    assert settings.causal
    digits = tokens(settings, positions)
    nodes, paths = [], []  # by depth: nodes [N, depth + 1], and each position's node
    for depth in range(settings.slots):
        node, path = digits[:, : depth + 1].unique(dim=0, return_inverse=True)
        nodes.append(node)
        paths.append(path)
    places = _places(settings, params)
    held = [params["token"][node[:, -1]] + places[depth] for depth, node in enumerate(nodes)]
    cls = params["cls"].expand(len(digits), -1)
    for i in range(settings.blocks):
        prefix = f"blocks.{i}"
        rows = [_qkv(settings, params, prefix, x[:, None]) for x in held]
        rows.append(_qkv(settings, params, prefix, cls[:, None]))

        def step(x, depth, path):
            """A level after the block; ``path``: its nodes at the levels up to it."""
            q = rows[depth][0]
            k, v = (torch.cat([rows[u][n][at] for u, at in enumerate(path)], 2) for n in (1, 2))
            out = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v
            x = x + _linear(params, out.transpose(1, 2).flatten(-2)[:, 0], f"{prefix}.output")
            return x + _mlp(settings, params, prefix, x)

        cls = step(cls, settings.slots, [*paths, torch.arange(len(cls))])
        if i < settings.blocks - 1:  # what digits hold after the last block nobody reads
            below = [_representatives(path) for path in paths]
            held = [
                step(x, depth, [path[below[depth]] for path in paths[: depth + 1]])
                for depth, x in enumerate(held)
            ]
    return _finish(settings, params, cls), sum(map(len, nodes))


def _representatives(path):
    """For each node of a depth, a position below it."""
    found = torch.empty(int(path.max()) + 1, dtype=torch.long)
    found[path] = torch.arange(len(path))
    return found


def _places(settings, params):
    places = params["place"]
    if settings.axes > 1:
        places = places + params["axis"].repeat_interleave(settings.digits, 0)
    return places


def _qkv(settings, params, prefix, x):
    """[P, heads, slots, dim] each."""
    y = _linear(params, _norm(settings, params, x, f"{prefix}.norm1"), f"{prefix}.qkv")
    return [t.unflatten(-1, (settings.heads, -1)).transpose(1, 2) for t in y.chunk(3, -1)]


def _mlp(settings, params, prefix, x):
    inner = F.gelu(_linear(params, _norm(settings, params, x, f"{prefix}.norm2"), f"{prefix}.up"), approximate="tanh")
    return _linear(params, inner, f"{prefix}.down")


def _finish(settings, params, x):
    return _linear(params, _norm(settings, params, x, "norm"), "output")


def _norm(settings, params, x, name):
    weight = params[f"{name}.weight"]
    return F.layer_norm(x, weight.shape, weight, params[f"{name}.bias"], settings.epsilon)


def _linear(params, x, name):
    return F.linear(x, params[f"{name}.weight"], params[f"{name}.bias"])


# Attention ------------------------------------------------------------------------


def project(embeddings, heads, weight=None, bias=None):
    """Rows of queries and of keys, [1, heads, L, d] each, of embeddings [L, C]. With a
    weight [2 heads d, C] (`single` where all layers share it, `multi` where each has its
    own); without one both are the embedding itself (`none`)."""
    both = embeddings.repeat(1, 2) if weight is None else F.linear(embeddings, weight, bias)
    return tuple(t.unflatten(-1, (heads, -1)).transpose(0, 1)[None] for t in both.chunk(2, -1))


def seqpe(query, key, value, eq, ek, form="bias", causal=True):
    """Attention of [B, H, L, d] with e^q, e^k; keys, values and e^k may have fewer heads."""
    heads, queries, keys = query.shape[1], query.shape[2], key.shape[2]
    if form == "mul":
        query, key = query * eq, key * ek
    elif form == "sum":
        query, key = query + eq, key + ek
    key, value, ek = (t.repeat_interleave(heads // t.shape[1], 1) for t in (key, value, ek))
    scores = query @ key.mT
    if form == "bias":
        scores = scores + eq @ ek.mT
    scores = scores / math.sqrt(query.shape[-1])
    if causal:
        hidden = torch.ones(queries, keys).tril(keys - queries) == 0
        scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1) @ value


# Losses ---------------------------------------------------------------------------


def contrastive(pivot, candidates, pivot_at, candidates_at):
    """Which of the candidates is nearest to the pivot: cross entropy of the products of
    embeddings [S, C] and [S, m, C] at positions [S, axes] and [S, m, axes]. Of several
    that are as near the first counts."""
    logits = torch.einsum("sc,smc->sm", pivot, candidates)
    distance = (candidates_at - pivot_at[:, None]).square().sum(-1)
    order = distance * distance.shape[1] + torch.arange(distance.shape[1])
    return F.cross_entropy(logits, order.argmin(-1))


def distillation(teacher, student, heads, sided=1, reduction="rows"):
    """How products among embeddings [S, m, C] of positions that were not trained follow
    those of positions that were, by head. The teacher is not moved. ``sided`` 1 is
    KL(teacher, student), the paper's equation 10; 2 adds KL(student, teacher), as the
    released code does. ``rows`` is the mean over all rows of products, ``released`` over
    all elements, m times smaller."""

    def rows(e):
        e = e.unflatten(-1, (heads, -1)).transpose(1, 2)
        return (e @ e.mT).log_softmax(-1)

    t, s = rows(teacher.detach()), rows(student)
    total = (t.exp() * (t - s)).sum()
    if sided == 2:
        total = total + (s.exp() * (s - t)).sum()
    count, size = s.shape[:-1].numel(), s.shape[-1]
    return total / (count if reduction == "rows" else count * size)


def auxiliary_loss(settings, params, sets, alpha, beta, sided=1, reduction="rows", drop=None):
    """Both losses, weighted. ``sets``: positions [S, axes] of ``pivots`` and [S, m, axes]
    of ``candidates``, ``trained`` and ``beyond``; all are encoded in one call. Without
    ``trained``, on steps whose windows are shifted, there is no distillation."""
    names = [n for n in ("pivots", "candidates", "trained", "beyond") if n in sets]
    flat = torch.cat([sets[n].flatten(0, -2) for n in names])
    encoded = encode(settings, params, flat, *([drop] if drop else []))
    parts = encoded.split([sets[n].shape[:-1].numel() for n in names])
    e = {n: part.reshape(*sets[n].shape[:-1], -1) for n, part in zip(names, parts)}
    total = alpha * contrastive(e["pivots"], e["candidates"], sets["pivots"], sets["candidates"])
    if "trained" in sets:
        total = total + beta * distillation(e["trained"], e["beyond"], settings.heads, sided, reduction)
    return total


# In a model -----------------------------------------------------------------------


class InModel:
    """What `plain_gpt.forward` calls: attention of the layers with given embeddings of
    positions [L, C]. ``projections``: a pair (weight, bias) for all layers, one for each,
    or none."""

    def __init__(self, embeddings, heads, form, projections=()):
        self.embeddings, self.heads, self.form = embeddings, heads, form
        self.projections = projections

    def attend(self, layer, q, k, v):
        pair = self.projections[min(layer, len(self.projections) - 1)] if self.projections else ()
        eq, ek = project(self.embeddings, self.heads, *pair)
        return seqpe(q, k, v, eq, ek, self.form)

    def after_mlp(self, layer, output):
        pass
