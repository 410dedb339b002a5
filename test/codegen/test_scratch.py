"""Scratch memory holds whatever the kernel before left there, and what launches leave for
each other may lie where that of the call before lay: no kernel may read what has not been
written. SEXTANT_CHECK=scratch fills both with NaN first."""

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


# Several chunks of keys, each with a copy of dQ that a launch of its own adds up.
CASES = [(uses, (131, 301)) for uses in USES]
CASES += [(uses, (70, 2300)) for uses in (["rope", "fire"], ["causal", "talking_heads"])]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{'-'.join(map(str, case[0]))}-{case[1][1]}"
)
@pytest.mark.parametrize("target", targets.CPU)
def test_what_was_there_before_does_not_matter(case, target, seed, monkeypatch):
    uses, lengths = case
    params = sextant.init_params(uses, heads=2, head_dim=24, seed=seed)
    dtype = targets.DTYPES[target]
    inputs = targets.drawn(target, (1, 2, 2, *lengths, 24, 24), params).cast(dtype)
    expected = attention_contract.run(uses, inputs, target)
    monkeypatch.setenv("SEXTANT_CHECK", "scratch")
    got = attention_contract.run(uses, inputs, target)
    for name, tensor in expected.items():
        assert torch.isfinite(tensor).all(), name
        assert torch.equal(tensor, got[name]), name
