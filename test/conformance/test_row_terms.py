"""Terms of the score that are the same for all keys of a row.

They cancel in the softmax and leave the score for the log-sum-exp; in the
``*_kept`` forms a condition on the key, which always holds, keeps them in it.
"""

import pytest
import torch
from cases import Case, compare

import sextant

ROWS = 128


@sextant.encoding
def row_bias(score, at, table: sextant.Param("heads", 128), level: sextant.PerHead):
    return score + table[at.head, at.query] - level[at.head]


@sextant.encoding
def row_bias_kept(score, at, table: sextant.Param("heads", 128), level: sextant.PerHead):
    bias = table[at.head, at.query] - level[at.head]
    return score + sextant.where(at.key >= 0, bias, 0.0)


@sextant.encoding
def row_slope(score, at, slope: sextant.PerHead):
    return score + slope[at.head] * at.coord("query")


@sextant.encoding
def row_slope_kept(score, at, slope: sextant.PerHead):
    return score + sextant.where(at.key >= 0, slope[at.head] * at.coord("query"), 0.0)


@sextant.encoding
def mixed(score, at, table: sextant.Param("heads", 128)):
    """The same parameter in a row term and in a term that stays."""
    bias = table[at.head, at.query]
    return score + bias * at.key * 0.01 + bias


@sextant.encoding
def mixed_kept(score, at, table: sextant.Param("heads", 128)):
    bias = table[at.head, at.query]
    return score + bias * at.key * 0.01 + sextant.where(at.key >= 0, bias, 0.0)


PAIRS = [(row_bias, row_bias_kept), (row_slope, row_slope_kept), (mixed, mixed_kept)]

SHAPES = [
    dict(query=33, key=33),
    dict(query=1, key=65),
    dict(query=100, key=100, heads=6, kv_heads=2, dim=24, value_dim=8),
    dict(query=70, key=21),  # causal: rows that see no key
    dict(query=40, key=40, positions=True),
]


def draw(encoding, generator, query, key, heads=2, kv_heads=2, dim=16, value_dim=16, positions=False):
    def random(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).float().double()

    leaves = dict(
        query=random(2, heads, query, dim),
        key=random(2, kv_heads, key, dim),
        value=random(2, kv_heads, key, value_dim),
    )
    shapes = {"table": (heads, ROWS), "level": (heads,), "slope": (heads,)}
    names = [p.name.split(".")[1] for p in sextant.definitions.signature([encoding]).params]
    params = {name: random(*shapes[name]) for name in names}
    grads = random(2, heads, query, value_dim), random(2, heads, query)
    given = {}
    if positions:
        for side, length in (("query", query), ("key", key)):
            steps = torch.randint(1, 4, (2, length, 1), generator=generator)
            given[f"{side}_positions"] = steps.cumsum(1).to(torch.int32)
    return leaves, params, grads, given


def run(encoding, inputs, target, dtype, after=(), use_lse=True, use_output=True):
    leaves, params, (output_grad, lse_grad), given = inputs
    leaves = {n: t.detach().to(dtype, copy=True).requires_grad_() for n, t in leaves.items()}
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    params = {n: t.detach().to(compute, copy=True).requires_grad_() for n, t in params.items()}
    output, lse = sextant.attention(
        *leaves.values(),
        ["causal", encoding, *after],
        {f"{encoding.name}.{n}": t for n, t in params.items()},
        return_lse=True,
        enable_gqa=True,
        target=target,
        **given,
    )
    results = [(output, output_grad.to(dtype))] if use_output else []
    if use_lse:
        results.append((lse, lse_grad.to(compute)))
    torch.autograd.backward(*zip(*results))
    tensors = {"output": output, "lse": lse, **{n: t.grad for n, t in {**leaves, **params}.items()}}
    return {n: t.detach().double() for n, t in tensors.items()}


# Tolerances. The reference in f64: 1e-10 for sums over 100 keys of terms up to 300
# (a slope of 3 times a coordinate of 100), each rounded at 1e-16 of its size. f32:
# scores of that size are rounded at 2e-5, and gradients of parameters sum up to
# 2 * 100 * 100 such terms, whose errors mostly cancel: 1e-3.
def agree(got, want, atol):
    for name, tensor in want.items():
        torch.testing.assert_close(got[name], tensor, atol=atol, rtol=atol, msg=lambda m: f"{name}: {m}")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p[0].name)
@pytest.mark.parametrize("use_lse", [True, False], ids=["lse", "output-only"])
def test_dropped_equals_kept_in_the_reference(pair, shape, use_lse, seed):
    inputs = draw(pair[0], torch.Generator().manual_seed(seed), **shape)
    got, want = (run(e, inputs, "reference", torch.float64, use_lse=use_lse) for e in pair)
    agree(got, want, 1e-10)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p[0].name)
@pytest.mark.parametrize("use_lse", [True, False], ids=["lse", "output-only"])
def test_kernels_match_the_reference(pair, shape, use_lse, f32_target, seed):
    inputs = draw(pair[0], torch.Generator().manual_seed(seed), **shape)
    want = run(pair[1], inputs, "reference", torch.float64, use_lse=use_lse)
    agree(run(pair[0], inputs, f32_target, torch.float32, use_lse=use_lse), want, 1e-3)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_gradient_of_a_dropped_term(target, seed):
    """Through the output exactly nothing; through lse the sum of its gradient over
    the rows that see a key, each of which moves by the term."""
    shape = dict(query=70, key=21)
    inputs = draw(row_bias, torch.Generator().manual_seed(seed), **shape)
    through_output = run(row_bias, inputs, target, torch.float32, use_lse=False)
    assert (through_output["table"] == 0).all() and (through_output["level"] == 0).all()

    got = run(row_bias, inputs, target, torch.float32, use_output=False)
    hidden = shape["query"] - shape["key"]
    assert (got["lse"][:, :, :hidden] == -torch.inf).all()
    assert (got["output"][:, :, :hidden] == 0).all()
    want = torch.zeros(2, ROWS, dtype=torch.float64)
    want[:, : shape["key"]] = inputs[2][1][:, :, hidden:].sum(0)
    torch.testing.assert_close(got["table"], want, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got["level"], -want.sum(-1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_a_soft_cap_sees_the_term(target, seed):
    """Before a soft cap the term has a part in the output, and keeps it."""
    inputs = draw(row_bias, torch.Generator().manual_seed(seed), query=33, key=33)
    cap = ("softcap(cap=2)",)
    want = run(row_bias_kept, inputs, "reference", torch.float64, after=cap)
    got = run(row_bias, inputs, target, torch.float32, after=cap)
    agree(got, want, 1e-4)
    plain = run(row_bias, inputs, target, torch.float32)
    assert not torch.allclose(got["output"], plain["output"], atol=1e-3)
    assert want["table"].abs().max() > 1e-3


@pytest.mark.parametrize(
    "after", [("fire(hidden=4)",), ("other=forgetting", row_bias)], ids=["level", "two-sums"]
)
def test_running_sums_beside_terms(after, f32_target, seed):
    """Kernels of running sums make nothing beside them."""
    case = Case("forgetting", query=34, key=40, before=("past=causal",), after=after)
    compare(case, f32_target, torch.float32, seed)


def test_bf16_rows(cpu_target, seed):
    """With products of bf16, too: within what rounding q, k and P to bf16 gives."""
    inputs = draw(mixed, torch.Generator().manual_seed(seed), query=100, key=100)
    want = run(mixed_kept, inputs, cpu_target, torch.bfloat16)
    agree(run(mixed, inputs, cpu_target, torch.bfloat16), want, 5e-2)
