"""Evaluation at multiples of the training length, in two protocols.

*All tokens*: the mean loss over non-overlapping blocks of the held-out text.
*Last tokens*: the mean over the last k tokens of each block, which see a long
context. Losses are in nats per byte.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tqdm import tqdm

from .config import TrainConfig
from .data import Text, blocks
from .model import Model

MULTIPLES = (1, 2, 4, 8)
LAST = 64
_TOKENS_AT_ONCE = 8192


def mean_losses(
    model: Model, data: torch.Tensor, length: int, last: int
) -> tuple[float, float]:
    """Mean loss over blocks of ``length``: of all tokens, and of the last ``last``
    of each block."""
    tokens, labels = blocks(data, length)
    rows = max(_TOKENS_AT_ONCE // length, 1)
    parts = [
        model.token_losses(tokens[start : start + rows], labels[start : start + rows])
        for start in range(0, len(tokens), rows)
    ]
    losses = torch.cat(parts).double()
    return float(losses.mean()), float(losses[:, -last:].mean())


def evaluate(
    model: Model,
    config: TrainConfig,
    text: Text,
    *,
    multiples: Sequence[int] = MULTIPLES,
    last: int = LAST,
    progress: bool = True,
) -> tuple[dict[int, float], dict[int, float]]:
    """Losses of all tokens and of the last tokens, by multiple of the training
    length. Multiples for which the text is too short are an error."""
    all_tokens, last_tokens = {}, {}
    bar = tqdm(multiples, desc=f"{config.name}: evaluate", disable=not progress, leave=False)
    for multiple in bar:
        length = multiple * config.length
        all_tokens[multiple], last_tokens[multiple] = mean_losses(
            model, text.validation, length, min(last, length)
        )
    return all_tokens, last_tokens
