"""The CPU backward against float64, in every shape that it claims to take.

Tolerance (C7): twice the error of plain PyTorch in the same type on the same
input, plus 1e-6 (f32) or 1e-3 (bf16), relative to the largest gradient where that
is above 1. Three facts about the input of a backward are added to that:

* The lse is f32 (C8): half a unit in its last place moves every P of its row, and
  with it what the rows of Q and K, however long, are multiplied by.
* The output is given in its own type. Its rounding by bf16 acts on the gradients
  as a gradient of the lse does, and the float64 reference has it too.
* The gradient of a parameter is one sum over all scores. The largest error of a
  handful of sums is a noisy measure: it may be four times that of PyTorch, and
  roundings add up like the square root of the number of rows.
"""

import pytest
import torch
from plain_attention import attention, causal, gradients
from targets import available

import sextant

pytest.importorskip("sextant._compiler")

FLOOR = {torch.float32: 1e-6, torch.bfloat16: 1e-3}
F32, BF16 = torch.float32, torch.bfloat16
# The kernels of f32 are the same with and without dot products of bf16.
KERNELS = [
    ("cpu:avx2", F32),
    ("cpu:avx512", F32),
    ("cpu:avx2", BF16),
    ("cpu:avx512", BF16),
    ("cpu:avx512bf16", BF16),
]

# batch, heads, kv heads, queries, keys, head dim, value dim
SHAPES = [
    (1, 1, 1, 1, 1, 16, 16),
    (2, 2, 1, 63, 65, 40, 24),
    (1, 4, 2, 129, 129, 64, 64),
    (1, 2, 2, 1000, 1000, 64, 64),
    (1, 2, 1, 130, 64, 80, 128),
    (2, 1, 1, 5, 300, 128, 40),
    (1, 6, 2, 70, 70, 256, 20),
    (1, 2, 2, 64, 128, 18, 7),
]


@pytest.fixture(params=KERNELS, ids=lambda kernel: f"{kernel[0]}-{kernel[1]}")
def kernel(request):
    target, dtype = request.param
    if not available(target):
        pytest.skip(f"this machine cannot run {target}")
    return target, dtype


@pytest.fixture(params=["cpu:avx2", "cpu:avx512"])
def target(request):
    if not available(request.param):
        pytest.skip(f"this machine cannot run {request.param}")
    return request.param


def operands(shape, dtype=F32, factor=1.0):
    """Query, key, value with awkward strides, and gradients of output and lse."""
    b, h, hk, lq, lk, d, dv = shape
    q = factor * torch.randn(b, lq, h, d).transpose(1, 2)
    k = factor * torch.randn(b, hk, d, lk).transpose(2, 3)
    v = torch.randn(b, hk, 2 * lk, dv)[:, :, ::2]
    rows = [t.to(dtype) for t in (q, k, v)]
    return rows, torch.randn(b, h, lq, dv).to(dtype), torch.randn(b, h, lq)


def compare(
    rows, grads, target, encodings=(), params=None, score=None, given=None, **settings
):
    """Gradients of sextant.attention, plain PyTorch and float64 on the same input.

    `score(params)` gives the score function of the plain versions, `given` what
    else sextant.attention takes.
    """
    params = params or {}
    dtype = rows[0].dtype
    exact_rows = [t.double() for t in rows]

    def plain(leaves):
        named = dict(zip(params, leaves[3:]))
        function = score(named) if score else None
        return attention(*leaves[:3], score=function, **settings)

    def ours(leaves):
        named = dict(zip(params, leaves[3:]))
        return sextant.attention(
            *leaves[:3],
            encodings,
            named,
            return_lse=True,
            target=target,
            **(given or {}),
        )

    def run(call, rows, do, dlse, convert=lambda t: t):
        leaves = [t.detach().requires_grad_() for t in rows]
        leaves += [convert(t).detach().requires_grad_() for t in params.values()]
        return gradients(leaves, lambda: call(leaves), do, dlse)

    do, dlse = grads
    exact_params = [t.double() for t in params.values()]
    out, lse = plain([*exact_rows, *exact_params])
    rounding = ((out.to(dtype).double() - out) * do.double()).sum(-1)
    exact_grads = do.double(), dlse.double()
    given_grads = do.double(), dlse.double() - rounding
    got = run(ours, rows, do, dlse)
    theirs = run(plain, rows, do, dlse)
    exact = run(plain, exact_rows, *exact_grads, torch.Tensor.double)
    given = run(plain, exact_rows, *given_grads, torch.Tensor.double)
    largest = lse.masked_fill(lse.isinf(), 0.0).abs().max().item()
    reach = max(1.0, *(t.abs().max().item() for t in exact_rows))
    for i, name in enumerate(["query", "key", "value", *params]):
        size = max(1.0, exact[i].abs().max().item())
        floor = FLOOR[dtype] + 2.0**-24 * largest * reach
        factor = 2
        if i >= 3:
            factor, floor = 4, floor * (rows[0].shape[0] * rows[0].shape[2]) ** 0.5
        error = (got[i].double() - given[i]).abs().max().item()
        plain_error = (theirs[i].double() - exact[i]).abs().max().item()
        allowed = factor * plain_error + floor * size
        assert error <= allowed, f"gradient of {name}: {error:.2e} > {allowed:.2e}"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["full", "causal"])
def test_shapes(shape, masked, kernel):
    target, dtype = kernel
    rows, *grads = operands(shape, dtype)
    mask = causal if masked else None
    compare(rows, grads, target, ["causal"] if masked else [], mask=mask)


def kerple(params):
    r1, r2 = (params[f"kerple_log.{name}"][:, None, None] for name in ("r1", "r2"))
    return lambda s, i, j: s - (r1 * torch.log1p(r2 * (i - j).abs())).to(s.dtype)


@pytest.mark.parametrize("shape", SHAPES[3:5], ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["full", "causal"])
def test_gradients_of_offset_tables(shape, masked, kernel):
    target, dtype = kernel
    rows, *grads = operands(shape, dtype)
    heads = shape[1]
    params = {
        "kerple_log.r1": torch.rand(heads) + 0.1,
        "kerple_log.r2": torch.rand(heads) + 0.1,
    }
    encodings = ["causal", "kerple_log"] if masked else ["kerple_log"]
    mask = causal if masked else None
    compare(rows, grads, target, encodings, params, kerple, mask=mask)


@pytest.mark.parametrize("shape", SHAPES[2:5], ids=str)
def test_payload_that_is_not_additive(shape, target):
    rows, *grads = operands(shape, factor=3.0)

    def cap(params):
        return lambda s, i, j: 2.0 * torch.tanh(s / 2.0)

    compare(rows, grads, target, ["causal", "softcap(cap=2.0)"], {}, cap, mask=causal)


@pytest.mark.parametrize("shape", [SHAPES[2], SHAPES[5], SHAPES[6]], ids=str)
def test_row_maps(shape, kernel):
    target, dtype = kernel
    rows, *grads = operands(shape, dtype)
    compare(rows, grads, target, ["causal", "rope"], mask=causal, rope=True)


@pytest.mark.parametrize("factor", [1e-6, 30.0])
def test_tiny_and_huge_scores(factor, target):
    rows, *grads = operands(SHAPES[2], factor=factor)
    compare(rows, grads, target, ["causal"], mask=causal)


def test_same_bits_for_any_number_of_threads(target):
    rows, do, dlse = operands((1, 4, 2, 300, 700, 64, 64))
    heads = 4
    params = {
        "kerple_log.r1": torch.rand(heads) + 0.1,
        "kerple_log.r2": torch.rand(heads) + 0.1,
    }
    leaves = [t.requires_grad_() for t in (*rows, *params.values())]

    def run(threads):
        torch.set_num_threads(threads)
        encodings = ["causal", "kerple_log", "rope"]
        return gradients(
            leaves,
            lambda: sextant.attention(
                *rows, encodings, params, return_lse=True, target=target
            ),
            do,
            dlse,
        )

    before = torch.get_num_threads()
    try:
        once, again, spread = run(1), run(1), run(2)
    finally:
        torch.set_num_threads(before)
    for a, b, c in zip(once, again, spread):
        assert torch.equal(a, b) and torch.equal(a, c)


def test_rows_without_keys_have_no_gradient(target):
    rows, do, dlse = operands((1, 1, 1, 9, 4, 16, 16))
    leaves = [t.requires_grad_() for t in rows]
    dq, dk, dv = gradients(
        leaves,
        lambda: sextant.attention(*rows, ["causal"], return_lse=True, target=target),
        do,
        dlse,
    )
    assert torch.equal(dq[:, :, :5], torch.zeros_like(dq[:, :, :5]))
    assert dk.isfinite().all() and dv.isfinite().all()


@pytest.mark.parametrize("lengths", [(0, 7), (7, 0), (0, 0)])
def test_empty(lengths, target):
    lq, lk = lengths
    rows, do, dlse = operands((2, 2, 1, lq, lk, 16, 16))
    leaves = [t.requires_grad_() for t in rows]
    for leaf, gradient in zip(
        leaves,
        gradients(
            leaves,
            lambda: sextant.attention(*rows, return_lse=True, target=target),
            do,
            dlse,
        ),
    ):
        assert gradient.shape == leaf.shape
        assert torch.equal(gradient, torch.zeros_like(gradient))


def test_nan_reaches_the_gradients_that_depend_on_it(target):
    rows, do, dlse = operands((1, 2, 2, 70, 70, 16, 16))
    rows[0][0, 0, 3] = torch.nan
    leaves = [t.requires_grad_() for t in rows]
    dq, dk, dv = gradients(
        leaves,
        lambda: sextant.attention(*rows, ["causal"], return_lse=True, target=target),
        do,
        dlse,
    )
    assert dq[0, 0, 3].isnan().all() and dk[0, 0, :4].isnan().all()
    assert dv[0, 0, :4].isnan().all()
    for gradient in (dq, dk, dv):
        assert gradient[0, 1].isfinite().all()


@sextant.encoding
def sharpen(score, at, gate: sextant.PerHead, shift: sextant.PerHead):
    return sextant.tanh(score * gate[at.head] + shift[at.head])


def test_gradients_of_scalars_of_a_head(target):
    rows, *grads = operands(SHAPES[2])
    params = {
        "sharpen.gate": torch.rand(4) + 0.5,
        "sharpen.shift": torch.randn(4),
    }

    def score(params):
        gate, shift = (p[:, None, None] for p in params.values())
        return lambda s, i, j: torch.tanh(s * gate + shift)

    compare(rows, grads, target, ["causal", sharpen], params, score, mask=causal)


def test_gradients_of_offset_tables_under_positions(target):
    rows, *grads = operands(SHAPES[2])
    length = SHAPES[2][3]
    positions = torch.randint(0, 2 * length, (length,), dtype=torch.int32)
    params = {
        "kerple_log.r1": torch.rand(4) + 0.1,
        "kerple_log.r2": torch.rand(4) + 0.1,
    }

    def score(params):
        r1, r2 = (p[:, None, None] for p in params.values())
        offset = (positions[None, :] - positions[:, None]).abs()
        return lambda s, i, j: s - (r1 * torch.log1p(r2 * offset)).to(s.dtype)

    compare(
        rows,
        grads,
        target,
        ["causal", "kerple_log"],
        params,
        score,
        given={"query_positions": positions, "key_positions": positions},
        mask=causal,
    )
