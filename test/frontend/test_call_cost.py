"""What a call of an attention costs besides its kernel: a token that is decoded calls one
in every layer, and its kernel takes microseconds."""

import sys

import pytest
import torch

import sextant
from sextant import backend, initial

# Calls of Python functions, and of functions in C, that a warm call makes, alone and with its
# backward, with room for a third more. What it looks up anew each time (the environment, the
# times of files) must not grow unseen: when each question joined the folders of definitions
# again there were 935, and by PyTorch's dispatcher, where nobody listens, 285 and 709 with alibi.
MOST = {
    (): (130, 360),
    ("causal",): (125, 305),
    ("causal", "alibi"): (128, 310),
    ("causal", "kerple_log"): (148, 360),
}


def count_calls(function):
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("uses", MOST, ids=lambda uses: "-".join(uses) or "plain")
def test_a_warm_call_asks_for_little(uses):
    rows = [torch.randn(1, 2, 8, 16) for _ in range(3)]
    params = sextant.init_params(uses, heads=2, head_dim=16)
    trained = [*rows, *params.values()]
    gradient = torch.randn(1, 2, 8, 16)

    def call():
        return sextant.attention(*rows, uses, params)

    def both():
        return torch.autograd.grad(call(), trained, gradient)

    alone, recorded = MOST[uses]
    call()
    calls = count_calls(call)
    assert 0 < calls <= alone, calls
    for tensor in trained:
        tensor.requires_grad_()
    both()
    calls = count_calls(both)
    assert 0 < calls <= recorded, calls


def test_a_token_more_asks_the_compiler_nothing(monkeypatch):
    """A text that is decoded has another length of keys at each token."""
    uses = ["causal", "t5_bias", "padding"]
    params = sextant.init_params(uses, heads=2, head_dim=16)

    def decode(keys, marked):
        rows = torch.randn(1, 2, keys, 16)
        visible = torch.ones(1, marked, dtype=torch.int32)
        given = params | {"padding.visible": visible}
        return sextant.attention(rows[:, :, -1:], rows, rows, uses, given)

    def refuse(*arguments):
        raise AssertionError(arguments)

    decode(5, 5)
    for question in ("shapes", "signature", "initial_values", "compile"):
        monkeypatch.setattr(backend.compiler(), question, refuse)
    decode(6, 6)
    with pytest.raises(ValueError, match=r"must have shape \(1, 7\) .batch, key., got \(1, 6\)"):
        decode(7, 6)


def test_frozen_parameters_of_the_last_shapes_are_kept(monkeypatch):
    monkeypatch.setattr(initial, "_MOST_FROZEN", 2)
    monkeypatch.setattr(initial, "_frozen", {})
    slopes = []
    for heads in (1, 2, 4, 8, 8, 2):
        rows = [torch.randn(1, heads, 3, 8) for _ in range(3)]
        sextant.attention(*rows, ["alibi"], target="reference")
        slopes.append(list(initial._frozen.values())[-1])
        assert len(initial._frozen) <= 2
    assert [len(s) for s in slopes] == [1, 2, 4, 8, 8, 2]
    assert slopes[3] is slopes[4] and slopes[1] is not slopes[5]
