"""The CPU backward against float64, in every shape that it claims to take.

Tolerance: C7, see numeric_contract.py.
"""

import pytest
import targets
import torch
from numeric_contract import DRAWS, Comparison, neighbour, products_of
from plain_attention import attention, causal, gradients, gradients_of_stored

import sextant

pytest.importorskip("sextant._compiler")

F32, BF16 = torch.float32, torch.bfloat16
# The kernels of f32 are the same with and without dot products of bf16.
KERNELS = [
    ("cpu:avx2", F32),
    ("cpu:avx512", F32),
    ("cpu:avx2", BF16),
    ("cpu:avx512", BF16),
    ("cpu:avx512bf16", BF16),
    (targets.runnable(targets.AMX), BF16),
    (targets.runnable(targets.AMX), F32),
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
    return target, dtype


@pytest.fixture(params=["cpu:avx2", "cpu:avx512"])
def target(request):
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
    rows, grads, target, encodings=(), params=None, score=None, given=None, fixed=None, **settings
):
    """Holds sextant.attention to C7, gradients on what its forward stored.

    `score(params)` gives the score function of the plain versions, `given` what
    else sextant.attention takes, `fixed` parameters that have no gradient.
    """
    params, fixed = params or {}, fixed or {}
    dtype = rows[0].dtype

    def settings_for(leaves):
        named = dict(zip(params, leaves[3:]))
        return {"score": score(named) if score else None, **settings}

    def ours(leaves):
        return sextant.attention(
            *leaves[:3],
            encodings,
            dict(zip(params, leaves[3:])) | fixed,
            return_lse=True,
            enable_gqa=True,
            target=target,
            **(given or {}),
        )

    def forward(leaves):
        with torch.no_grad():
            found = attention(*leaves[:3], **settings_for(leaves))
        return dict(zip(["output", "lse"], found))

    def leaves_of(tensors, convert=lambda t: t):
        return [convert(t).detach().requires_grad_() for t in tensors]

    def named(tensors):
        return dict(zip(["query", "key", "value", *params], tensors))

    products = products_of(target, dtype)
    comparison = Comparison(products)
    for draw in range(DRAWS):
        moved = [neighbour(t, dtype, draw).to(dtype) if draw else t for t in rows]
        given_grads = [neighbour(t, t.dtype, draw).to(t.dtype) if draw else t for t in grads]
        leaves = leaves_of([*moved, *params.values()])
        stored = ours(leaves)
        got = gradients(leaves, lambda: stored, *given_grads)
        others = [t.detach() for t in (*stored, *given_grads)]
        plain = leaves_of(leaves, lambda t: t.to(products) if t.dtype == dtype else t)
        others = [t.to(products) if t.dtype == dtype else t for t in others]
        theirs = gradients_of_stored(plain, settings_for(plain), *others)
        exact = leaves_of(leaves, torch.Tensor.double)
        others = [t.double() for t in others]
        want = gradients_of_stored(exact, settings_for(exact), *others)
        results = dict(zip(["output", "lse"], (t.detach() for t in stored)))
        comparison.add(
            named(got) | results, named(theirs) | forward(plain), named(want) | forward(exact)
        )
        if not draw and not comparison.holds():
            others[1] = None
            normalized = gradients_of_stored(exact, settings_for(exact), *others)
            comparison.add_other(named(normalized))
        if comparison.holds():
            break
    comparison.check(f"gradients at {[tuple(t.shape) for t in rows]}:")


def shapes_of_kernels():
    """In f32 units rows of bf16 are converted on the way, and all else is that of f32."""
    for target, dtype in KERNELS:
        converts = dtype == BF16 and target in targets.F32
        for shape in SHAPES[2:4] if converts else SHAPES:
            yield pytest.param((target, dtype), shape, id=f"{target}-{dtype}-{shape}")


@pytest.mark.parametrize("kernel, shape", list(shapes_of_kernels()))
@pytest.mark.parametrize("masked", [False, True], ids=["full", "causal"])
def test_shapes(shape, masked, kernel):
    target, dtype = kernel
    rows, *grads = operands(shape, dtype)
    mask = causal if masked else None
    compare(rows, grads, target, ["causal"] if masked else [], mask=mask)


def kerple(params):
    r1, r2 = (params[f"kerple_log.{name}"][:, None, None] for name in ("r1", "r2"))
    return lambda s, i, j: s - (r1 * torch.log1p(r2 * (i - j).abs())).to(s.dtype)


@pytest.mark.parametrize("shape, masked", [(SHAPES[3], True), (SHAPES[4], False)], ids=str)
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
                *rows, encodings, params, return_lse=True, enable_gqa=True, target=target
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
            lambda: sextant.attention(*rows, return_lse=True, enable_gqa=True, target=target),
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


@sextant.encoding
def faded_last(score, at, fade: sextant.PerHead, lift: sextant.PerHead):
    bias = lift[at.head] * sextant.sqrt(abs(at.offset) + 1.0)
    return (score + bias) * sextant.exp(-0.01 * fade[at.head] * abs(at.offset))


@sextant.encoding
def faded_first(score, at, fade: sextant.PerHead, lift: sextant.PerHead):
    bias = lift[at.head] * sextant.sqrt(abs(at.offset) + 1.0)
    return score * sextant.exp(-0.01 * fade[at.head] * abs(at.offset)) + bias


@sextant.encoding
def lifted_first(score, at, lift: sextant.PerHead, fade: sextant.PerHead):
    bias = lift[at.head] * sextant.sqrt(abs(at.offset) + 1.0)
    return bias + score * sextant.exp(-0.01 * fade[at.head] * abs(at.offset))


@pytest.mark.parametrize("base", [["causal"], []], ids=["causal", "full"])
@pytest.mark.parametrize("use", [faded_last, faded_first, lifted_first], ids=lambda u: u.name)
def test_several_tables_of_offsets(use, base, target):
    """One that gets the gradient of the score, one a gradient of its own, at lengths
    that leave every kind of tile incomplete."""
    rows, *grads = operands((1, 2, 2, 131, 301, 24, 16))
    params = {f"{use.name}.fade": torch.rand(2) + 0.1, f"{use.name}.lift": torch.randn(2)}

    def score(params):
        fade, lift = (p[:, None, None] for p in params.values())

        def faded(s, i, j):
            distance = (i - j).abs()
            bias, factor = lift * torch.sqrt(distance + 1.0), torch.exp(-0.01 * fade * distance)
            return (s + bias) * factor if use is faded_last else s * factor + bias

        return faded

    mask = dict(mask=causal) if base else {}
    compare(rows, grads, target, [*base, use], params, score, **mask)
