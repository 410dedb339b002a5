"""Inputs for conformance: any encoding, any shape.

Nothing here knows an encoding: what one needs is read off its declarations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import attention_contract
import pytest
import torch
from attention_contract import Inputs
from contract_inputs import RowInputs, hold_rows

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
    positions: str = ""  # "", "shared", "batch", "divisor", "repeated" or "random"
    transposed: bool = False
    scale: float | None = None
    label: str = ""

    @property
    def uses(self) -> list[str]:
        needs = definitions.signature([self.encoding]).requires_past
        past = ["past=causal"] if needs and "past=causal" not in self.before else []
        return [*past, *self.before, self.encoding, *self.after]


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
    # An index has one axis: encodings of grids are always given positions.
    axes = definitions.axes(case.uses)
    kind = case.positions or ("shared" if axes > 1 else "")
    if kind == "random":
        # One draw for queries and keys, two axes alike, wider than tables of offsets.
        drawn = sextant.random_positions(max(case.query, case.key), 8192, draw)
        for side, length in (("query", case.query), ("key", case.key)):
            positions[f"{side}_positions"] = drawn[-length:, None].expand(-1, 2)[None]
    elif kind:
        count = {"shared": 1, "divisor": case.batch // 2}.get(kind, case.batch)
        for side, length in (("query", case.query), ("key", case.key)):
            # Two axes at least: what asks for one reads the first.
            steps = torch.randint(1, 4, (count, length, max(axes, 2)), generator=draw)
            positions[f"{side}_positions"] = steps.cumsum(1).to(torch.int32)
            if kind == "repeated":  # as those of short texts, one after the other
                positions[f"{side}_positions"] %= 23
    return Inputs(
        rows(case.heads, case.query, case.head_dim),
        rows(case.kv_heads, case.key, case.head_dim),
        [rows(case.kv_heads, case.key, case.value_dim)],
        [rows(case.heads, case.query, case.value_dim)],
        torch.randn(
            (case.batch, case.heads, case.query), generator=draw, dtype=torch.float64
        ),
        make_params(case.uses, extents_of(case), draw),
        positions,
        case.scale,
    )


def takes_groups(encoding: str) -> bool:
    """Whether queries of several heads may share a head of keys. A row map of keys
    that differs between heads says no when it is called."""
    case = Case(encoding, batch=1, heads=2, kv_heads=1, query=2, key=2, head_dim=8, value_dim=8)
    try:
        attention_contract.run(case.uses, make_inputs(case, 0), "reference")
    except sextant.RuntimeError as refusal:
        assert "grouped queries" in str(refusal)
        return False
    return True


def compare(
    case: Case,
    target: str,
    dtype: torch.dtype,
    seed: int,
    gradients: bool = True,
    cancels: bool = False,
) -> set[str]:
    """Holds output, log-sum-exp and all gradients, if wanted, to C7; the directions on
    tensor cores. ``cancels`` as in attention_contract.py."""
    if case.heads != case.kv_heads and not takes_groups(case.encoding):
        pytest.skip("refuses grouped queries, as it should")
    torch.manual_seed(seed)
    inputs = make_inputs(case, seed, dtype)
    return attention_contract.compare(
        case.uses, inputs, target, dtype, case, gradients=gradients, cancels=cancels
    )


def row_map(row_encoding: str, target: str) -> Callable[[RowInputs], dict[str, torch.Tensor]]:
    """A row map with all its gradients, as a function of inputs."""
    signature = definitions.signature([row_encoding])
    (operand, *_) = signature.operands
    trained = [p.name for p in signature.params if p.trained]

    def results(inputs: RowInputs) -> dict[str, torch.Tensor]:
        leaf = inputs.rows.detach().requires_grad_()
        own = {n: t.detach().requires_grad_(n in trained) for n, t in inputs.params.items()}
        y = sextant.map_rows(leaf, [row_encoding], own, of=operand, target=target)
        y.backward(inputs.gradient)
        found = {"rows": y.detach(), "d rows": leaf.grad}
        return found | {f"d {n}": own[n].grad for n in trained}

    return results


def compare_row_map(
    row_encoding: str, target: str, seed: int, dtype: torch.dtype = torch.float32
) -> None:
    """Encodings of embeddings: values and gradients, against the reference."""
    draw = torch.Generator().manual_seed(seed)
    case = Case(row_encoding, batch=3, heads=1, kv_heads=1, query=19, key=19, head_dim=12)
    extents = {**extents_of(case), "model": 12, "value_dim": 12}
    params = make_params([row_encoding], extents, draw)
    rows, gradient = (
        torch.randn(3, 19, 12, generator=draw, dtype=torch.float64).to(dtype).double()
        for _ in range(2)
    )
    comparison = hold_rows(
        RowInputs(rows, gradient, params),
        row_map(row_encoding, target),
        row_map(row_encoding, "reference"),
        dtype,
    )
    comparison.check(f"{row_encoding} on {target} in {dtype}:")
