"""Encodings whose rows a model makes, one per token: attention with given rows, forward
and backward with the gradients of the rows, against our own plain kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from rows import Row, Settings, both, inputs
from timing import Rounds

import sextant


@dataclass(frozen=True)
class Given:
    """A use, the given tensors of each head, and the share of our plain kernel's speed
    that attention with them keeps."""

    use: str
    names: tuple[str, ...]
    plain: float
    shares_batch: bool = True  # the rows are the same for the whole batch
    width: float = 1.0  # of the rows, in head dims
    has_state: bool = False  # the probabilities weight as many numbers as a second value

    @property
    def instance(self) -> str:
        return self.use.partition("(")[0]


WORKS = (
    Given("seqpe", ("eq", "ek"), 0.6),
    Given("seqpe(form=mul)", ("eq", "ek"), 0.9),
    Given("seqpe(form=sum)", ("eq", "ek"), 0.9),
    Given("tape", ("zr", "zi"), 0.63, shares_batch=False, width=0.5, has_state=True),
)


class Problem:
    """Tensors of one work at one shape, and its calls."""

    def __init__(self, work: Given, shape: tuple[int, int, int, int]):
        self.work = work
        batch, heads, length, dim = shape
        *self.rows, self.gradient = inputs(shape, torch.float32)
        size = (1 if work.shares_batch else batch, heads, length, round(dim * work.width))
        self.given = {f"{work.instance}.{n}": torch.randn(size) for n in work.names}
        self.values, self.gradients = [self.rows[2]], [self.gradient]
        if work.has_state:
            self.values.append(torch.randn(shape).requires_grad_())
            self.gradients.append(torch.randn(shape))
        self.leaves = [*self.rows[:2], *self.values]
        self.leaves += [t.requires_grad_() for t in self.given.values()]

    def ours(self) -> tuple[torch.Tensor, ...]:
        query, key, _ = self.rows
        uses = ["causal", self.work.use]
        return sextant.attention(query, key, tuple(self.values), uses, self.given)

    def plain(self) -> torch.Tensor:
        query, key, value = self.rows
        return sextant.attention(query, key, value, ["causal"])

    def candidates(self) -> dict[str, Callable[[], object]]:
        return {
            "ours": both(self.ours, self.leaves, self.gradients),
            "plain": both(self.plain, self.rows, self.gradient),
        }


def given(settings: Settings) -> Iterator[Row]:
    """One long sequence, and a batch that shares rows where the encoding lets it."""
    shapes = ((2, 4, 128, 64),) if settings.is_quick else ((1, 12, 2048, 64), (8, 12, 512, 64))
    for shape in shapes:
        for work in WORKS:
            text = f"{shape} f32 causal {work.use} with given rows, forward + backward"
            if not settings.wants(text):
                continue
            rounds = Rounds(Problem(work, shape).candidates(), settings.rounds)
            yield settings.ratio(
                "encodings with given rows vs our plain kernel", text, rounds, "ours", "plain", work.plain
            )
