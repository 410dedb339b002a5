"""The forward kernels of each CPU target against float64, over odd shapes and strides.

Tolerances: f32 sums of a few hundred terms of size one; bf16 inputs are exact in the
float64 reference, so what remains is the rounding of P and of the output to 8 bits.
"""

import itertools
import math

import pytest
import torch

import sextant

pytest.importorskip("sextant._compiler")

TOLERANCES = {torch.float32: (4e-6, 1e-5), torch.bfloat16: (3e-2, 2e-2)}


def _features() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return ""


def _targets():
    needs = {"cpu:avx2": "avx2", "cpu:avx512": "avx512bw", "cpu:avx512bf16": "avx512_bf16"}
    for (target, flag), dtype in itertools.product(needs.items(), TOLERANCES):
        marks = [] if flag in _features() else [pytest.mark.skip(reason=f"no {flag}")]
        yield pytest.param(target, dtype, marks=marks, id=f"{target}-{dtype}".replace("torch.", ""))


TARGETS = list(_targets())


def reference(q, k, v, is_causal):
    """Output and log-sum-exp in float64; queries are aligned at the end."""
    q, k, v = q.double(), k.double(), v.double()
    group = q.shape[1] // max(k.shape[1], 1)
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if is_causal:
        rows, columns = scores.shape[-2:]
        index = torch.arange(rows)[:, None] + columns - rows
        scores = scores.masked_fill(torch.arange(columns) > index, -math.inf)
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp(scores - lse.nan_to_num(neginf=0.0)[..., None])
    return weights @ v, lse


def rows(layout, batch, heads, length, dim, dtype):
    """A tensor (batch, heads, length, dim) of a given layout in memory."""
    if layout == "contiguous":
        return torch.randn(batch, heads, length, dim).to(dtype)
    if layout == "heads inside":  # as a projection leaves it, with other columns
        return torch.randn(batch, length, heads, dim + 3).to(dtype).transpose(1, 2)[..., 1 : dim + 1]
    return torch.randn(batch, heads, dim, length).to(dtype).transpose(2, 3)


def check(q, k, v, is_causal, target):
    out, lse = sextant.attention(
        q, k, v, ["causal"] if is_causal else [], return_lse=True, target=target
    )
    expected, expected_lse = reference(q, k, v, is_causal)
    tolerance, lse_tolerance = TOLERANCES[q.dtype]
    assert out.dtype == q.dtype and lse.dtype == torch.float32
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=tolerance)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=0, atol=lse_tolerance)


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
        check(q, k, v, is_causal, target)


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
    out = sextant.attention(q, k, v, uses, target=target)
    expected = sextant.attention(q.double(), k.double(), v.double(), uses, target="reference")
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=TOLERANCES[dtype][0])


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
    out = sextant.attention(q * 100, k * 100, v, target=target)
    assert torch.isfinite(out).all()
    out = sextant.attention(q, k, v, scale=-0.5, target=target)
    expected = sextant.attention(q.double(), k.double(), v.double(), scale=-0.5, target="reference")
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=TOLERANCES[dtype][0])


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
