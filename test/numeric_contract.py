"""C7 of the pos dialect, tested as it is written there.

The rule: the largest error of a kernel is at most twice the largest error of plain
code for the same op in the same type, plus 1e-6 (f32) or 1e-3 (bf16) of the tensor's
largest magnitude, or of 1 if that is larger. Errors are against float64 on the same
operands; those of a backward include the output and the log-sum-exp as the forward
stored them, whose rounding is an error of the forward.

That of plain code is the largest over the input and its neighbours, `DRAWS` in all.
Without them the rule would be a coin toss for tensors of few elements: the error of
one number is random, and of two equally good methods the first is off by more than
twice the second in three inputs of ten. Neighbours only raise what is allowed, so a
test stops at the first that is enough.

At a kink (a unit at 0, a clamp, a whole position) the gradient jumps, and a point that
rounding cannot tell from it may be taken for one of either side. So the error of a
kernel is the least over the float64 results of the input and of inputs so near to it
that sums of f32 cannot tell them apart (`nudged`): it must be right for one of those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

DRAWS = 100
FACTOR = 2.0
FLOOR = {torch.float32: 1e-6, torch.bfloat16: 1e-3}


def neighbour(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A float64 tensor that is exact in ``dtype``, every element moved by up to 1/64:
    the same magnitudes and the same condition, other roundings. Keeps strides."""
    noise = torch.rand_like(tensor, dtype=torch.float64) * 2 - 1
    return (tensor.double() * (1 + noise / 64)).to(dtype).double()


def nudged(tensor: torch.Tensor, draw: int) -> torch.Tensor:
    """A float64 tensor, every element moved by up to 2^-22 to 2^-19 in turn: what the
    roundings of f32 come to in a short sum and in one of a few hundred terms. Keeps
    strides."""
    noise = torch.rand_like(tensor, dtype=torch.float64) * 2 - 1
    return tensor.double() * (1 + noise * 2.0 ** (draw % 4 - 22))


def error(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest difference; equal infinities agree, NaN never does."""
    if got.numel() == 0:
        return 0.0
    got, want = got.double(), want.double()
    difference = torch.where(got == want, 0.0, (got - want).abs())
    result = float(difference.max())
    return math.inf if math.isnan(result) else result


def magnitude(tensor: torch.Tensor) -> float:
    finite = tensor[torch.isfinite(tensor)]
    return float(finite.abs().max()) if finite.numel() else 0.0


class Comparison:
    """Collects results by name, draw by draw, and holds them to the rule."""

    def __init__(self, dtype: torch.dtype):
        self.dtype = dtype
        self.kernel: dict[str, float] = {}
        self.plain: dict[str, float] = {}
        self.size: dict[str, float] = {}
        self.first: dict[str, torch.Tensor] = {}

    def add(
        self,
        kernel: Mapping[str, torch.Tensor],
        plain: Mapping[str, torch.Tensor],
        exact: Mapping[str, torch.Tensor],
    ) -> None:
        """One draw: results of the kernel, of plain code and of float64, by name."""
        for name, want in exact.items():
            # The first draw is the input.
            self.first.setdefault(name, kernel[name])
            self.kernel.setdefault(name, error(kernel[name], want))
            self.size.setdefault(name, magnitude(want))
            # What plain code cannot compute excuses nothing.
            found = error(plain[name], want)
            found = found if math.isfinite(found) else 0.0
            self.plain[name] = max(self.plain.get(name, 0.0), found)

    def add_nudged(self, exact: Mapping[str, torch.Tensor]) -> None:
        """Results of float64 for the input of the first draw, `nudged`."""
        for name, want in exact.items():
            found = error(self.first[name], want)
            self.kernel[name] = min(self.kernel[name], found)

    def allowed(self, name: str) -> float:
        return FACTOR * self.plain[name] + FLOOR[self.dtype] * max(1.0, self.size[name])

    def violations(self) -> list[str]:
        return [
            f"{name}: {found:.3g} > {self.allowed(name):.3g}"
            for name, found in self.kernel.items()
            if not found <= self.allowed(name)
        ]

    def holds(self) -> bool:
        return not self.violations()

    def check(self, what: str) -> None:
        assert self.holds(), f"{what} {'; '.join(self.violations())}"
