"""Inputs of an attention, or of a row map, and C7 held for whatever computes its results.

A kernel is a function of inputs that gives results by name, the reference an object that
runs the definition in the type of its inputs. Nothing here needs Sextant's package, so
that a machine with a GPU can hold kernels to C7 as well (test/gpu). The rule itself is in
numeric_contract.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from numeric_contract import DRAWS, ROUNDING, Comparison, neighbour, nudged


@dataclass
class Inputs:
    """Tensors of a call in float64; `cast` gives them in another type."""

    query: torch.Tensor
    key: torch.Tensor
    values: list[torch.Tensor]
    output_grads: list[torch.Tensor]
    lse_grad: torch.Tensor
    params: dict[str, torch.Tensor] = field(default_factory=dict)
    positions: dict[str, torch.Tensor] = field(default_factory=dict)
    scale: float | None = None
    deterministic: bool = True

    @staticmethod
    def drawn(query, key, values, params=None, positions=None) -> Inputs:
        """Operands as given, and gradients of the results drawn to fit them."""
        values = list(values) if isinstance(values, Sequence) else [values]
        rows = query.shape[:3]
        return Inputs(
            query.double(),
            key.double(),
            [v.double() for v in values],
            [torch.randn(*rows, v.shape[-1]).to(query.dtype).double() for v in values],
            torch.randn(rows).double(),
            {n: _floating(t, torch.float64) for n, t in (params or {}).items()},
            positions or {},
        )

    def each(self, rows: Callable, sums: Callable) -> Inputs:
        """`rows` of what has the type of the call, `sums` of what is f32 or wider."""
        return replace(
            self,
            query=rows(self.query),
            key=rows(self.key),
            values=[rows(v) for v in self.values],
            output_grads=[rows(g) for g in self.output_grads],
            lse_grad=sums(self.lse_grad),
            params={
                n: sums(t) if t.dtype.is_floating_point else t
                for n, t in self.params.items()
            },
        )

    def cast(self, dtype: torch.dtype) -> Inputs:
        compute = torch.float64 if dtype == torch.float64 else torch.float32
        return self.each(lambda t: t.to(dtype), lambda t: t.to(compute))

    def neighbours(self, dtype: torch.dtype, draw: int) -> Inputs:
        """Inputs next to these, exact in ``dtype``; see numeric_contract.py."""
        return self.each(
            lambda t: neighbour(t, dtype, draw), lambda t: neighbour(t, torch.float32, draw)
        )

    def nudged(self, draw: int) -> Inputs:
        """Inputs that f32 hardly tells from these, in float64; see numeric_contract.py."""

        def move(t: torch.Tensor) -> torch.Tensor:
            return nudged(t, draw)

        return self.each(move, move)

    def rounded(self, dtype: torch.dtype, roundings: int = 1, params: bool = False) -> Inputs:
        """Operands moved by up to some roundings to ``dtype``. One moves a sum of products
        as far as the rounding of the other operand does, P or dS, which plain code in that
        type rounds. With ``params`` also parameters, of which plain code makes operands."""

        def move(t: torch.Tensor) -> torch.Tensor:
            noise = torch.rand(t.shape, dtype=torch.float64) * 2 - 1
            return t * (1 + roundings * ROUNDING[dtype] * noise)

        moved = self.each(move, lambda t: t)
        if params:
            own = moved.params.items()
            moved.params = {n: move(t) if t.dtype.is_floating_point else t for n, t in own}
        return moved


def _floating(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    tensor = tensor.detach()
    return tensor.to(dtype) if tensor.dtype.is_floating_point else tensor


def forward_names(inputs: Inputs) -> list[str]:
    single = len(inputs.values) == 1
    names = ["output"] if single else [f"output[{i}]" for i in range(len(inputs.values))]
    return [*names, "lse"]


def gradient_names(inputs: Inputs) -> list[str]:
    single = len(inputs.values) == 1
    names = ["value"] if single else [f"value[{i}]" for i in range(len(inputs.values))]
    return [f"d {n}" for n in ("query", "key", *names)]


class Reference(Protocol):
    """An encoding's definition, run literally in the type of the inputs."""

    def forward(self, inputs: Inputs) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
        """Outputs, log-sum-exp and the statistics of the softmax."""

    def backward(
        self, inputs: Inputs, results: list[torch.Tensor], gradients: list[torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Gradients by name, of the forward's results and their gradients."""


def forward(reference: Reference, inputs: Inputs) -> dict[str, torch.Tensor]:
    """Outputs and log-sum-exp, in the type of the inputs; in float64."""
    outputs, lse, _ = reference.forward(inputs)
    found = zip(forward_names(inputs), [*outputs, lse])
    return {n: t.detach().double() for n, t in found}


def _row_term(reference: Reference, inputs: Inputs) -> torch.Tensor:
    """What the log-sum-exp of a row has beyond that of its scores, in float64."""
    *_, lse, statistics = reference.forward(inputs.cast(torch.float64))
    shift, sum = statistics.unbind(-1)
    return torch.where(torch.isfinite(lse), lse - shift - sum.log(), 0.0)


def gradients_of(inputs: Inputs, lse: torch.Tensor) -> list[torch.Tensor]:
    """Gradients of a forward's results. A row that sees no key has lse = -inf: its
    gradient must not poison others."""
    return [*inputs.output_grads, torch.where(torch.isfinite(lse), inputs.lse_grad, 0.0)]


def backward(
    reference: Reference,
    inputs: Inputs,
    stored: dict[str, torch.Tensor],
    normalizes: bool = False,
) -> dict[str, torch.Tensor]:
    """Gradients in the type of the inputs, from the outputs and the log-sum-exp that a
    forward stored; in float64. The statistics of a softmax are the log-sum-exp itself,
    where the exponentials of a row are shifted by it, less what is added to the
    log-sum-exp only; with ``normalizes`` those of the reference's own forward."""
    dtype, compute = inputs.query.dtype, inputs.lse_grad.dtype
    *outputs, lse = (stored[n] for n in forward_names(inputs))
    if normalizes:
        statistics = reference.forward(inputs)[-1]
    else:
        seen = torch.isfinite(lse)
        statistics = torch.stack([lse.double() - _row_term(reference, inputs), seen], -1)
    found = reference.backward(
        inputs,
        [*(o.to(dtype) for o in outputs), lse.to(compute), statistics.to(compute)],
        gradients_of(inputs, lse),
    )
    return {n: t.double() for n, t in found.items()}


@dataclass(frozen=True)
class Rule:
    """What C7 asks of a kernel: ``dtype`` is that of a call, ``products`` what operands
    of products are rounded to, ``roundings`` times."""

    dtype: torch.dtype
    products: torch.dtype
    roundings: int = 1
    rounds_params: bool = False


def hold(
    first: Inputs,
    kernel: Callable[[Inputs], dict[str, torch.Tensor]],
    reference: Reference,
    rule: Rule,
    gradients: bool = True,
    plain_of: Callable[[Inputs], tuple[Reference, Inputs]] | None = None,
) -> Comparison:
    """Compares outputs, log-sum-exp and all gradients, if wanted, of a kernel with the
    reference. Values of `first` are exact in the rule's dtype. ``plain_of`` gives the
    definition that plain code of 16 bits runs instead, and its inputs, of moved operands."""

    def results(
        inputs: Inputs, stored: dict[str, torch.Tensor], of: Reference = reference
    ) -> dict[str, torch.Tensor]:
        found = forward(of, inputs)
        return found | backward(of, inputs, stored) if gradients else found

    rounds = rule.products in ROUNDING
    comparison = Comparison(rule.products)
    for draw in range(DRAWS):
        plain_reference = reference
        # Other roundings come with other inputs in f32, with other draws of them in bf16.
        if not draw or not rounds:
            inputs = first.neighbours(rule.dtype, draw) if draw else first
            got = kernel(inputs.cast(rule.dtype))
            exact = results(inputs, got)
        if rounds:
            plain = inputs.rounded(rule.products, rule.roundings, rule.rounds_params)
            if plain_of:
                plain_reference, plain = plain_of(plain)
        else:
            plain = inputs.cast(torch.float32)
        comparison.add(got, results(plain, got, plain_reference), exact)
        if rounds and not comparison.holds():
            # Where no product reaches a score, nothing moves with its operands, and what is
            # left is the rounding of sums in f32.
            near = first.neighbours(torch.float32, draw) if draw else first
            comparison.add_plain(
                forward(reference, near.cast(torch.float32)), forward(reference, near)
            )
        if gradients and not draw and not comparison.holds():
            comparison.add_other(backward(reference, inputs, got, normalizes=True))
        if comparison.holds():
            break
        comparison.add_other(results(first.nudged(draw), comparison.first))
    return comparison


@dataclass
class RowInputs:
    """Tensors of a row map outside of attention in float64, and the gradient of its result."""

    rows: torch.Tensor
    gradient: torch.Tensor
    params: dict[str, torch.Tensor]

    def cast(self, dtype: torch.dtype) -> RowInputs:
        """Parameters are f32 or wider."""
        compute = torch.float64 if dtype == torch.float64 else torch.float32
        params = {n: _floating(t, compute) for n, t in self.params.items()}
        return RowInputs(self.rows.to(dtype), self.gradient.to(dtype), params)


def hold_rows(
    first: RowInputs,
    kernel: Callable[[RowInputs], dict[str, torch.Tensor]],
    reference: Callable[[RowInputs], dict[str, torch.Tensor]],
    dtype: torch.dtype,
) -> Comparison:
    """Compares mapped rows and all gradients of a kernel with the reference. Rows of any
    type are computed with in f32: that is what plain code does, and what is stored in
    16 bits may be off by that one rounding besides."""
    comparison = Comparison(torch.float32)
    plain, exact = (reference(first.cast(t)) for t in (torch.float32, torch.float64))
    got = kernel(first.cast(dtype))
    comparison.add(got, plain, {n: t.double() for n, t in exact.items()})
    return comparison
