"""Reads of a parameter at indices that vary with both rows, inside it and outside.

An index outside reads NaN, touches no memory and has no gradient; where the score
is hidden nothing of that is seen.
"""

import math

import pytest
import torch

import sextant

SIZE = 24


@sextant.encoding
def pairs(score, at, table: sextant.Param("heads", 24, 24)):
    return score + table[at.head, at.query, at.key]


@sextant.encoding
def far_pairs(score, at, table: sextant.Param("heads", 24), *, step=1000003):
    return score + table[at.head, (at.query - at.key) * step]


@sextant.mask
def corner(at):
    """What the table has."""
    return (at.query < 24) & (at.key < 24)


@sextant.encoding
def by_nines(score, at, table: sextant.Param("heads", 3, 8)):
    """The ninth would be where the first one of the next row is."""
    place = 26 + at.offset
    return score + table[at.head, place // 9, place % 9]


@sextant.mask
def close(at):
    """What that table has."""
    place = 26 + at.offset
    return (place >= 0) & (place < 27) & (place % 9 < 8)


def draw(seed, length, shape):
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(2, 2, length, 16, generator=generator) for _ in range(3)]
    return [*tensors, torch.randn(shape, generator=generator)]


@pytest.mark.parametrize("length", [7, 24, 33, 65, 129])
def test_hidden_scores_may_read_outside(f32_target, length, seed):
    leaves = [t.requires_grad_() for t in draw(seed, length, (2, SIZE, SIZE))]
    q, k, v, table = leaves
    got = sextant.attention(q, k, v, [pairs, corner], {"pairs.table": table}, target=f32_target)
    n = min(length, SIZE)
    score = q[:, :, :n] @ k[:, :, :n].transpose(-1, -2) / math.sqrt(16) + table[:, :n, :n]
    want = torch.softmax(score, -1) @ v[:, :, :n]
    torch.testing.assert_close(got[:, :, :n], want, atol=1e-5, rtol=1e-5)
    assert (got[:, :, n:] == 0).all()
    grad = torch.randn_like(want)
    given = torch.nn.functional.pad(grad, (0, 0, 0, length - n))
    for a, b in zip(
        torch.autograd.grad(got, leaves, given), torch.autograd.grad(want, leaves, grad)
    ):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("length", [5, 40])
def test_a_visible_score_outside_is_nan(cpu_target, length, seed):
    """For indices of either sign, far beyond what is mapped in memory."""
    q, k, v, table = (t.requires_grad_() for t in draw(seed, length, (2, SIZE)))
    got = sextant.attention(
        q, k, v, ["causal", far_pairs], {"far_pairs.table": table}, target=cpu_target
    )
    assert got[:, :, 0].isfinite().all()  # key and query are one
    assert got[:, :, 1:].isnan().all()
    got.sum().backward()
    # Only element 0 was read.
    assert (table.grad[:, 1:] == 0).all()


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated:sm_80"])
def test_offsets_outside_add_to_no_element(target, seed):
    """Nor does one beside the table, where another one is inside."""
    q, k, v, table = (t.requires_grad_() for t in draw(seed, 70, (2, 3, 8)))
    got = sextant.attention(q, k, v, [by_nines, close], {"by_nines.table": table}, target=target)
    place = 26 - (torch.arange(70)[:, None] - torch.arange(70))
    seen = (place >= 0) & (place < 27) & (place % 9 < 8)
    bias = table[:, (place // 9).clamp(0, 2), (place % 9).clamp(0, 7)]
    score = (q @ k.transpose(-1, -2) / math.sqrt(16) + bias).masked_fill(~seen, -math.inf)
    want = torch.softmax(score, -1) @ v
    grad = torch.randn_like(want)
    (a,), (b,) = (torch.autograd.grad(out, [table], grad) for out in (got, want))
    torch.testing.assert_close(a, b, atol=2e-5, rtol=2e-5)
