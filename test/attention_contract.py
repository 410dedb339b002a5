"""Attention held to C7: one call of a kernel against the reference, all results.

Nobody wrote PyTorch code for an encoding that is not known here. Plain code in f32 is
the definition run literally in f32, one operation at a time, and so it is for kernels
that compute operands of 16 bits in f32. For products of these, which the reference does not
have, it is the float64 result of operands moved by one rounding, which stands for those
of scores, P and dS. The rule itself is in numeric_contract.py, how it is held in
contract_inputs.py.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from dataclasses import replace
from unittest import mock

import torch
from contract_inputs import (
    Inputs,
    Rule,
    backward,
    forward,
    forward_names,
    gradient_names,
    gradients_of,
    hold,
)
from numeric_contract import ROUNDING, products_of

import sextant
from sextant import backend, definitions


def _trained(uses) -> set[str]:
    return {p.name for p in definitions.signature(uses).params if p.trained}


def run(
    uses, inputs: Inputs, target: str, gradients: bool = True
) -> dict[str, torch.Tensor]:
    """Outputs, lse and, if wanted, all gradients through autograd, in their own types."""
    leaves = [inputs.query, inputs.key, *inputs.values]
    leaves = [t.detach().requires_grad_(gradients) for t in leaves]
    trained = _trained(uses) if gradients else set()
    params = {
        n: t.detach().clone().requires_grad_(n in trained)
        for n, t in inputs.params.items()
    }
    outputs, lse = sextant.attention(
        leaves[0],
        leaves[1],
        leaves[2:],
        uses,
        params,
        scale=inputs.scale,
        return_lse=True,
        enable_gqa=True,
        deterministic=inputs.deterministic,
        target=target,
        **inputs.positions,
    )
    result = dict(zip(forward_names(inputs), [*outputs, lse]))
    if not gradients:
        return result
    torch.autograd.backward([*outputs, lse], gradients_of(inputs, lse.detach()))
    result |= {n: t.grad for n, t in zip(gradient_names(inputs), leaves)}
    result |= {f"d {n}": t.grad for n, t in params.items() if n in trained}
    return {n: t.detach() for n, t in result.items()}


class Reference:
    """The target `reference` of some uses, by the package's operators."""

    def __init__(self, uses):
        self.uses = uses

    def forward(self, inputs: Inputs):
        return _run_forward(self.uses, inputs)

    def backward(self, inputs: Inputs, results, gradients):
        rows = [inputs.query, inputs.key, inputs.values]
        settings = _settings(self.uses, inputs)
        with _code_for(inputs):
            found = torch.ops.sextant.attention_backward(
                *rows, results, gradients, *settings, settings[1]
            )
        names = gradient_names(inputs)
        trained = _trained(self.uses)
        rest = zip(inputs.params, found[len(names) :])
        return dict(zip(names, found)) | {f"d {n}": t for n, t in rest if n in trained}


# Products of a call from which on its reference runs optimised code in any test: that takes
# 50 ms more to compile, and a third of the time to run.
MANY_PRODUCTS = 400_000


@contextlib.contextmanager
def _code_for(inputs: Inputs):
    """The machine code of a reference: of the same LLVM IR, so that results are the same."""
    products = inputs.query.numel() * inputs.key.shape[2]
    chosen = os.environ.get("SEXTANT_CODE")
    if chosen is None or products < MANY_PRODUCTS:
        yield
        return
    del os.environ["SEXTANT_CODE"]
    try:
        yield
    finally:
        os.environ["SEXTANT_CODE"] = chosen


def reference_results(uses, inputs: Inputs) -> dict[str, torch.Tensor]:
    """All results of the reference in the type of the inputs; in float64."""
    found = forward(Reference(uses), inputs)
    return found | backward(Reference(uses), inputs, found)


def _run_forward(uses, inputs: Inputs) -> tuple:
    """Outputs, log-sum-exp and statistics by the reference, compiled in both directions
    at once. A comparison asks for those in float64 thrice: the last are kept."""
    global _last
    rows = [inputs.query, inputs.key, *inputs.values]
    settings = _settings(uses, inputs)
    tensors = [*rows, *settings[0], *(t for t in settings[4:6] if t is not None)]
    files = definitions.signature(uses).files
    rest = [files, definitions.environment(), len(rows), *settings[1:4], *settings[6:]]
    rest += [t is None for t in settings[4:6]]
    if not (_last and _last[0] == rest and all(map(_is_same, _last[1], tensors))):
        with _code_for(inputs):
            found = torch.ops.sextant.attention_values(*rows[:2], rows[2:], *settings, settings[1])
        if rows[0].dtype != torch.float64:
            return found
        _last = rest, [t.detach().clone() for t in tensors], found
    return _last[2]


_last: tuple[list, list[torch.Tensor], tuple] | None = None


def _is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Strides are no part of a result."""
    return a.dtype == b.dtype and torch.equal(a, b)


def _settings(uses, inputs: Inputs) -> list:
    """What the operators take after their tensors, on the reference."""
    spelled, texts = definitions.split(uses)
    names, positions = "\n".join(inputs.params), inputs.positions
    at = [positions.get(f"{side}_positions") for side in ("query", "key")]
    params = list(inputs.params.values())
    shard = [None, None, 0]
    return [params, names, "\n".join(spelled), texts, *at, inputs.scale, *shard, True, "reference"]


def rule_of(
    uses, target: str, dtype: torch.dtype, tensor_cores: bool = False, rounds_params: bool = False
) -> Rule:
    """What C7 asks of kernels of some uses."""
    signature = definitions.signature(uses)
    products = products_of(target, dtype, signature.all_heads, tensor_cores)
    # Turned rows are stored before the kernel multiplies them, in the type of the call.
    if dtype in ROUNDING and signature.turns_rows:
        products = dtype
    # Rows that are mapped, and their gradients before they are pulled back, are rounded
    # once more.
    return Rule(dtype, products, 2 if signature.operands else 1, rounds_params)


@sextant.rows(of="query", group="single")
def moved_queries(x, at, by: sextant.Param("batch", "heads", "query", "head_dim", given=True)):
    return x * by[at.batch, at.head, at.tensor_row, at.lane]


@sextant.rows(of="key", group="single")
def moved_keys(x, at, by: sextant.Param("batch", "kv_heads", "key", "head_dim", given=True)):
    return x * by[at.batch, at.head, at.tensor_row, at.lane]


def move_mapped_rows(uses, dtype: torch.dtype, inputs: Inputs) -> tuple[Reference, Inputs]:
    """Rows of queries and keys moved by up to a rounding to ``dtype`` behind the maps of some
    uses, which change both: a definition and its inputs."""
    params = dict(inputs.params)
    for use, rows in ((moved_queries, inputs.query), (moved_keys, inputs.key)):
        noise = torch.rand(rows.shape, dtype=torch.float64) * 2 - 1
        params[f"{use}.by"] = 1 + ROUNDING[dtype] * noise
    return Reference([*uses, moved_queries, moved_keys]), replace(inputs, params=params)


@contextlib.contextmanager
def launches_on_tensor_cores():
    """The directions that multiply on tensor cores meanwhile, by the names of launches."""
    found: set[str] = set()

    def profile(artifact, function, tensors):
        results, text = artifact.profile(function, tensors)
        names = [event["name"] for event in json.loads(text)]
        for direction in ("forward", "backward"):
            if any(name.endswith(f"_{direction}_fragments") for name in names):
                found.add(direction)
        return results

    with mock.patch.object(backend.Artifact, "run", profile):
        yield found


def compare(
    uses,
    first: Inputs,
    target: str,
    dtype: torch.dtype,
    what: object = "",
    rounds_params: bool = False,
    gradients: bool = True,
    cancels: bool = False,
) -> set[str]:
    """Holds outputs, log-sum-exp and all gradients, if wanted, to C7. Values of `first` are exact
    in `dtype`; with ``rounds_params`` parameters become operands of products, such as
    columns of rows. Gives the directions that multiplied on tensor cores: the rule for
    them is of the very run that is held to it, since a run takes most of a comparison's
    time there. With ``cancels`` gradients of what maps rows of queries and of keys cancel out
    but for what differs between the roundings of these rows as the maps leave them. Operands
    that are moved ahead of the maps move both alike, so plain code moves rows behind them, too."""
    is_gpu = target.startswith("cuda")
    with launches_on_tensor_cores() if is_gpu else contextlib.nullcontext(set()) as found:
        first_results = [run(uses, first.cast(dtype), target, gradients)]

    def kernel(inputs: Inputs) -> dict[str, torch.Tensor]:
        if first_results:
            return first_results.pop()
        return run(uses, inputs, target, gradients)

    rule = rule_of(uses, target, dtype, "forward" in found, rounds_params)
    plain_of = functools.partial(move_mapped_rows, uses, rule.products) if cancels else None
    comparison = hold(first, kernel, Reference(uses), rule, gradients, plain_of)
    comparison.check(f"{what or uses} on {target} in {dtype}:")
    return found
