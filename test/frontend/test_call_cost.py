"""What a call of an attention costs besides its kernel: a token that is decoded calls one
in every layer, and its kernel takes microseconds."""

import sys

import pytest
import torch

import sextant

# Calls of Python functions, and of functions in C, that a warm call makes, with room for a
# third more. What it looks up anew each time (the environment, the times of files) must not
# grow unseen: when each question joined the folders of definitions again there were 935.
MOST = {(): 340, ("causal",): 360, ("causal", "alibi"): 440, ("causal", "kerple_log"): 420}


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

    def call():
        return sextant.attention(*rows, uses, params)

    call()
    calls = count_calls(call)
    assert 0 < calls <= MOST[uses], calls
