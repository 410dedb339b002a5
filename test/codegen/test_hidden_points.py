"""Gradients of payloads of all heads at points that nobody sees: keys past the end, and
those that a mask hides, where terms may be infinite or NaN. 0 times these is no number, so
they must not stand beside the gradients of matrices."""

import attention_contract
import pytest
import torch
from attention_contract import Inputs
from targets import F32, in_turn

import sextant

WARPS = "cuda-emulated:sm_80"


@sextant.encoding
def quotient(score, at):
    """Vectors over queries and over keys: past the last key one is 0."""
    return score - sextant.sqrt(at.query + 1.0) / (1.5 + sextant.sin(at.key * 1.0))


@sextant.encoding
def of_the_past(score, at, rate: sextant.Param("heads", init=sextant.constant_init(0.5))):
    """NaN at keys that come later."""
    return score - sextant.log(1.0 - 2.0 * rate[at.head] * at.offset)


@sextant.encoding
def of_the_past_in_place(score, at, rate: sextant.Param("heads", init=sextant.constant_init(0.5))):
    """The same times a term of queries and keys, which no table holds."""
    near = sextant.log(1.0 - 2.0 * rate[at.head] * at.offset)
    return score - near * sextant.cos(0.01 * (at.query * at.key))


@sextant.encoding(all_heads=True)
def logarithms(scores, at, w: sextant.Param("heads", "heads", init=sextant.normal(0.0, 0.3))):
    """Infinite where scores are 0, as those of hidden keys are made."""
    return scores + sextant.contract(w, sextant.log(scores * scores)) * 0.1


CASES = {
    "past the end": [quotient, "talking_heads"],
    "a host of the past": ["causal", "dape(of_the_past, hidden=3)"],
    "before": ["causal", of_the_past_in_place, "talking_heads"],
    "logarithms": ["causal", logarithms],
}


def compare(name, length, target, dtype, tmp_path, monkeypatch):
    (tmp_path / "of_the_past.mlir").write_text(of_the_past.text)
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    uses = CASES[name]
    made = sextant.init_params(uses, heads=3, head_dim=16, seed=1)
    params = {n: t + 0.05 * torch.rand(t.shape) for n, t in made.items()}
    rows = [torch.randn(1, 3, length, 16).to(dtype).float() for _ in range(3)]
    return attention_contract.compare(uses, Inputs.drawn(*rows, params), target, dtype, name)


@pytest.mark.parametrize(
    "target, name", [*in_turn(CASES, F32), *((WARPS, n) for n in CASES)], ids=str
)
@pytest.mark.parametrize("length", [45, 65])
def test_nothing_of_them_reaches_a_gradient(target, name, length, tmp_path, monkeypatch):
    compare(name, length, target, torch.float32, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("length", [45, 65])
def test_nor_on_tensor_cores(name, length, tmp_path, monkeypatch):
    found = compare(name, length, WARPS, torch.bfloat16, tmp_path, monkeypatch)
    assert found == {"forward", "backward"}
