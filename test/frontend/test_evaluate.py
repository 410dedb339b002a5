"""Mean losses of an evaluation, counted by hand."""

import pytest
import torch

from sextant.training import evaluate
from sextant.training.evaluate import mean_losses


class Counting:
    """A model whose loss of a token is its place in the block, squared, and a hundred
    for each block before."""

    def __init__(self):
        self.rows = []

    def token_losses(self, tokens, labels):
        assert torch.equal(labels[:, :-1], tokens[:, 1:])
        first = sum(self.rows)
        self.rows.append(len(tokens))
        blocks = torch.arange(first, first + len(tokens))[:, None]
        return 100.0 * blocks + torch.arange(tokens.shape[1]) ** 2.0


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
