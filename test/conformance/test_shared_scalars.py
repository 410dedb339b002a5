"""Scalars that several payloads of one attention ask for."""

import pytest
import targets
import torch
from cases import Case, compare

import sextant


@sextant.encoding(all_heads=True)
def stretched(scores, at, rate: sextant.Param("heads", init=sextant.normal(0.0, 0.5))):
    return scores * (1 + 0.2 * sextant.tanh(rate * at.offset * 0.1))


@sextant.encoding
def sloped(score, at):
    return score + at.offset * 0.1


@pytest.mark.parametrize("target", [*targets.F32, "cuda-emulated:sm_80"])
def test_scalars_that_a_score_of_one_head_shares(target, seed):
    """The offset of given positions is computed once, for all heads, and read at each."""
    shape = dict(batch=2, heads=3, kv_heads=3, query=20, key=31, positions="random")
    case = Case(stretched, **shape, after=(sloped,))
    compare(case, target, torch.float32, seed)
    if target.startswith("cuda"):
        assert compare(case, target, torch.bfloat16, seed) == {"forward", "backward"}
