"""Evaluation at multiples of the training length and other lengths, in two protocols.

*All tokens*: the mean loss over non-overlapping blocks of the held-out text.
*Last tokens*: the mean over the last k tokens of each block, which see a long
context. Losses are in nats per byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from ..bars import bar
from ..errors import NOT_FINITE, RunError
from ..report.results import Multiple, multiple_of
from .data import DataError, Text, blocks
from .model import Model

MULTIPLES = (1, 2, 4, 8)
LAST = 64
_TOKENS_AT_ONCE = 8192


class EvaluationError(RunError):
    """A model gives no losses."""


def mean_losses(
    model: Model,
    data: torch.Tensor,
    length: int,
    last: int,
    after_tokens: Callable[[int], object] | None = None,
) -> tuple[float, float]:
    """Mean loss over blocks of ``length``: of all tokens that count, and of those among the
    last ``last`` of each block. ``after_tokens`` is called with numbers of tokens that are done."""
    tokens, labels = blocks(data, length)
    rows = max(_TOKENS_AT_ONCE // length, 1)
    parts: list[torch.Tensor] = []
    counted: list[torch.Tensor] = []
    for start in range(0, len(tokens), rows):
        own = slice(start, start + rows)
        found = model.token_losses(tokens[own], labels[own])
        parts.append(found[0])
        counted.append(found[1])
        if after_tokens:
            after_tokens(parts[-1].numel())
    losses, counts = torch.cat(parts).double(), torch.cat(counted)
    return _mean(losses, counts), _mean(losses[:, -last:], counts[:, -last:])


def _mean(losses: torch.Tensor, counted: torch.Tensor) -> float:
    """Of the tokens that count."""
    if not counted.any():
        raise EvaluationError("none of the tokens to evaluate counts; take longer blocks")
    return float(losses[counted].mean())


def evaluate(
    model: Model,
    text: Text,
    *,
    lengths: Sequence[int],
    last: int = LAST,
    most_blocks: int = 0,
    progress: bool = True,
) -> tuple[dict[Multiple, float], dict[Multiple, float]]:
    """Losses of all tokens and of the last tokens at ``lengths`` in tokens, by multiple of
    the training length; on the text of at most ``most_blocks`` blocks of the longest, 0
    for all. Lengths for which the text is too short are an error, and so is a loss that
    is not finite."""
    config = model.config
    all_tokens: dict[Multiple, float] = {}
    last_tokens: dict[Multiple, float] = {}
    held_out = text.validation
    if len(held_out) <= max(lengths):
        raise DataError(
            f"the validation text has {len(held_out)} bytes; a block of {max(lengths)} tokens "
            f"needs {max(lengths) + 1}: train with --validation {max(lengths) + 1}, or more"
        )
    if most_blocks:
        held_out = held_out[: most_blocks * max(lengths) + 1]
    total = sum((len(held_out) - 1) // n * n for n in lengths)
    name = f"{config.name}: evaluate"
    with bar(total=total, desc=name, unit="byte", shown=progress, leave=False) as shown:
        for length in dict.fromkeys(lengths):
            # Drawn positions are those of the length, whatever was evaluated before.
            model.evaluation.manual_seed(config.seed)
            means = mean_losses(model, held_out, length, min(last, length), shown.update)
            multiple = multiple_of(length, config.length)
            if not all(map(math.isfinite, means)):
                known = ", ".join(f"{loss:.3f} at {n:g}x" for n, loss in all_tokens.items())
                raise EvaluationError(
                    f"{config.name}: the loss at {length} tokens is {means[0]}"
                    f"{known and f' ({known} its training length)'}: {NOT_FINITE}"
                )
            all_tokens[multiple], last_tokens[multiple] = means
    return all_tokens, last_tokens
