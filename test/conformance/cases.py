"""Inputs for conformance: any encoding, any shape, and how far results may be off.

Nothing here knows an encoding: what one needs is read off its declarations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

import sextant
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
            steps = torch.randint(1, 4, (count, length, 1), generator=draw)
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


def error(got: torch.Tensor, want: torch.Tensor) -> float:
    """Root mean square of the difference, which of two equally good methods varies
    little from draw to draw; equal infinities agree, NaN never does."""
    if got.numel() == 0:
        return 0.0
    difference = torch.where(got == want, 0.0, got - want)
    result = float(difference.square().mean().sqrt())
    return math.inf if math.isnan(result) else result


def plain_attention(inputs: Inputs, case: Case) -> dict[str, torch.Tensor]:
    """Attention without encodings as plain PyTorch writes it, in the inputs' type."""
    leaves = [
        t.detach().clone().requires_grad_()
        for t in (inputs.query, inputs.key, inputs.value)
    ]
    group = case.heads // case.kv_heads
    key, value = (t.repeat_interleave(group, 1) for t in leaves[1:])
    score = leaves[0] @ key.transpose(-1, -2) / math.sqrt(case.head_dim)
    lse = torch.logsumexp(score.to(inputs.lse_grad.dtype), -1)
    output = torch.softmax(score, -1) @ value
    torch.autograd.backward([output, lse], [inputs.output_grad, inputs.lse_grad])
    names = ("query", "key", "value")
    result = {"output": output, "lse": lse}
    result |= {f"d {n}": t.grad for n, t in zip(names, leaves)}
    return {n: t.detach().double() for n, t in result.items()}


def perturbed(inputs: Inputs, seed: int, relative: float) -> Inputs:
    """Inputs with every operand off by up to ``relative`` (parameters, which stay
    f32, by two roundings of f32)."""
    draw = torch.Generator().manual_seed(seed)

    def move(t: torch.Tensor, relative: float = relative) -> torch.Tensor:
        noise = torch.rand(t.shape, generator=draw, dtype=torch.float64) * 2 - 1
        return t * (1 + relative * noise)

    return Inputs(
        move(inputs.query),
        move(inputs.key),
        move(inputs.value),
        move(inputs.output_grad),
        inputs.lse_grad,
        {
            n: move(t, 2.0**-22) if t.dtype.is_floating_point else t
            for n, t in inputs.params.items()
        },
        inputs.positions,
    )


def tolerances(
    case: Case, inputs: Inputs, exact: dict[str, torch.Tensor], dtype: torch.dtype, seed: int
) -> dict[str, float]:
    """C7: twice the error of plain PyTorch in the same type, plus a constant.

    Plain PyTorch has no form of an encoding that nobody wrote for it. Its error is
    that of plain attention without encodings; for what the encoding changes
    (gradients of parameters, larger scores) it is what two roundings, one of each
    operand and one of the score, change in the exact result: both are put on the
    operands, and the largest of a few draws counts; in f32 also the definition run
    literally in f32.
    """
    narrow = inputs.cast(dtype)
    plain = plain_attention(narrow, case) if case.key else {}
    plain_exact = plain_attention(inputs, case) if case.key else {}
    rounding = 2 * {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-8}[dtype]
    moved = [
        run(case, perturbed(inputs, seed + i, rounding), "reference") for i in range(4)
    ]
    literal = run(case, narrow, "reference") if dtype == torch.float32 else {}
    constant = 1e-6 if dtype == torch.float32 else 1e-3
    result = {}
    for name, want in exact.items():
        errors = [error(m[name], want) for m in moved]
        if name in plain:
            errors.append(error(plain[name], plain_exact[name]))
        if name in literal:
            errors.append(error(literal[name], want))
        finite = [e for e in errors if math.isfinite(e)]
        # The root mean square of a few numbers varies twofold from draw to draw.
        factor = 2 if want.numel() >= 32 else 4
        result[name] = factor * max(finite, default=0.0) + constant
    return result
