"""Inputs for conformance: any encoding, any shape, and how results are compared.

Nothing here knows an encoding: what one needs is read off its declarations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

import sextant
from numeric_contract import DRAWS, Comparison, neighbour
from sextant import definitions

KERNEL_OPERANDS = {"query", "key", "value"}


@dataclass
class Case:
    """An attention: shapes, the encoding under test and what it stands among."""

    encoding: str
    batch: int = 2
    heads: int = 4
    kv_heads: int = 4
    query: int = 33
    key: int = 33
    head_dim: int = 16
    value_dim: int = 16
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    positions: str = ""  # "", "shared" or "batch"
    transposed: bool = False
    label: str = ""

    @property
    def uses(self) -> list[str]:
        return [*self.before, self.encoding, *self.after]


@dataclass
class Inputs:
    """Tensors of a case in float64; `cast` gives them in another type."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    output_grad: torch.Tensor
    lse_grad: torch.Tensor
    params: dict[str, torch.Tensor]
    positions: dict[str, torch.Tensor] = field(default_factory=dict)

    def cast(self, dtype: torch.dtype) -> "Inputs":
        compute = torch.float64 if dtype == torch.float64 else torch.float32

        def param(t: torch.Tensor) -> torch.Tensor:
            return t.to(compute) if t.dtype.is_floating_point else t

        def rows(t: torch.Tensor) -> torch.Tensor:
            return t.to(dtype)  # keeps strides

        return Inputs(
            rows(self.query),
            rows(self.key),
            rows(self.value),
            rows(self.output_grad),
            self.lse_grad.to(compute),
            {n: param(t) for n, t in self.params.items()},
            self.positions,
        )


def extents_of(case: Case) -> dict[str, int]:
    return {
        "batch": case.batch,
        "heads": case.heads,
        "kv_heads": case.kv_heads,
        "head_dim": case.head_dim,
        "value_dim": case.value_dim,
        "model": case.heads * case.head_dim,
        "query": case.query,
        "key": case.key,
    }


def make_params(uses, extents, draw: torch.Generator) -> dict[str, torch.Tensor]:
    """Every parameter of some uses: initial values, moved a little so that no
    two elements are equal; integers are drawn from 0 .. 2."""
    signature = definitions.signature(uses)
    made = sextant.initial.values(
        signature,
        [p for p in signature.params if not p.given],
        extents,
        int(torch.randint(0, 2**31, (), generator=draw)),
        torch.float64,
    )
    shapes = definitions.shapes(signature, extents)
    for param in signature.params:
        shape = shapes[param.name]
        if param.element == "i32":
            made[param.name] = torch.randint(0, 3, shape, generator=draw, dtype=torch.int32)
        elif param.given:
            made[param.name] = torch.randn(shape, generator=draw, dtype=torch.float64)
        elif param.trained:
            noise = torch.rand(shape, generator=draw, dtype=torch.float64)
            made[param.name] = made[param.name] + 0.1 * noise
    # f32 values in f64, so that all backends start from the same numbers.
    return {
        n: t.float().double() if t.dtype.is_floating_point else t
        for n, t in made.items()
    }


def make_inputs(case: Case, seed: int, dtype: torch.dtype = torch.float32) -> Inputs:
    """Fresh inputs whose values are exact in ``dtype``."""
    draw = torch.Generator().manual_seed(seed)

    def rows(heads: int, length: int, dim: int) -> torch.Tensor:
        shape = (case.batch, heads, length, dim)
        if case.transposed:
            shape = (case.batch, length, heads, dim)
        t = torch.randn(shape, generator=draw, dtype=torch.float64)
        t = t.to(dtype).double()
        return t.transpose(1, 2) if case.transposed else t

    positions = {}
    if case.positions:
        count = case.batch if case.positions == "batch" else 1
        for side, length in (("query", case.query), ("key", case.key)):
            # Two axes: what asks for one reads the first.
            steps = torch.randint(1, 4, (count, length, 2), generator=draw)
            positions[f"{side}_positions"] = steps.cumsum(1).to(torch.int32)
    return Inputs(
        rows(case.heads, case.query, case.head_dim),
        rows(case.kv_heads, case.key, case.head_dim),
        rows(case.kv_heads, case.key, case.value_dim),
        rows(case.heads, case.query, case.value_dim),
        torch.randn(
            (case.batch, case.heads, case.query), generator=draw, dtype=torch.float64
        ),
        make_params(case.uses, extents_of(case), draw),
        positions,
    )


def run(case: Case, inputs: Inputs, target: str) -> dict[str, torch.Tensor]:
    """Output, lse and all gradients, in float64."""
    leaves = {
        "query": inputs.query.detach().requires_grad_(),
        "key": inputs.key.detach().requires_grad_(),
        "value": inputs.value.detach().requires_grad_(),
    }
    trained = {p.name for p in definitions.signature(case.uses).params if p.trained}
    params = {
        n: t.detach().clone().requires_grad_(n in trained)
        for n, t in inputs.params.items()
    }
    output, lse = sextant.attention(
        leaves["query"],
        leaves["key"],
        leaves["value"],
        case.uses,
        params,
        return_lse=True,
        target=target,
        **inputs.positions,
    )
    # A row that sees no key has lse = -inf: its gradient must not poison others.
    seen = torch.isfinite(lse)
    torch.autograd.backward(
        [output, lse],
        [inputs.output_grad, torch.where(seen, inputs.lse_grad, 0.0)],
    )
    result = {"output": output, "lse": lse}
    result |= {f"d {n}": t.grad for n, t in leaves.items()}
    result |= {f"d {n}": t.grad for n, t in params.items() if n in trained}
    return {n: t.detach().double() for n, t in result.items()}


def backward(
    case: Case, inputs: Inputs, stored: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Gradients by the reference, in the type of the inputs, from the output and the
    log-sum-exp that a forward stored; in float64."""
    dtype, compute = inputs.query.dtype, inputs.lse_grad.dtype
    seen = torch.isfinite(stored["lse"])
    dq, dk, dv, *rest = torch.ops.sextant.attention_backward(
        inputs.query,
        inputs.key,
        [inputs.value],
        [stored["output"].to(dtype)],
        stored["lse"].to(compute),
        [inputs.output_grad],
        torch.where(seen, inputs.lse_grad, 0.0),
        list(inputs.params.values()),
        "\n".join(inputs.params),
        "\n".join(case.uses),
        "",
        inputs.positions.get("query_positions"),
        inputs.positions.get("key_positions"),
        None,
        "reference",
    )
    trained = {p.name for p in definitions.signature(case.uses).params if p.trained}
    gradients = {"query": dq, "key": dk, "value": dv}
    gradients |= {n: t for n, t in zip(inputs.params, rest) if n in trained}
    return {f"d {n}": t.double() for n, t in gradients.items()}


def forward(case: Case, inputs: Inputs) -> dict[str, torch.Tensor]:
    """Output and log-sum-exp by the reference, in the type of the inputs; in float64."""
    output, lse = sextant.attention(
        inputs.query,
        inputs.key,
        inputs.value,
        case.uses,
        inputs.params,
        return_lse=True,
        target="reference",
        **inputs.positions,
    )
    return {"output": output.double(), "lse": lse.double()}


def neighbours(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """Inputs next to these, exact in ``dtype``; see numeric_contract.py."""

    def move(t: torch.Tensor, to: torch.dtype = dtype) -> torch.Tensor:
        return neighbour(t, to) if t.dtype.is_floating_point else t

    return Inputs(
        move(inputs.query),
        move(inputs.key),
        move(inputs.value),
        move(inputs.output_grad),
        move(inputs.lse_grad, torch.float32),
        {n: move(t, torch.float32) for n, t in inputs.params.items()},
        inputs.positions,
    )


def rounded(inputs: Inputs) -> Inputs:
    """Operands of bf16 moved by up to two roundings: one of their own, and one of
    what plain code in bf16 makes of them and rounds again (scores, P, dP, dS)."""

    def move(t: torch.Tensor) -> torch.Tensor:
        noise = torch.rand(t.shape, dtype=torch.float64) * 2 - 1
        return t * (1 + 2 * 2.0**-8 * noise)

    return Inputs(
        move(inputs.query),
        move(inputs.key),
        move(inputs.value),
        move(inputs.output_grad),
        inputs.lse_grad,
        inputs.params,
        inputs.positions,
    )


def compare(case: Case, target: str, dtype: torch.dtype, seed: int) -> None:
    """Holds output, log-sum-exp and all gradients to C7.

    Nobody wrote PyTorch code for an encoding that is not known here. Plain code in
    f32 is the definition run literally in f32, one operation at a time; in bf16,
    which the reference does not have, it is the float64 result of operands moved by
    what bf16 rounds.
    """
    torch.manual_seed(seed)
    first = make_inputs(case, seed, dtype)
    comparison = Comparison(dtype)
    for draw in range(DRAWS):
        inputs = neighbours(first, dtype) if draw else first
        plain = inputs.cast(dtype) if dtype == torch.float32 else rounded(inputs)
        got = run(case, inputs.cast(dtype), target)
        comparison.add(
            got,
            forward(case, plain) | backward(case, plain, got),
            forward(case, inputs) | backward(case, inputs, got),
        )
        if comparison.holds():
            break
    comparison.check(f"{case} on {target} in {dtype}:")
