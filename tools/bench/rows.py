"""What a section of the benchmark is given, and the rows that it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from timing import Rounds

SHAPES = ((4, 12, 1024, 64), (1, 16, 4096, 128))
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Row:
    """One measured number, and what it should at least (or at most) be."""

    section: str
    work: str
    threads: int
    value: float
    unit: str = "x"
    goal: float | None = None
    low: float | None = None
    high: float | None = None
    at_most: bool = False
    note: str = ""

    @property
    def holds(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value <= self.goal if self.at_most else self.value >= self.goal

    def as_dict(self) -> dict:
        return {**asdict(self), "holds": self.holds}


@dataclass(frozen=True)
class Settings:
    """How a section is measured: threads, rounds, shapes, and what is left out."""

    threads: int
    rounds: int
    shapes: tuple = SHAPES
    is_quick: bool = False
    match: tuple[str, ...] = ()

    def wants(self, work: str) -> bool:
        """Whether a row of this work is asked for: it holds one of the texts of
        `match`, if there are any. Asked before the work is measured."""
        return not self.match or any(text in work for text in self.match)

    @property
    def inside(self) -> tuple[int, int, int, int]:
        """The shape at which encodings inside attention are measured."""
        return (1, 4, 512, 64) if self.is_quick else (1, 12, 2048, 64)

    @property
    def lengths(self) -> tuple:
        """The shapes at which encodings that cost no products are measured."""
        return self.shapes if self.is_quick else ((1, 4, 2048, 64), (1, 4, 8192, 64))

    @property
    def few(self) -> int:
        """Rounds of work that takes seconds."""
        return max(3, self.rounds // 2)

    def ratio(self, section, work, rounds: Rounds, ours, other, goal=None, note="") -> Row:
        """How many times as fast `ours` is as `other`: both are candidates of `rounds`."""
        ratio = rounds.ratio(ours, other)
        low, high = ratio.low, ratio.high
        return Row(section, work, self.threads, ratio.median, low=low, high=high, goal=goal, note=note)


def inputs(shape, dtype: torch.dtype) -> list[torch.Tensor]:
    """Query, key, value that want gradients, and a gradient of the output."""
    tensors = [torch.randn(shape, dtype=dtype) for _ in range(4)]
    for tensor in tensors[:3]:
        tensor.requires_grad_()
    return tensors


def flops(shape, is_causal: bool) -> float:
    """Of the two products of a forward."""
    batch, heads, length, dim = shape
    return 4.0 * batch * heads * length * length * dim / (2 if is_causal else 1)


def forward(run: Callable[[], torch.Tensor]) -> Callable[[], object]:
    def call():
        with torch.no_grad():
            return run()

    return call


def both(run: Callable[[], torch.Tensor | tuple[torch.Tensor, ...]], leaves, gradient) -> Callable[[], object]:
    """Forward and the gradients of `leaves`."""
    return lambda: torch.autograd.grad(run(), leaves, gradient)
