"""Masks that compare strictly, where a tile ends on the diagonal: queries are shifted by
every remainder of a tile of keys, and inputs are small integers, so that one key too many
or too few shows."""

import pytest
import targets
import torch

import sextant


@sextant.mask
def after(at):
    return at.query > at.key


@sextant.mask
def before(at):
    return at.key < at.query


@sextant.mask
def from_on(at):
    return at.query >= at.key + 1


@pytest.mark.parametrize("mask", [after, before, from_on], ids=lambda m: m.name)
@pytest.mark.parametrize("target", targets.F32)
def test_a_query_does_not_see_itself(target, mask):
    targets.require(target)
    for shift in range(9):
        queries = 40
        q = torch.zeros(1, 1, queries, 16)
        k = torch.zeros(1, 1, queries + shift, 16)
        v = torch.eye(queries + shift)[None, None, :, :]
        out = sextant.attention(q, k, v, [mask], target=target)[0, 0]
        seen = torch.ones(queries, queries + shift).tril(shift - 1)
        want = seen / seen.sum(-1, keepdim=True).clamp(min=1)
        torch.testing.assert_close(out, want, rtol=1e-6, atol=0, msg=lambda m: f"{shift}: {m}")
