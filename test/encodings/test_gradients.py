"""Encodings against plain PyTorch in float64 (plain_torch.py): output, log-sum-exp
and the gradient of every input and parameter, with and without positions.

The reference computes in f64; constants of a definition are f32, which is 6e-8 of
a constant. The kernels' f32 is compared by test/conformance.
"""

import functools
import random

import plain_torch
import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")

TOLERANCE = 2e-6


@pytest.fixture
def draw():
    seed = random.randrange(2**31)
    print(f"seed {seed}")
    return torch.Generator().manual_seed(seed)


def normal(draw, *shape):
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def indices(length, keys, axes):
    return (torch.arange(length) + keys - length).double()[None, :, None].expand(1, length, axes)


def check(draw, use, plain, params=None, *, is_map=False, causal=True, positions=None,
          shape=(2, 3, 7, 11, 8), **options):  # fmt: skip
    """``shape``: B, H, Lq, Lk, d; ``positions``: a pair of int32 (B or 1, L, axes)."""
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
    return f"{name}({', '.join(f'{k}={v}' for k, v in options.items())})"


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


# Row maps ---------------------------------------------------------------------

@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rope_2d(draw, pairing):
    options = {"theta": 50.0, "pairing": pairing}
    for batch in (1, 2):
        check(draw, spell("rope_2d", options), plain_torch.rope_2d, is_map=True, causal=False,
              positions=(grid(draw, 7, batch), grid(draw, 11, batch)), **options)  # fmt: skip


# Invariances ------------------------------------------------------------------

RELATIVE = ["rope_2d", "swin", "kerple_multiplicative"]


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("use", RELATIVE)
def test_shift(draw, use, target):
    """Positions moved together give the same result."""
    dtype = torch.float64 if target == "reference" else torch.float32
    q, k, v = (normal(draw, 1, 2, 12, 16).to(dtype) for _ in range(3))
    params = sextant.init_params([use], heads=2, head_dim=16, seed=1)
    params = {n: t.to(dtype) for n, t in params.items()}
    here = grid(draw, 12)
    moved = here + torch.tensor([5, 11], dtype=torch.int32)
    first, second = (
        sextant.attention(
            q, k, v, ["causal", use], params, target=target, query_positions=p, key_positions=p
        )
        for p in (here, moved)
    )
    tolerance = 1e-9 if target == "reference" else 2e-5
    torch.testing.assert_close(first, second, rtol=tolerance, atol=tolerance)
