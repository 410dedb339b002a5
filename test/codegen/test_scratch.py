"""Scratch memory holds whatever the kernel before left there: no kernel may read what it
has not written itself. SEXTANT_CHECK=scratch fills it with NaN ahead of every launch."""

import attention_contract
import pytest
import targets
import torch

import sextant


@sextant.encoding
def two_tables(score, at, lift: sextant.PerHead, fade: sextant.PerHead):
    """Tables of offsets, the first with the gradient of the score, the second with one of
    its own: a kernel keeps that in a tile which nothing else writes."""
    bias = lift[at.head] * sextant.sqrt(abs(at.offset) + 1.0)
    near = sextant.exp(-0.01 * fade[at.head] * abs(at.offset))
    return score + bias + near / (1.0 + 0.1 * at.query)


USES = [
    [two_tables],
    ["causal", two_tables],
    ["causal", "softcap(cap=2.0)"],
    ["rope", "fire"],
    ["causal", "cope"],
    ["causal", "shaw"],
    ["causal", "dape(fire)"],
    ["transformer_xl"],
]


@pytest.mark.parametrize("uses", USES, ids=lambda uses: "-".join(map(str, uses)))
@pytest.mark.parametrize("target", targets.CPU)
def test_what_scratch_held_before_does_not_matter(uses, target, seed, monkeypatch):
    params = sextant.init_params(uses, heads=2, head_dim=24, seed=seed)
    dtype = targets.DTYPES[target]
    inputs = targets.drawn(target, (1, 2, 2, 131, 301, 24, 24), params).cast(dtype)
    expected = attention_contract.run(uses, inputs, target)
    monkeypatch.setenv("SEXTANT_CHECK", "scratch")
    got = attention_contract.run(uses, inputs, target)
    for name, tensor in expected.items():
        assert torch.isfinite(tensor).all(), name
        assert torch.equal(tensor, got[name]), name
