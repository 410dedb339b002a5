"""Softmax and its gradient at any scale of the scores.

A backward that makes other scores than its forward, or takes them off a rounded
log-sum-exp, has probabilities whose sum is not 1; the error grows with the scores.
"""

import math

import pytest
import torch
from numeric_contract import DRAWS, Comparison, neighbour
from plain_attention import attention, causal, gradients
from targets import AMX, available, runnable

import sextant

pytest.importorskip("sextant._compiler")

LENGTH, DIM = 129, 64
ULP = 2.0**-23


@pytest.fixture(params=["cpu:avx2", "cpu:avx512", runnable(AMX)])
def target(request):
    if not available(request.param):
        pytest.skip(f"this machine cannot run {request.param}")
    return request.param


def alibi(s, i, j):
    slopes = 2.0 ** -torch.tensor([4.0, 8.0], dtype=s.dtype)[:, None, None]
    return s - slopes * (i - j).abs()


def kerple_log(s, i, j):
    return s - 0.7 * torch.log1p(0.3 * (i - j).abs().to(s.dtype))


def softcap(s, i, j):
    return 500.0 * torch.tanh(s / 500.0)


def kerple_multiplicative(s, i, j):
    d = (i - j).abs().to(s.dtype)
    return s * torch.exp(-0.01 * d) - 0.5 * d


KERPLE = {"r1": 0.7, "r2": 0.3}
# Uses, parameters, and what plain attention takes.
CASES = {
    "plain": (["causal"], {}, {}),
    "alibi": (["causal", "alibi"], {}, {"score": alibi}),
    "kerple_log": (["causal", "kerple_log"], KERPLE, {"score": kerple_log}),
    "kerple_multiplicative": (
        ["causal", "kerple_multiplicative"],
        {"r1": 0.5, "r2": 1.0, "r3": 0.01, "r4": 1.0},
        {"score": kerple_multiplicative},
    ),
    "softcap": (["causal", "softcap(cap=500.0)"], {}, {"score": softcap}),
    "rope": (["causal", "rope"], {}, {"rope": True}),
}


def params_of(name):
    given = CASES[name][1]
    return {f"{name}.{n}": torch.full((2,), float(v)) for n, v in given.items()}


def drawn(deviation, dtype=torch.float32):
    """Query, key, value, and gradients of output and log-sum-exp."""
    root = math.sqrt(deviation)
    rows = [torch.randn(1, 2, LENGTH, DIM) for _ in range(3)]
    rows = [(root * t if n < 2 else t).to(dtype) for n, t in enumerate(rows)]
    return rows, [torch.randn(1, 2, LENGTH, DIM).to(dtype), torch.randn(1, 2, LENGTH)]


def named(stored, found):
    names = ("output", "lse", "d query", "d key", "d value")
    return dict(zip(names, [t.detach() for t in (*stored, *found)]))


def kernel(name, rows, grads, target):
    leaves = [t.detach().requires_grad_() for t in rows]
    uses, params = CASES[name][0], params_of(name)
    stored = sextant.attention(*leaves, uses, params, return_lse=True, target=target)
    return named(stored, gradients(leaves, lambda: stored, *grads))


def plain(name, rows, grads, dtype):
    leaves = [t.detach().to(dtype).requires_grad_() for t in rows]
    stored = attention(*leaves, mask=causal, **CASES[name][2])
    return named(stored, gradients(leaves, lambda: stored, *(g.to(dtype) for g in grads)))


@pytest.mark.parametrize("deviation", [1, 10, 30, 100])
@pytest.mark.parametrize("name", CASES)
def test_contract(name, deviation, target):
    """C7, forward and backward as one."""
    rows, grads = drawn(deviation)
    comparison = Comparison(torch.float32)
    for draw in range(DRAWS):
        moved = [neighbour(t, t.dtype, draw).to(t.dtype) if draw else t for t in rows]
        got = kernel(name, moved, grads, target)
        theirs = plain(name, moved, grads, torch.float32)
        comparison.add(got, theirs, plain(name, moved, grads, torch.float64))
        if comparison.holds():
            break
    comparison.check(f"{name} with scores of deviation {deviation} on {target}:")


def probabilities(uses, rows, params, target):
    """P as the forward and as the backward has it: the output, and the gradient of the
    values, of a product with the unit matrix."""
    query, key = rows
    heads, length = query.shape[1], query.shape[2]
    unit = torch.eye(length).expand(1, heads, length, length)
    value = unit.clone().requires_grad_()
    output, _ = sextant.attention(query, key, value, uses, params, return_lse=True, target=target)
    output.backward(unit)
    return output.detach(), value.grad.transpose(-1, -2)


@pytest.mark.parametrize("deviation", [1, 100, 1e4, 1e8])
@pytest.mark.parametrize("name", CASES)
def test_backward_has_the_probabilities_of_the_forward(name, deviation, target):
    """Within the roundings of a quotient and of an exponent, of which both have two or
    three, and sums of 1 within 4 ulp (of 2160 draws the worst had 2.8)."""
    rows = drawn(deviation)[0][:2]
    forward, backward = probabilities(CASES[name][0], rows, params_of(name), target)
    exponent = forward.clamp(min=2.0**-126).log2().abs()
    allowed = (4 + exponent) * ULP * forward + 2.0**-120
    assert ((forward - backward).abs() <= allowed).all()
    assert ((backward.double().sum(-1) - 1).abs() <= 4 * ULP).all()


@pytest.mark.parametrize("deviation", [1e4, 1e8])
def test_gradients_at_huge_scores(deviation, target):
    """Right where scores are so large that f32 tells few of them apart: as near to
    float64 as PyTorch's own kernel."""
    rows, (output_grad, lse_grad) = drawn(deviation)
    grads = [output_grad, torch.zeros_like(lse_grad)]
    comparison = Comparison(torch.float32)
    for draw in range(DRAWS):
        moved = [neighbour(t, t.dtype, draw).to(t.dtype) if draw else t for t in rows]
        leaves = [t.detach().requires_grad_() for t in moved]
        output = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
        stored = (output, plain("plain", moved, grads, torch.float32)["lse"])
        theirs = named(stored, gradients(leaves, lambda: stored, *grads))
        exact = plain("plain", moved, grads, torch.float64)
        comparison.add(kernel("plain", moved, grads, target), theirs, exact)
        if comparison.holds():
            break
    comparison.check(f"scores of deviation {deviation:g} on {target}:")


@pytest.mark.parametrize("score", [-1e30, -3e38, 1e30], ids=str)
def test_hidden_is_a_fact_of_the_mask(score, target):
    """A row whose visible keys all have the least scores that f32 has is a row that
    sees keys, here as in the reference; a key is hidden by its mask alone."""
    query = torch.ones(1, 1, 6, 16)
    key = torch.full((1, 1, 6, 16), score / 16)
    value = torch.randn(1, 1, 6, 16)
    results = {}
    for name in (target, "reference"):
        leaves = [t.clone().requires_grad_() for t in (query, key, value)]
        output, lse = sextant.attention(
            *leaves, ["causal"], return_lse=True, scale=0.5, target=name
        )
        output.sum().backward()
        results[name] = [output.detach(), lse.detach(), leaves[2].grad]
    for got, want in zip(results[target], results["reference"]):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)
    assert torch.isfinite(results[target][1]).all()
