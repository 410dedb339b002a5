"""Scratch memory holds whatever the kernel before left there: no kernel may read what it
has not written itself. Here the one before worked on rows of NaN only."""

import pytest
import torch

import attention_contract
import sextant
import targets


@sextant.encoding
def faded_first(score, at, fade: sextant.PerHead, lift: sextant.PerHead):
    """A table that gets the gradient of the score after one with a gradient of its own."""
    bias = lift[at.head] * sextant.sqrt(abs(at.offset) + 1.0)
    return score * sextant.exp(-0.01 * fade[at.head] * abs(at.offset)) + bias


@sextant.encoding
def lifted_first(score, at, lift: sextant.PerHead, fade: sextant.PerHead):
    bias = lift[at.head] * sextant.sqrt(abs(at.offset) + 1.0)
    return bias + score * sextant.exp(-0.01 * fade[at.head] * abs(at.offset))


def leave_nan_behind(target, dtype):
    """Larger rows and more of them than those under test have, so that their scratch is
    a part of what this one fills."""
    rows = [torch.full((1, 2, 520, 256), torch.nan, dtype=dtype) for _ in range(3)]
    for tensor in rows:
        tensor.requires_grad_()
    sextant.attention(*rows, target=target).sum().backward()


USES = [
    ([faded_first], dict(fade=2, lift=2)),
    (["causal", lifted_first], dict(lift=2, fade=2)),
    (["causal", "softcap(cap=2.0)"], {}),
    (["rope"], {}),
]


@pytest.mark.parametrize("target", targets.CPU)
@pytest.mark.parametrize("uses, sizes", USES, ids=["own", "causal-own", "softcap", "rope"])
def test_what_scratch_held_before_does_not_matter(uses, sizes, target, seed):
    torch.manual_seed(seed)
    params = {f"{uses[-1].name}.{name}": torch.rand(size) + 0.1 for name, size in sizes.items()}
    dtype = targets.DTYPES[target]
    drawn = targets.drawn(target, (1, 2, 2, 131, 301, 24, 16), params)
    inputs = drawn.cast(dtype)
    fresh = attention_contract.run(uses, inputs, target)
    leave_nan_behind(target, dtype)
    again = attention_contract.run(uses, inputs, target)
    for name, tensor in fresh.items():
        assert torch.isfinite(tensor).all(), name
        assert torch.equal(tensor, again[name]), name
