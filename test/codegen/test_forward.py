"""The forward kernels of each CPU target against float64, over odd shapes and strides.

Tolerance: C7, see numeric_contract.py.
"""

import itertools
import math

import pytest
import torch
from numeric_contract import DRAWS, Comparison, neighbour, products_of
from plain_attention import attention, causal, scores
from targets import AMX, require, runnable

import sextant

pytest.importorskip("sextant._compiler")

DTYPES = (torch.float32, torch.bfloat16)


def _features() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return ""


def _targets():
    needs = {"cpu:avx2": "avx2", "cpu:avx512": "avx512bw", "cpu:avx512bf16": "avx512_bf16"}
    for (target, flag), dtype in itertools.product(needs.items(), DTYPES):
        marks = [] if flag in _features() else [pytest.mark.skip(reason=f"no {flag}")]
        yield pytest.param(target, dtype, marks=marks, id=f"{target}-{dtype}".replace("torch.", ""))
    target = runnable(AMX)
    for dtype in DTYPES:
        yield pytest.param(target, dtype, id=f"{target}-{dtype}".replace("torch.", ""))


TARGETS = list(_targets())


def rows(layout, batch, heads, length, dim, dtype):
    """A tensor (batch, heads, length, dim) of a given layout in memory."""
    if layout == "contiguous":
        return torch.randn(batch, heads, length, dim).to(dtype)
    if layout == "heads inside":  # as a projection leaves it, with other columns
        return torch.randn(batch, length, heads, dim + 3).to(dtype).transpose(1, 2)[..., 1 : dim + 1]
    return torch.randn(batch, heads, dim, length).to(dtype).transpose(2, 3)


def check(q, k, v, uses, target, mask=None, scale=None):
    """Holds output and log-sum-exp to C7; `mask` is what `uses` hide."""
    products = products_of(target, q.dtype)
    comparison = Comparison(products)

    def plain(rows):
        results = attention(*rows, mask=mask, scale=scale)
        return dict(zip(("output", "lse"), results))

    def plain_before_division():
        """As plain code of an online softmax: probabilities are rounded before they are
        divided by their sum. Of scores of thousands the largest is not exactly 1 then, and
        a row that is one key's has a rounding that normalized probabilities do not have."""
        query, key, value = (t.to(products).float() for t in (q, k, v))
        s = scores(query, key, mask=mask, scale=scale)
        p = torch.exp(s - s.amax(-1, keepdim=True) - torch.rand_like(s[..., :1]))
        value = value.repeat_interleave(q.shape[1] // v.shape[1], 1)
        out = (p.to(products).float() @ value) / p.sum(-1, keepdim=True)
        return {"output": out, "lse": torch.logsumexp(s, -1)}

    exact_of_input = plain([t.double() for t in (q, k, v)])
    for draw in range(DRAWS):
        rows = [neighbour(t, t.dtype, draw).to(t.dtype) if draw else t for t in (q, k, v)]
        out, lse = sextant.attention(
            *rows, uses, scale=scale, return_lse=True, enable_gqa=True, target=target
        )
        assert out.dtype == q.dtype and lse.dtype == torch.float32
        exact = plain([t.double() for t in rows])
        comparison.add({"output": out, "lse": lse}, plain([t.to(products) for t in rows]), exact)
        if comparison.holds():
            break
        comparison.add_plain(plain_before_division(), exact_of_input)
    comparison.check(f"{tuple(q.shape)} x {tuple(k.shape)}, {uses}:")


@pytest.mark.parametrize("target, dtype", TARGETS)
@pytest.mark.parametrize("dims", [(64, 64), (16, 16), (20, 36), (33, 17), (256, 128)], ids=str)
def test_shapes_and_strides(target, dtype, dims):
    shapes = [(1, 2, 2, 1, 1), (2, 4, 2, 63, 63), (1, 1, 1, 129, 300), (1, 2, 2, 300, 129)]
    shapes += [(2, 3, 1, 200, 200), (1, 2, 2, 1, 257), (1, 40, 8, 97, 97)]
    layouts = itertools.cycle(("contiguous", "heads inside", "transposed"))
    for shape, is_causal in itertools.product(shapes, (False, True)):
        batch, heads, kv_heads, queries, keys = shape
        layout = next(layouts)
        q = rows(layout, batch, heads, queries, dims[0], dtype)
        k = rows(layout, batch, kv_heads, keys, dims[0], dtype)
        v = rows(layout, batch, kv_heads, keys, dims[1], dtype)
        check(q, k, v, ["causal"] * is_causal, target, causal if is_causal else None)


@pytest.mark.parametrize("target, dtype", TARGETS)
def test_empty(target, dtype):
    for batch, queries, keys in ((0, 3, 3), (1, 0, 3), (1, 3, 0)):
        q, k, v = (torch.randn(batch, 2, n, 16).to(dtype) for n in (queries, keys, keys))
        out, lse = sextant.attention(q, k, v, return_lse=True, target=target)
        assert out.shape == q.shape and not out.any()
        assert (lse == -math.inf).all()  # C4: no key is seen


@pytest.mark.parametrize("target, dtype", TARGETS)
def test_rows_without_keys(target, dtype):
    """More queries than keys: the first ones see none (C4), also in tiles that
    others of the same vector share with visible keys."""
    q, k, v = (torch.randn(1, 2, n, 64).to(dtype) for n in (150, 130, 130))
    out, lse = sextant.attention(q, k, v, ["causal"], return_lse=True, target=target)
    assert not out[:, :, :20].any() and (lse[:, :, :20] == -math.inf).all()
    assert torch.isfinite(lse[:, :, 20:]).all()
    # A window that leaves the first blocks of keys to hidden lanes only.
    q, k, v = (torch.randn(1, 1, 600, 64).to(dtype) for _ in range(3))
    uses = ["causal", "window(size=7)"]
    check(q, k, v, uses, target, lambda i, j: (j <= i) & (i - j < 7))


@pytest.mark.parametrize("target, dtype", TARGETS)
def test_nan_and_infinity(target, dtype):
    """A NaN reaches the rows that see it, and no other."""
    q, k, v = (torch.randn(1, 1, 100, 64).to(dtype) for _ in range(3))
    q[0, 0, 5, 3] = math.nan
    out, lse = sextant.attention(q, k, v, return_lse=True, target=target)
    others = [i for i in range(100) if i != 5]
    assert out[0, 0, 5].isnan().all() and lse[0, 0, 5].isnan()
    assert torch.isfinite(out[0, 0, others]).all() and torch.isfinite(lse[0, 0, others]).all()
    q, k, v = (torch.randn(1, 1, 100, 64).to(dtype) for _ in range(3))
    k[0, 0, 50, 0] = math.nan
    out, lse = sextant.attention(q, k, v, ["causal"], return_lse=True, target=target)
    assert out[0, 0, 50:].isnan().all() and lse[0, 0, 50:].isnan().all()
    # Only whole vectors of lanes are read: earlier rows may meet the key in a
    # tile at the diagonal, where it is hidden.
    assert torch.isfinite(lse[0, 0, :50]).all()


@pytest.mark.parametrize("target, dtype", TARGETS)
def test_large_scores(target, dtype):
    """Differences of scores of thousands, and a negative scale."""
    q, k, v = (torch.randn(1, 2, 70, 32).to(dtype) for _ in range(3))
    check(q * 100, k * 100, v, [], target)
    check(q, k, v, [], target, scale=-0.5)


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_log_sum_exp_of_long_rows(target):
    """Sharper than C7: errors of a sum of 20000 exponentials do not add up."""
    require(target)
    q, k = torch.randn(1, 1, 64, 16), torch.randn(1, 1, 20000, 16)
    _, lse = sextant.attention(q, k, k, return_lse=True, target=target)
    _, exact = attention(q.double(), k.double(), k.double())
    # Largest scores and results lie below 16, where f32 has steps of 2^-20.
    assert (lse.double() - exact).abs().max() <= 2 * 2.0**-20


def test_threads_do_not_matter():
    """C9: the same bits for any number of threads."""
    q, k, v = (torch.randn(2, 3, 333, 64) for _ in range(3))
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(sextant.attention(q, k, v, ["causal", "alibi"]))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(results[0], other) for other in results[1:])
