"""C7 of the pos dialect, tested as it is written there.

The rule of f32: the largest error of a kernel is at most twice the largest error of
plain code for the same op in the same type, plus 1e-6 of the tensor's largest
magnitude, or of 1 if that is larger. Errors are against float64 on the same operands;
those of a backward include the output and the log-sum-exp as the forward stored them,
whose rounding is an error of the forward. A kernel that keeps what normalizes its
probabilities does not have the rounding of the log-sum-exp, by which all numbers of a
row would be off together: it may be as near to the float64 result with probabilities
that are normalized (`add_other`).

Results that are stored as bf16 or f16 may be off by that one rounding besides, each
element by its own. Where a kernel computes them in f32 nothing else is allowed. Where operands
of products have 16 bits (`products`) the rule holds for each row by itself: an early row of
a causal attention has few terms and large errors, which must not excuse those of the
late ones.

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
FLOOR = 1e-6
# The largest error of one rounding: relative, and of numbers that are too small for
# that, absolute.
ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
SMALLEST = {torch.bfloat16: 0.0, torch.float16: 2.0**-25}


def products_of(
    target: str, dtype: torch.dtype, all_heads: bool = False, tensor_cores: bool = False
) -> torch.dtype:
    """What operands of the products of a kernel are rounded to. Scores of all heads are
    computed in f32 but by a unit of tiles; "cpu" may stand for any. On a GPU it depends
    on whether the kernel multiplies on tensor cores."""
    of_tiles = ("cpu", "cpu:amx", "cpu-emulated:amx")
    of_pairs = of_tiles if all_heads else (*of_tiles, "cpu:avx512bf16")
    dots = tensor_cores or target in of_pairs
    return dtype if dtype == torch.float64 or dots else torch.float32


def neighbour(tensor: torch.Tensor, dtype: torch.dtype, draw: int) -> torch.Tensor:
    """A float64 tensor that is exact in ``dtype``: the same magnitudes and the same
    condition, other roundings. Keeps strides. In draws of odd number every element is
    moved by up to 1/64. Among large scores that parts keys that were near each other,
    where the errors are; so in even ones f32 is moved as by `nudged`, less than bf16 and
    f16 have steps for."""
    if draw % 2 == 0 and dtype not in ROUNDING:
        return nudged(tensor, draw // 2).to(dtype).double()
    noise = torch.rand_like(tensor, dtype=torch.float64) * 2 - 1
    return (tensor.double() * (1 + noise / 64)).to(dtype).double()


def nudged(tensor: torch.Tensor, draw: int) -> torch.Tensor:
    """A float64 tensor, every element moved by up to 2^-22 to 2^-19 in turn: what the
    roundings of f32 come to in a short sum and in one of a few hundred terms. Keeps
    strides."""
    noise = torch.rand_like(tensor, dtype=torch.float64) * 2 - 1
    return tensor.double() * (1 + noise * 2.0 ** (draw % 4 - 22))


def largest(values: torch.Tensor, by_row: bool) -> torch.Tensor:
    """The largest of all values, or of each row."""
    if not by_row or values.dim() == 0:
        return values.amax() if values.numel() else values.new_zeros(())
    return values.amax(-1) if values.numel() else values.new_zeros(values.shape[:-1])


def error(got: torch.Tensor, want: torch.Tensor, by_row: bool = False) -> torch.Tensor:
    """The largest difference beyond the one rounding that storing `got` cost; equal
    infinities agree, NaN never does."""
    stored = got.dtype
    got, want = got.double(), want.double()
    difference = torch.where(got == want, 0.0, (got - want).abs())
    if stored in ROUNDING:
        # A number that f32's error moves to the next step is off by it, too.
        rounding = ROUNDING[stored]
        allowed = (1 + rounding) * rounding * want.abs()
        allowed = torch.where(want.isfinite(), allowed.clamp(min=SMALLEST[stored]), 0.0)
        difference = (difference - allowed).clamp(min=0)
    return largest(difference.nan_to_num(math.inf, math.inf), by_row)


def magnitude(tensor: torch.Tensor) -> float:
    finite = tensor[torch.isfinite(tensor)]
    return float(finite.abs().max()) if finite.numel() else 0.0


class Comparison:
    """Collects results by name, draw by draw, and holds them to the rule. `products`:
    the type that operands of products are rounded to."""

    def __init__(self, products: torch.dtype):
        self.by_row = products in ROUNDING
        self.kernel: dict[str, torch.Tensor] = {}
        self.plain: dict[str, torch.Tensor] = {}
        self.size: dict[str, float] = {}
        self.first: dict[str, torch.Tensor] = {}
        self.draws = 0

    def add(
        self,
        kernel: Mapping[str, torch.Tensor],
        plain: Mapping[str, torch.Tensor],
        exact: Mapping[str, torch.Tensor],
    ) -> None:
        """One draw: results of the kernel, of plain code and of float64, by name. Those
        of the kernel are in the type they are stored in."""
        self.draws += 1
        for name, want in exact.items():
            if name not in self.first:  # The first draw is the input.
                self.first[name] = kernel[name]
                self.kernel[name] = error(kernel[name], want, self.by_row)
                self.size[name] = magnitude(want)
                self.plain[name] = torch.zeros_like(self.kernel[name])
        self.add_plain(plain, exact)

    def add_plain(
        self, plain: Mapping[str, torch.Tensor], exact: Mapping[str, torch.Tensor]
    ) -> None:
        """Results of plain code alone: of a neighbour, or by another way of computing them."""
        for name, want in exact.items():
            # What plain code cannot compute excuses nothing.
            found = error(plain[name], want, self.by_row)
            found = torch.where(found.isfinite(), found, 0.0)
            self.plain[name] = torch.maximum(self.plain[name], found)

    def add_other(self, exact: Mapping[str, torch.Tensor]) -> None:
        """Results of float64 for the input of the first draw that are as right: of the
        input `nudged`, or of probabilities that are normalized in float64."""
        for name, want in exact.items():
            found = error(self.first[name], want, self.by_row)
            self.kernel[name] = torch.minimum(self.kernel[name], found)

    def allowed(self, name: str) -> torch.Tensor:
        return FACTOR * self.plain[name] + FLOOR * max(1.0, self.size[name])

    def violations(self) -> list[str]:
        found = []
        for name, errors in self.kernel.items():
            allowed = self.allowed(name)
            wrong = ~(errors <= allowed)
            if wrong.any():
                # The row that is worst by what it is allowed.
                excess = torch.where(wrong, errors / allowed, 0.0)
                worst = int(excess.argmax())
                place = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), wrong.shape))
                rows = f" in row {place}, {int(wrong.sum())} of {wrong.numel()} rows" if place else ""
                limits = allowed.flatten()[worst], errors.flatten()[worst]
                found.append(f"{name}: {limits[1]:.3g} > {limits[0]:.3g}{rows}")
        return found

    def holds(self) -> bool:
        return not self.violations()

    def check(self, what: str) -> None:
        assert self.holds(), f"{what} {'; '.join(self.violations())}"
