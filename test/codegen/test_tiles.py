"""Products on a matrix unit of bf16 (AMX): the unit and what stands for it elsewhere, what
the caller finds afterwards, and products of f32 as those of terms. That results are right
is held by tests of all targets, such as conformance/test_encodings.py::test_bf16_in_tiles
and ::test_f32_in_tiles."""

import math

import pytest
import targets
import torch
from threads import threads

import sextant

pytest.importorskip("sextant._compiler")

BF16, F32 = torch.bfloat16, torch.float32
DTYPES = pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
# batch, heads, kv heads, queries, keys, head dim, value dim
SHAPES = [
    (1, 1, 1, 1, 1, 16, 16),
    (2, 2, 1, 63, 65, 40, 24),
    (1, 4, 2, 129, 129, 64, 64),
    (1, 2, 1, 300, 300, 128, 80),
    (1, 1, 1, 70, 70, 256, 20),
]
# Scores of all heads have kernels of their own.
USES = [[], ["causal", "alibi"], ["causal", "t5_bias"], ["causal", "talking_heads"]]


def results(shape, uses, target, dtype, seed):
    """Log-sum-exp, output, gradients of rows and of parameters."""
    draw = torch.Generator().manual_seed(seed)
    batch, heads, kv_heads, queries, keys, dim, value_dim = shape
    extents = [(heads, queries, dim), (kv_heads, keys, dim), (kv_heads, keys, value_dim)]
    rows = [torch.randn(batch, *e, generator=draw).to(dtype).requires_grad_() for e in extents]
    params = sextant.init_params(uses, heads=heads, head_dim=dim, seed=1, requires_grad=True)
    output, lse = sextant.attention(
        *rows, uses, params, return_lse=True, enable_gqa=True, target=target
    )
    gradient = torch.randn(output.shape, generator=draw).to(dtype)
    trained = [p for p in params.values() if p.requires_grad]
    return [lse, output, *torch.autograd.grad(output, [*rows, *trained], gradient)]


@DTYPES
@pytest.mark.parametrize("uses", USES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_emulated_unit_does_what_the_real_one_does(shape, uses, dtype, seed):
    """Products have the same bits. LLVM fuses other terms of what is around them for other
    vectors, and without an instruction for 2^n exponentials have another series, which is as
    near: a logarithm is off by its last bit, and some numbers are rounded to the bf16 beside
    theirs (of each of 400 draws at most 1.3 %)."""
    targets.require(targets.AMX)
    unit, emulated = targets.AMX, targets.EMULATED_AMX
    got, want = (results(shape, uses, t, dtype, seed) for t in (unit, emulated))
    torch.testing.assert_close(got[0], want[0], rtol=4e-7, atol=1e-6)
    step = 2.0**-7 if dtype == BF16 else 2.0**-20
    for number, (a, b) in enumerate(zip(got[1:], want[1:])):
        assert a.dtype != BF16 or (a != b).float().mean() <= 0.03
        # One key has dS = 0, of which roundings are left. A parameter's gradient sums up those
        # of all queries, each of products of dP, of up to four deviations of 4, with scores.
        floor = 2.0**-20 if number < 4 else 2.0**-16 * math.sqrt(shape[3])
        torch.testing.assert_close(a, b, rtol=0, atol=step * b.abs().max().item() + floor)


@DTYPES
@pytest.mark.parametrize("uses", [["causal", "alibi"], ["causal", "dape(kerple_log)"]], ids=str)
def test_threads_do_not_matter(uses, dtype, seed):
    """C9."""
    target = targets.runnable(targets.AMX)
    shape = (2, 4, 2, 300, 300, 64, 48)
    first = results(shape, uses, target, dtype, seed)
    for count in (2, 3, 7):
        with threads(count):
            again = results(shape, uses, target, dtype, seed)
        assert all(torch.equal(a, b) for a, b in zip(first, again))


@pytest.mark.parametrize("uses", [[], ["talking_heads"]], ids=str)
def test_scores_of_bf16_are_the_same_in_both_directions(uses, seed):
    """Among scores of 1e8, of which f32 knows those that are 8 apart, a backward whose
    scores had other last bits would have sums of P far from 1. P is rounded to bf16."""
    torch.manual_seed(seed)
    query, key = (torch.randn(1, 4, 100, 64).to(BF16) for _ in range(2))
    value = torch.randn(1, 4, 100, 16).to(BF16).requires_grad_()
    params = sextant.init_params(uses, heads=4, head_dim=64, seed=1)
    output = sextant.attention(
        query, key, value, uses, params, scale=1e7, target=targets.runnable(targets.AMX)
    )
    output.backward(torch.ones_like(output))
    sums = value.grad.double().sum(-2)
    torch.testing.assert_close(sums, torch.full_like(sums, 100.0), rtol=2.0**-7, atol=0)


@sextant.mask
def diagonal(at):
    return at.key == at.query


@pytest.mark.parametrize("exponent", [0, -40, 40])
def test_a_product_of_terms_is_one_of_f32(exponent, seed):
    """A row that sees one key has its score as log-sum-exp. Beside what a sum of f32 may be
    off by, a few units of 2^-24 of its terms' magnitudes, is the rounding of the score in
    base 2 and back. Without the third terms it would be off by 2^-17 of them."""
    torch.manual_seed(seed)
    wide = 2.0 ** torch.randint(-20, 1, (1, 4, 300, 96))  # magnitudes of elements
    query, key = torch.randn(1, 4, 300, 96) * wide * 2.0**exponent, torch.randn(1, 4, 300, 96)
    key *= 2.0**-exponent

    _, lse = sextant.attention(
        query, key, key, [diagonal], scale=1.0, return_lse=True, target=targets.runnable(targets.AMX)
    )
    products = query.double() * key.double()
    off = (lse.double() - products.sum(-1)).abs() / products.abs().sum(-1)
    assert off.max() <= 8 * 2.0**-24
    assert off.max() > 0  # none is exact


def test_tiles_of_the_caller(seed):
    """PyTorch multiplies bf16 on the same unit, in other shapes."""
    targets.require(targets.AMX)
    torch.manual_seed(seed)
    a, b = torch.randn(70, 200).to(BF16), torch.randn(200, 90).to(BF16)
    before = a @ b
    results((1, 2, 2, 100, 100, 64, 64), [], targets.AMX, BF16, seed)
    assert torch.equal(a @ b, before)
