"""A query that sees two keys: the log-sum-exp is log(1 + e^s), so the exponential and the
logarithm of a kernel show as they are. In longer rows their errors hide among others'."""

import pytest
import targets
import torch

import sextant

ULP = 2.0**-23


@pytest.mark.parametrize("target", targets.F32)
@pytest.mark.parametrize("range", [1, 20])
def test_log_sum_exp_of_two_scores(target, range):
    """Within the roundings of s log2(e), of e^s and of the logarithm: 2 ulp, of 80 000
    scores the worst had 1.4."""
    targets.require(target)
    scores = range * (2 * torch.rand(4099) - 1)
    query = torch.zeros(1, 1, len(scores), 16)
    query[0, 0, :, 3] = scores
    key = torch.zeros(1, 1, 2, 16)
    key[0, 0, 0, 3] = 1
    _, lse = sextant.attention(query, key, key, target=target, scale=1.0, return_lse=True)
    want = torch.logaddexp(scores.double(), torch.zeros(()).double())
    allowed = 2 * ULP * scores.double().abs().clamp(min=1)
    assert ((lse[0, 0].double() - want).abs() <= allowed).all()
