"""Attention held to C7: one call of a kernel against the reference, all results.

Nobody wrote PyTorch code for an encoding that is not known here. Plain code in f32 is
the definition run literally in f32, one operation at a time, and so it is for kernels
that compute operands of 16 bits in f32. For products of these, which the reference does not
have, it is the float64 result of operands moved by one rounding, which stands for those
of scores, P and dS. The rule itself is in numeric_contract.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import torch
from numeric_contract import DRAWS, ROUNDING, Comparison, neighbour, nudged, products_of

import sextant
from sextant import backend, definitions


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

    def neighbours(self, dtype: torch.dtype) -> Inputs:
        """Inputs next to these, exact in ``dtype``; see numeric_contract.py."""
        return self.each(
            lambda t: neighbour(t, dtype), lambda t: neighbour(t, torch.float32)
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


def _trained(uses) -> set[str]:
    return {p.name for p in definitions.signature(uses).params if p.trained}


def _forward_names(inputs: Inputs) -> list[str]:
    single = len(inputs.values) == 1
    names = ["output"] if single else [f"output[{i}]" for i in range(len(inputs.values))]
    return [*names, "lse"]


def _gradient_names(inputs: Inputs) -> list[str]:
    single = len(inputs.values) == 1
    names = ["value"] if single else [f"value[{i}]" for i in range(len(inputs.values))]
    return [f"d {n}" for n in ("query", "key", *names)]


def run(uses, inputs: Inputs, target: str) -> dict[str, torch.Tensor]:
    """Outputs, lse and all gradients through autograd, in their own types."""
    leaves = [inputs.query, inputs.key, *inputs.values]
    leaves = [t.detach().requires_grad_() for t in leaves]
    trained = _trained(uses)
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
        target=target,
        **inputs.positions,
    )
    # A row that sees no key has lse = -inf: its gradient must not poison others.
    seen = torch.isfinite(lse)
    torch.autograd.backward(
        [*outputs, lse],
        [*inputs.output_grads, torch.where(seen, inputs.lse_grad, 0.0)],
    )
    result = dict(zip(_forward_names(inputs), [*outputs, lse]))
    result |= {n: t.grad for n, t in zip(_gradient_names(inputs), leaves)}
    result |= {f"d {n}": t.grad for n, t in params.items() if n in trained}
    return {n: t.detach() for n, t in result.items()}


def forward(uses, inputs: Inputs) -> dict[str, torch.Tensor]:
    """Outputs and log-sum-exp by the reference, in the type of the inputs; in float64."""
    outputs, lse, _ = _run_forward(uses, inputs)
    found = zip(_forward_names(inputs), [*outputs, lse])
    return {n: t.detach().double() for n, t in found}


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
        found = torch.ops.sextant.attention_values(*rows[:2], rows[2:], *settings, True)
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
    return [params, names, "\n".join(spelled), texts, *at, inputs.scale, None, None, 0, "reference"]


def _row_term(uses, inputs: Inputs) -> torch.Tensor:
    """What the log-sum-exp of a row has beyond that of its scores, in float64."""
    *_, lse, statistics = _run_forward(uses, inputs.cast(torch.float64))
    shift, sum = statistics.unbind(-1)
    return torch.where(torch.isfinite(lse), lse - shift - sum.log(), 0.0)


def backward(
    uses, inputs: Inputs, stored: dict[str, torch.Tensor], normalizes: bool = False
) -> dict[str, torch.Tensor]:
    """Gradients by the reference, in the type of the inputs, from the outputs and the
    log-sum-exp that a forward stored; in float64. The statistics of a softmax are the
    log-sum-exp itself, where the exponentials of a row are shifted by it, less what is
    added to the log-sum-exp only; with ``normalizes`` those of the reference's own
    forward."""
    dtype, compute = inputs.query.dtype, inputs.lse_grad.dtype
    *outputs, lse = (stored[n] for n in _forward_names(inputs))
    seen = torch.isfinite(lse)
    if normalizes:
        statistics = _run_forward(uses, inputs)[-1]
    else:
        statistics = torch.stack([lse.double() - _row_term(uses, inputs), seen], -1)
    results = torch.ops.sextant.attention_backward(
        inputs.query,
        inputs.key,
        inputs.values,
        [*(o.to(dtype) for o in outputs), lse.to(compute), statistics.to(compute)],
        [*inputs.output_grads, torch.where(seen, inputs.lse_grad, 0.0)],
        *_settings(uses, inputs),
    )
    names = _gradient_names(inputs)
    trained = _trained(uses)
    gradients = dict(zip(names, results))
    rest = zip(inputs.params, results[len(names) :])
    gradients |= {f"d {n}": t for n, t in rest if n in trained}
    return {n: t.double() for n, t in gradients.items()}


def _turns_rows(signature: definitions.Signature) -> bool:
    """Whether an encoding turns blocks of rows. Such rows are stored before the kernel
    multiplies them, in the type of the call."""
    return any("pos.turn_rows " in Path(path).read_text() for path, *_ in signature.files)


def multiplies_on_tensor_cores(
    uses, inputs: Inputs, target: str, direction: str = "forward"
) -> bool:
    """Whether a direction of these inputs does, by the name of its launch."""
    names: list[str] = []

    def profile(artifact, function, tensors):
        results, text = artifact.profile(function, tensors)
        names.extend(event["name"] for event in json.loads(text))
        return results

    with mock.patch.object(backend.Artifact, "run", profile):
        if direction == "backward":
            run(uses, inputs, target)
        else:
            with torch.no_grad():
                rows = [t.detach() for t in (inputs.query, inputs.key, *inputs.values)]
                sextant.attention(
                    rows[0],
                    rows[1],
                    rows[2:],
                    uses,
                    inputs.params,
                    scale=inputs.scale,
                    enable_gqa=True,
                    target=target,
                    **inputs.positions,
                )
    return any(name.endswith(f"_{direction}_fragments") for name in names)


def compare(
    uses,
    first: Inputs,
    target: str,
    dtype: torch.dtype,
    what: object = "",
    rounds_params: bool = False,
) -> None:
    """Holds outputs, log-sum-exp and all gradients to C7. Values of `first` are exact
    in `dtype`; with ``rounds_params`` parameters become operands of products, such as
    columns of rows."""

    def reference(inputs: Inputs, stored: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return forward(uses, inputs) | backward(uses, inputs, stored)

    signature = definitions.signature(uses)
    # Rows that are mapped, and their gradients before they are pulled back, are rounded
    # once more.
    roundings = 2 if signature.operands else 1
    tensor_cores = target.startswith("cuda") and multiplies_on_tensor_cores(
        uses, first.cast(dtype), target
    )
    products = products_of(target, dtype, signature.all_heads, tensor_cores)
    if dtype in ROUNDING and _turns_rows(signature):
        products = dtype
    rounds = products in ROUNDING
    comparison = Comparison(products)
    for draw in range(DRAWS):
        # Other roundings come with other inputs in f32, with other draws of them in bf16.
        if not draw or not rounds:
            inputs = first.neighbours(dtype) if draw else first
            got = run(uses, inputs.cast(dtype), target)
            exact = reference(inputs, got)
        if rounds:
            plain = inputs.rounded(products, roundings, rounds_params)
        else:
            plain = inputs.cast(torch.float32)
        comparison.add(got, reference(plain, got), exact)
        if not draw and not comparison.holds():
            comparison.add_other(backward(uses, inputs, got, normalizes=True))
        if comparison.holds():
            break
        comparison.add_other(reference(first.nudged(draw), comparison.first))
    comparison.check(f"{what or uses} on {target} in {dtype}:")
