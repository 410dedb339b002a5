"""Mean losses of an evaluation, counted by hand."""

import math

import pytest
import torch

from sextant.training import evaluate
from sextant.training.config import TrainConfig
from sextant.training.data import Text
from sextant.training.evaluate import EvaluationError, mean_losses
from sextant.training.text_bytes import TextBytes


class Counting:
    """A model whose loss of a token is its place in the block, squared, and a hundred
    for each block before. Tokens before place ``first`` do not count."""

    def __init__(self, first=0):
        self.rows = []
        self.first = first

    def token_losses(self, tokens, labels):
        assert torch.equal(labels[:, :-1], tokens[:, 1:])
        first = sum(self.rows)
        self.rows.append(len(tokens))
        blocks = torch.arange(first, first + len(tokens))[:, None]
        places = torch.arange(tokens.shape[1])
        counted = (places >= self.first).expand_as(tokens)
        return (100.0 * blocks + places**2.0) * counted, counted


@pytest.mark.parametrize("rows_at_once", [1, 2, 100])
def test_means_of_all_and_of_the_last_tokens(monkeypatch, rows_at_once):
    length, blocks, last = 8, 5, 3
    monkeypatch.setattr(evaluate, "_TOKENS_AT_ONCE", rows_at_once * length)
    data = torch.arange(blocks * length + 4, dtype=torch.uint8)
    model = Counting()
    every, final = mean_losses(model, data, length, last)
    assert sum(model.rows) == blocks and max(model.rows) <= rows_at_once
    before = 100 * (0 + 1 + 2 + 3 + 4) / 5
    assert every == pytest.approx(before + sum(i * i for i in range(8)) / 8)
    assert final == pytest.approx(before + (25 + 36 + 49) / 3)


def test_tokens_that_do_not_count_are_in_no_mean():
    data = torch.arange(17, dtype=torch.uint8)
    every, final = mean_losses(Counting(first=6), data, 8, 3)
    assert every == final == pytest.approx(50 + (36 + 49) / 2)
    with pytest.raises(EvaluationError, match="none of the tokens to evaluate counts"):
        mean_losses(Counting(first=8), data, 8, 3)


def test_why_a_loss_is_not_finite():
    """That of blocks longer than a table, say, which no learning rate mends."""

    class Short(Counting):
        config = TrainConfig(length=8)
        evaluation = torch.Generator()

        def token_losses(self, tokens, labels):
            losses, counted = super().token_losses(tokens, labels)
            return losses.masked_fill(torch.arange(tokens.shape[1]) >= 8, torch.nan), counted

    data = torch.arange(40, dtype=torch.uint8)
    text = Text(TextBytes.of(b""), data, "text", "digest")
    every, _ = evaluate.evaluate(Short(), text, lengths=[8], progress=False)
    assert math.isfinite(every[1])
    known = rf"at 16 tokens is nan \({every[1]:.3f} at 1x its training length\): .*SEXTANT_CHECK=reads"
    with pytest.raises(EvaluationError, match=known):
        evaluate.evaluate(Short(), text, lengths=[8, 16], progress=False)
