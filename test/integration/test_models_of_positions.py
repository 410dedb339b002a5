"""GPTs with SeqPE's rows or TAPE's state in plain PyTorch: what compiled ones are held to."""

import plain_gpt
import pytest
import seqpe_model
import tape_model
import torch

import sextant
from sextant.models import gpt

CONFIG = gpt.Config(encodings=("causal",), layers=2, width=32, heads=2)
LENGTH = 13


def weights(config, dtype=torch.float64):
    """Parameters of a model, as its text declares them."""
    params = sextant.compile(gpt.build(config), target="reference").init_params(1)
    return {n: (p + 0.05 * torch.rand(p.shape)).to(dtype) for n, p in params.items()}


@pytest.fixture(scope="module")
def params():
    return weights(CONFIG)


def text(config):
    return torch.randint(0, config.vocabulary, (2, LENGTH))


def test_tape_starts_as_rope(params):
    """And leaves it with the gates; either update can be off."""
    tokens = text(CONFIG)
    rope = plain_gpt.forward(gpt.Config(encodings=("causal", "rope"), layers=2, width=32, heads=2), params, tokens)
    at_start, later = ([tape_model.parameters(2, 32, 6, drawn=drawn) for _ in range(2)] for drawn in (False, True))
    begun = plain_gpt.forward(CONFIG, params, tokens, tape_model.InModel(at_start))
    torch.testing.assert_close(begun, rope, atol=1e-12, rtol=0)
    off = tape_model.InModel(later, attention=False, mlp=False)
    torch.testing.assert_close(plain_gpt.forward(CONFIG, params, tokens, off), rope, atol=1e-12, rtol=0)
    moved = [
        plain_gpt.forward(CONFIG, params, tokens, tape_model.InModel(later, **switches))
        for switches in ({}, {"attention": False}, {"mlp": False})
    ]
    for one, other in ((moved[0], rope), (moved[0], moved[1]), (moved[0], moved[2]), (moved[1], moved[2])):
        assert (one - other).abs().max() > 1e-6


@pytest.mark.parametrize("form, neutral", [("bias", 0.0), ("mul", 1.0), ("sum", 0.0)])
def test_neutral_rows_are_no_encoding(params, form, neutral):
    """Rows of 0, or of 1 where they multiply; other rows reach the loss, and by it the
    encoder of positions."""
    tokens = text(CONFIG)
    none = plain_gpt.forward(CONFIG, params, tokens)
    rows = torch.full((LENGTH, 32), neutral, dtype=torch.float64)
    found = plain_gpt.forward(CONFIG, params, tokens, seqpe_model.InModel(rows, 2, form))
    torch.testing.assert_close(found, none, atol=1e-12, rtol=0)

    settings = seqpe_model.Encoder(digits=3)
    encoder = {n: p.requires_grad_() for n, p in seqpe_model.parameters(settings, deviation=0.3).items()}
    e = seqpe_model.encode(settings, encoder, torch.arange(LENGTH)[:, None])
    each = [(torch.randn(64, 32, dtype=torch.float64) / 8, torch.randn(64, dtype=torch.float64)) for _ in range(2)]
    for projections in ((), each[:1], each):
        inside = seqpe_model.InModel(e, 2, form, projections)
        loss = plain_gpt.loss(CONFIG, params, tokens, tokens, inside)
        gradients = torch.autograd.grad(loss, encoder.values(), retain_graph=True, allow_unused=True)
        unused = [n for n, g in zip(encoder, gradients) if g is None or not g.abs().max() > 0]
        assert not unused
