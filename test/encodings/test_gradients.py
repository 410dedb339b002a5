"""Encodings against plain PyTorch in float64 (plain_torch.py): output, log-sum-exp
and the gradient of every input and parameter, with and without positions.

The reference computes in f64; constants of a definition are f32, which is 6e-8 of
a constant. The kernels' f32 is compared by test/conformance.
"""

import functools
import math

import plain_torch
import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")

from sextant.uses import Use, parse_use

TOLERANCE = 2e-6


def normal(draw, *shape):
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def indices(length, keys, axes):
    return (torch.arange(length) + keys - length).double()[None, :, None].expand(1, length, axes)


# B, H, Lq, Lk, d. Formulas of distances are true at large ones, too.
SHORT, LONG = (2, 3, 7, 11, 8), (1, 3, 40, 300, 8)


def check(draw, use, plain, params=None, *, positions=None, shape=None, **more):
    """At a short shape, and at a long one if there are no positions of one shape.
    ``positions``: a pair of int32 (B or 1, L, axes)."""
    shapes = [SHORT, LONG] if positions is None else [SHORT]
    for each in [shape] if shape else shapes:
        check_at(each, draw, use, plain, params, positions=positions, **more)


def check_at(shape, draw, use, plain, params, *, is_map=False, causal=True, positions=None,
             **options):  # fmt: skip
    batch, heads, lq, lk, dim = shape
    name = use.split("(")[0]
    leaves = [normal(draw, batch, heads, n, d) for n, d in ((lq, dim), (lk, dim), (lk, dim + 3))]
    params = params or {}
    both = [[t.clone().requires_grad_() for t in (*leaves, *params.values())] for _ in range(2)]
    given = {}
    qpos, kpos = indices(lq, lk, 2), indices(lk, lk, 2)
    if positions is not None:
        given = dict(query_positions=positions[0], key_positions=positions[1])
        qpos, kpos = (p.double() for p in positions)
    uses = ["causal", use] if causal else [use]
    named = {f"{name}.{n}": t for n, t in zip(params, both[0][3:])}
    got = sextant.attention(
        *both[0][:3], uses, named, return_lse=True, target="reference", **given
    )
    own = dict(zip(params, both[1][3:]))
    extra = {**options, **({"params": own} if own else {})}
    how = {"term": functools.partial(plain, **extra)}
    if is_map:
        how = {"rows": functools.partial(plain, kpos=kpos, **extra)}
    want = plain_torch.attention(*both[1][:3], qpos, kpos, causal=causal, **how)
    seeds = [normal(draw, *t.shape) for t in want]
    torch.autograd.backward(got, seeds)
    torch.autograd.backward(want, seeds)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=TOLERANCE, atol=TOLERANCE)
    for label, a, b in zip(["query", "key", "value", *params], *both):
        size = max(1.0, float(b.grad.abs().max()))
        torch.testing.assert_close(
            a.grad, b.grad, rtol=TOLERANCE, atol=TOLERANCE * size,
            msg=lambda m, label=label: f"gradient of {label}: {m}",
        )  # fmt: skip


def grid(draw, length, batch=1, size=9):
    return torch.randint(0, size, (batch, length, 2), generator=draw, dtype=torch.int32)


def along(draw, length, batch=1):
    steps = torch.randint(1, 4, (batch, length, 1), generator=draw)
    return steps.cumsum(1).to(torch.int32)


def spell(name, options):
    return str(Use(name, name, options))


# Terms of the score -----------------------------------------------------------

FIRE = [{}, {"threshold": 4.5, "activation": "leaky_relu", "hidden": 7}, {"threshold": 3.2}]


def fire_params(draw, heads, hidden):
    return {
        "c": normal(draw), "mult": normal(draw), "w1": normal(draw, hidden),
        "b1": normal(draw, hidden), "w2": normal(draw, heads, hidden),
        "b2": normal(draw, heads),
    }  # fmt: skip


@pytest.mark.parametrize("options", FIRE)
@pytest.mark.parametrize("causal", [True, False])
def test_fire(draw, options, causal):
    params = fire_params(draw, 3, options.get("hidden", 32))
    check(draw, spell("fire", options), plain_torch.fire, params, causal=causal, **options)
    positions = (along(draw, 7), along(draw, 11))
    check(draw, spell("fire", options), plain_torch.fire, params, causal=causal,
          positions=positions, **options)  # fmt: skip


def test_fire_bias_is_seen_by_the_log_sum_exp_only(draw):
    """b2 is the same for all keys: the output has no gradient there."""
    params = {f"fire.{n}": t.requires_grad_() for n, t in fire_params(draw, 2, 32).items()}
    x = normal(draw, 1, 2, 9, 8)
    sextant.attention(x, x, x, ["causal", "fire"], params, target="reference").sum().backward()
    assert params["fire.b2"].grad.abs().max() < 1e-12


def test_kerple_multiplicative(draw):
    params = {
        n: torch.rand(3, generator=draw, dtype=torch.float64) + 0.1
        for n in ("r1", "r2", "r3", "r4")
    }
    plain = plain_torch.kerple_multiplicative
    check(draw, "kerple_multiplicative", plain, params)
    check(draw, "kerple_multiplicative", plain, params, causal=False, shape=(1, 3, 9, 5, 8))


@pytest.mark.parametrize("rows, columns", [(7, 7), (3, 5), (1, 9)])
def test_swin(draw, rows, columns):
    options = dict(rows=rows, columns=columns)
    table = {"table": normal(draw, (2 * rows - 1) * (2 * columns - 1), 3)}
    for batch in (1, 2):
        positions = (grid(draw, 7, batch), grid(draw, 11, batch))
        check(draw, spell("swin", options), plain_torch.swin, table, causal=False,
              positions=positions, **options)  # fmt: skip


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shape", [(2, 3, 7, 11, 8), (1, 2, 9, 9, 8)])
def test_forgetting(draw, causal, shape):
    gate = {"gate": 2 * normal(draw, shape[0], shape[1], shape[3])}
    check(draw, "forgetting", plain_torch.forgetting, gate, causal=causal, shape=shape)


def test_forgetting_far(draw):
    """Gates at 0 have the gradient of the sigmoid there; large ones stay finite."""
    gate = {"gate": torch.tensor([0.0, -300.0, 300.0, 0.0, 1.0, 0.0], dtype=torch.float64)}
    gate["gate"] = gate["gate"].reshape(1, 1, 6)
    check(draw, "forgetting", plain_torch.forgetting, gate, shape=(1, 1, 6, 6, 8))


# Row maps ---------------------------------------------------------------------

ROPE = [
    {"scaling": "ntk", "factor": 4.0},
    {"scaling": "ntk_dynamic", "factor": 2.0, "train_length": 5},
    {"scaling": "ntk_dynamic", "factor": 2.0, "train_length": 100, "pairing": "interleaved"},
    {"scaling": "yarn", "factor": 8.0, "train_length": 64},
    {"scaling": "yarn", "factor": 0.5, "train_length": 16},
    {"scaling": "yarn", "factor": 4.0, "train_length": 16, "lanes": 8, "base": 500.0},
]


@pytest.mark.parametrize("options", ROPE)
def test_rope_scalings(draw, options):
    for positions in (None, (along(draw, 7, 2), along(draw, 11, 2))):
        check(draw, spell("rope", options), plain_torch.rope, is_map=True, positions=positions,
              shape=(2, 3, 7, 11, 24), **options)  # fmt: skip


def test_yarn_temperature(draw):
    """The score of the rotated lanes is multiplied by m^2: m on both rows."""
    q, k = normal(draw, 1, 1, 1, 16), normal(draw, 1, 1, 1, 16)
    zeros = torch.zeros(1, 1, 1, dtype=torch.int32)

    def score(use):
        at = dict(query_positions=zeros, key_positions=zeros)
        return sextant.attention(q, k, k, [use], return_lse=True, target="reference", **at)[1]

    for factor, squared in ((2, 1.143), (4, 1.297), (8, 1.459), (16, 1.631), (1, 1), (0.5, 1)):
        yarn = score(f"rope(scaling=yarn, factor={float(factor)}, train_length=512)")
        assert float(yarn / score("rope")) == pytest.approx(squared, abs=6e-4)


def test_yarn_leaves_other_lanes(draw):
    """Lanes that are not rotated have no temperature."""
    q, k = normal(draw, 1, 1, 3, 16), normal(draw, 1, 1, 3, 16)
    q[..., :8] = 0
    use = "rope(scaling=yarn, factor=8.0, train_length=64, lanes=8)"
    got = sextant.attention(q, k, k, [use], target="reference")
    torch.testing.assert_close(got, sextant.attention(q, k, k, [], target="reference"))


@pytest.mark.parametrize("options", [{}, {"scale_base": 16, "pairing": "half"}])
def test_xpos(draw, options):
    for positions in (None, (along(draw, 7, 2), along(draw, 11, 2))):
        check(draw, spell("xpos", options), plain_torch.xpos, is_map=True, positions=positions,
              **options)  # fmt: skip


def test_xpos_far(draw):
    """Among 16384 keys rows are scaled by up to e^20 either way; what f32 makes of
    them is still the decay by the distance alone, forward and backward."""
    queries, keys, dim = 64, 16384, 16
    leaves = [normal(draw, 1, 1, n, dim).float() for n in (queries, keys, keys)]
    both = [[t.to(dtype, copy=True).requires_grad_() for t in leaves]
            for dtype in (torch.float32, torch.float64)]  # fmt: skip
    got = sextant.attention(*both[0], ["causal", "xpos"], target="cpu")

    q, k, v = both[1]
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
    score = torch.zeros(queries, keys, dtype=torch.float64)
    for t in range(dim // 2):
        (a, b), (c, d) = q[0, 0, :, 2 * t : 2 * t + 2].T, k[0, 0, :, 2 * t : 2 * t + 2].T
        angle = distance * 10000.0 ** (-2 * t / dim)
        decay = ((2 * t + 0.4 * dim) / (1.4 * dim)) ** (distance / 512)
        along, across = torch.outer(a, c) + torch.outer(b, d), torch.outer(a, d) - torch.outer(b, c)
        score = score + decay * (along * angle.cos() + across * angle.sin())
    score = (score / math.sqrt(dim)).masked_fill(distance < 0, -math.inf)
    want = torch.softmax(score, -1) @ v
    seed = normal(draw, *want.shape)
    torch.autograd.backward(got, seed.float())
    torch.autograd.backward(want, seed.float().double())
    results = [(got, want), *((a.grad, b.grad) for a, b in zip(*both))]
    for mine, exact in results:
        size = float(exact.detach().abs().max())
        torch.testing.assert_close(mine.double(), exact, rtol=1e-4, atol=2e-5 * size)


def test_xpos_refuses(draw):
    x = normal(draw, 1, 1, 300, 8).float()
    with pytest.raises(sextant.CompileError, match="needs a mask such as causal"):
        sextant.attention(x, x, x, ["xpos"], target="cpu")
    with pytest.raises(sextant.CompileError, match="needs a mask such as causal"):
        sextant.attention(x, x, x, ["xpos", "window(two_sided=true)"], target="cpu")
    sextant.attention(x, x, x, ["xpos", "window"], target="cpu")
    with pytest.raises(sextant.RuntimeError, match="safe range.*300.*256"):
        sextant.attention(x, x, x, ["causal", "xpos(scale_base=4)"], target="cpu")


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_xpos_looks_at_positions(draw, target):
    """The span of the positions given counts, of queries and keys, not their number."""
    x = normal(draw, 2, 1, 9, 8).float()
    uses = ["causal", "xpos(scale_base=4)"]

    def call(query, key):
        given = {"query_positions": query, "key_positions": key}
        out = sextant.attention(x, x, x, uses, target=target, **given)
        assert out.isfinite().all()

    near = torch.arange(9, dtype=torch.int32) * 31 - 100
    far = near.clone()
    far[8] = 156
    call(near, near)
    call(near[None], torch.stack([near, near])[..., None])
    for query, key in ((near, far), (far, near), (far, far)):
        with pytest.raises(sextant.RuntimeError, match="safe range.*257 and 256"):
            call(query, key)
    # Few keys, far from each other; many queries that are close.
    with pytest.raises(sextant.RuntimeError, match="safe range.*100001 and 256"):
        call(near, torch.cat([near[:8], torch.tensor([99900], dtype=torch.int32)]))


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rope_2d(draw, pairing):
    options = {"theta": 50.0, "pairing": pairing}
    for batch in (1, 2):
        check(draw, spell("rope_2d", options), plain_torch.rope_2d, is_map=True, causal=False,
              positions=(grid(draw, 7, batch), grid(draw, 11, batch)), **options)  # fmt: skip


def test_rope_2d_mixed(draw):
    freqs = {"freqs": normal(draw, 2, 3, 4)}
    for batch in (1, 2):
        check(draw, "rope_2d_mixed", plain_torch.rope_2d_mixed, freqs, is_map=True, causal=False,
              positions=(grid(draw, 7, batch), grid(draw, 11, batch)))  # fmt: skip


def test_initial_frequencies():
    """Magnitudes are the axial ones; each half of the pairs has one direction, at
    right angles to the other's."""
    freqs = sextant.init_params(["rope_2d_mixed"], heads=3, head_dim=16, seed=0)
    x, y = freqs["rope_2d_mixed.freqs"].double()
    want = 10.0 ** (-torch.arange(4) / 4).double()
    torch.testing.assert_close(torch.hypot(x, y), want.repeat(2).expand(3, 8), rtol=1e-6, atol=0)
    direction = torch.atan2(y, x)
    turn = torch.remainder(direction[:, 4:] - direction[:, :4], 2 * math.pi)
    torch.testing.assert_close(turn, torch.full_like(turn, math.pi / 2), rtol=1e-5, atol=0)


# Axes, lanes of a block, whether heads differ, the worth of a step; 10 lanes a row.
TURNS = [(2, 0, False, 0.1), (2, 4, True, 0.05), (1, 3, False, 0.02), (3, 5, True, 0.1), (1, 1, False, 1.0)]


@pytest.mark.parametrize("axes, block, per_head, unit", TURNS)
def test_liere(draw, axes, block, per_head, unit):
    options = {"axes": axes, "block": block, "per_head": per_head, "unit": unit}
    use = spell("liere", options)
    size = block or 10
    shape = (axes, 3 if per_head else 1, 10 // size, size, size)
    params = {"gen": 2 * math.pi * torch.rand(shape, generator=draw, dtype=torch.float64)}
    for batch in (1, 2):
        positions = tuple(
            torch.randint(0, 9, (batch, n, 3), generator=draw, dtype=torch.int32)
            for n in (7, 11)
        )
        check(draw, use, plain_torch.liere, params, is_map=True, causal=False,
              positions=positions, shape=(2, 3, 7, 11, 10), **options)  # fmt: skip
    if axes == 1:
        check(draw, use, plain_torch.liere, params, is_map=True, shape=(2, 3, 7, 11, 10),
              **options)  # fmt: skip


# Parameters of grids' maps for 3 heads of 8 lanes, and the axes that they read.
OF_GRIDS = {
    "rope_2d": (plain_torch.rope_2d, {}, 2),
    "rope_2d_mixed": (plain_torch.rope_2d_mixed, {"freqs": (2, 3, 4)}, 2),
    "liere": (plain_torch.liere, {"gen": (2, 1, 1, 8, 8)}, 2),
    "liere(axes=1)": (functools.partial(plain_torch.liere, axes=1), {"gen": (1, 1, 1, 8, 8)}, 1),
}


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("use", OF_GRIDS)
def test_negative_coordinates_are_outside_a_grid_where_that_is_asked(draw, use, outside):
    """One of two is enough. Elsewhere grids have their origin where they like."""
    plain, shapes, axes = OF_GRIDS[use]
    params = {name: 0.1 * normal(draw, *shape) for name, shape in shapes.items()}
    positions = tuple(
        torch.randint(-3, 6, (2, n, axes), generator=draw, dtype=torch.int32) for n in (7, 11)
    )
    parsed = parse_use(use)
    spelled = spell(parsed.encoding, {**parsed.options, "outside": outside})
    check(draw, spelled, plain, params, is_map=True, causal=False, positions=positions,
          outside=outside)  # fmt: skip


def test_initial_generators():
    gen = sextant.init_params(["liere(per_head=true)"], heads=3, head_dim=16, seed=0)["liere.gen"]
    assert gen.shape == (2, 3, 1, 16, 16)
    assert 0 <= gen.min() < 0.3 and 6.0 < gen.max() <= 2 * math.pi
    gen = sextant.init_params(["liere(block=8, axes=1)"], heads=3, head_dim=20, seed=0)["liere.gen"]
    assert gen.shape == (1, 1, 2, 8, 8)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_liere_of_one_axis_sees_differences(draw, target):
    """exp(p A)^T exp(q A) = exp((q - p) A): a shift of all positions changes nothing."""
    params = {"liere.gen": torch.rand(1, 1, 1, 16, 16, generator=draw)}
    rows = [normal(draw, 2, 2, 9, 16).float() for _ in range(3)]
    uses, start = ["liere(axes=1, unit=0.1)"], along(draw, 9)
    results = []
    for shift in (0, 117):
        given = {f"{side}_positions": start + shift for side in ("query", "key")}
        results.append(sextant.attention(*rows, uses, params, target=target, **given))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


def on_a_grid(length):
    """Positions of tokens on a grid of two columns."""
    index = torch.arange(length)
    cells = torch.stack([index // 2, index % 2], -1)[None]
    return dict(query_positions=cells, key_positions=cells)


def test_liere_refuses(draw):
    q, k = normal(draw, 1, 4, 5, 8).float(), normal(draw, 1, 2, 5, 8).float()

    how = dict(enable_gqa=True, target="cpu", **on_a_grid(5))

    def call(use, q=q, heads=4):
        params = sextant.init_params([use], heads=heads, head_dim=8, seed=1)
        return sextant.attention(q, k, k, [use], params, **how)

    call("liere")
    with pytest.raises(sextant.RuntimeError, match="grouped queries"):
        call("liere(per_head=true)")
    with pytest.raises(sextant.CompileError, match="comes before other row maps"):
        params = sextant.init_params(["liere"], heads=4, head_dim=8, seed=1)
        sextant.attention(q, k, k, ["rope", "liere"], params, **how)
    sextant.attention(q, k, k, ["liere", "rope"], params, **how)


def test_grouped_queries_need_a_shared_map(draw):
    q, k = normal(draw, 1, 4, 5, 8).float(), normal(draw, 1, 2, 5, 8).float()
    how = dict(enable_gqa=True, target="cpu", **on_a_grid(5))
    params = sextant.init_params(["rope_2d_mixed"], heads=4, head_dim=8, seed=1)
    with pytest.raises(sextant.RuntimeError, match="grouped queries"):
        sextant.attention(q, k, k, ["rope_2d_mixed"], params, **how)
    sextant.attention(q, k, k, ["rope_2d"], **how)
