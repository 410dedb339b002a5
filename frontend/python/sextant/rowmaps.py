"""`sextant.map_rows`: row maps of embeddings and of projections' inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from . import arguments, definitions, operators, plans, targets
from .attention_text import map_rows_module
from .calls import missing, ordered
from .definitions import EncodingLike, split
from .errors import nearest
from .initial import FrozenParams
from .listeners import unheard
from .operators import Operator
from .tensor_checks import check_devices, check_tensor

OPERANDS = ("embedding", "query_input", "key_input", "value_input")

_SCHEMA = (
    "(Tensor input, {extra}Tensor[] params, str names, str uses, str definitions, "
    "str operand, Tensor? positions, str target{last}) -> {results}"
)


def map_rows(
    input: torch.Tensor,
    encodings: Iterable[EncodingLike],
    params: Mapping[str, torch.Tensor] | None = None,
    *,
    of: str = "embedding",
    positions: torch.Tensor | None = None,
    target: str = "auto",
) -> torch.Tensor:
    """Applies the row maps of some encodings outside attention, differentiably.

    Args:
      input: (batch, length, width), f32 or bf16 (f32 or f64 on ``reference``).
      encodings: as in `sextant.attention`; maps of other operands are ignored.
      params: as in `sextant.attention`.
      of: "embedding", or the input of a projection: "query_input", "key_input",
        "value_input".
      positions: integer coordinates, (length), (batch, length) or (batch, length,
        axes); the index without them.
      target: as in `sextant.attention`.

    Returns:
      A tensor like input.
    """
    if not isinstance(of, str):
        raise TypeError(f"of must be a string, got {type(of).__name__}")
    if not isinstance(target, str):
        raise TypeError(f"target must be a string, got {type(target).__name__}")
    if of not in OPERANDS:
        raise ValueError(f'unknown operand "{of}"{nearest(of, OPERANDS)}')
    spelled, texts = split(encodings)
    named = arguments.named_params(params)
    check_tensor("input", input)
    if positions is not None:
        check_tensor("positions", positions)
    for name, tensor in named.items():
        check_tensor(f'params["{name}"]', tensor)
    tensors = [input, *named.values()] + ([] if positions is None else [positions])
    return _map_rows(
        unheard(tensors), input, list(named.values()), "\n".join(named), "\n".join(spelled), texts, of,
        positions, target, None,
    )  # fmt: skip


def _check_devices(input, params, names, positions) -> None:
    listed = names.split("\n") if names else []
    operands = [(f'parameter "{name}"', param) for name, param in zip(listed, params)]
    check_devices("input", input, [*operands, ("positions", positions)])


def _prepare(input, params, names, uses, texts, operand, positions, target, recorded):
    """The plan of a call, and its operands beside input (and its gradient)."""
    if input.dim() != 3:
        raise ValueError(
            f"input must be (batch, length, width), got shape {tuple(input.shape)}"
        )
    _check_devices(input, params, names, positions)
    target = targets.resolve(target, input.device)
    arguments.check_device_and_dtype(input, target)
    spelled = definitions.of_lines(uses)
    signature = definitions.resolve(spelled, texts)
    batch, length, width = input.shape
    extents = {
        "batch": batch,
        "heads": 1,
        "kv_heads": 1,
        "head_dim": width,
        "value_dim": width,
        "model": width,
        "query": length,
        "key": length,
    }
    named = dict(zip(names.split("\n"), params)) if names else {}
    compute = torch.float64 if input.dtype == torch.float64 else torch.float32
    arguments.check_params(signature, named, extents, compute)
    named = arguments.converted_params(signature, named, compute)
    given, axes = [], 0
    if positions is not None:
        axes = arguments.check_positions("positions", positions, batch, length)
        given = [arguments.converted_positions("positions", positions)]
    environment = definitions.environment()
    key = ("map_rows", spelled, texts, operand, input.dtype, width, axes, target, environment)
    wanted = plans.wanted_of(signature, recorded)

    def write() -> str:
        return map_rows_module(
            targets.ELEMENTS[input.dtype], width, operand, signature.uses,
            plans.param_types(signature, wanted), signature.definitions, axes,
            backward=wanted is not None,
        )  # fmt: skip

    plan = plans.remembered(key, signature, write, target, wanted)
    made = missing(signature, named)
    frozen = FrozenParams(signature, made, extents, compute, input.device)
    return plan, [*ordered(signature, named | frozen.tensors()), *given]


def _forward(input, params, names, uses, texts, operand, positions, target, recorded):
    plan, operands = _prepare(
        input, params, names, uses, texts, operand, positions, target, recorded
    )
    return plan.artifact.run("forward", [input, *operands])[0]


def _forward_shapes(input, params, names, _uses, _texts, _operand, positions, *_):
    _check_devices(input, params, names, positions)
    return torch.empty(input.shape, dtype=input.dtype, device=input.device)


def _backward(
    input, gradient, params, names, uses, texts, operand, positions, target, recorded
):
    plan, operands = _prepare(
        input, params, names, uses, texts, operand, positions, target, recorded
    )
    result, *rest = plan.artifact.run("backward", [input, gradient, *operands])
    names = names.split("\n") if names else []
    return [result, *plans.in_order(names, params, plan.wanted, rest)]


def _backward_shapes(input, gradient, params, *_):
    return [
        torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (input, *params)
    ]


def _gradient(inputs, results, gradients):
    input, params, *settings, recorded = inputs
    positions = settings[4]
    tensors = [input, gradients[0], *params] + ([] if positions is None else [positions])
    result, *rest = _map_rows_backward(
        unheard(tensors), input, gradients[0], params, *settings, recorded or ""
    )
    names, uses, texts = settings[:3]
    own = plans.of_trained(names, uses, texts, recorded, rest)
    return result, own, *[None] * (len(settings) + 1)


def _batched(size, inputs, has):
    """The new axis joins the batch; a call for each element where it is one of
    parameters."""
    input, params, names, uses, texts, operand, positions, target, recorded = inputs
    if any(has[1]):
        return operators.one_by_one(torch.ops.sextant.map_rows, size, inputs, has)
    batch = input.shape[1] if has[0] else input.shape[0]
    result = torch.ops.sextant.map_rows(
        operators.fold(input, has[0], size), params, names, uses, texts, operand,
        operators.fold_positions(positions, has[6], size, batch), target, recorded,
    )  # fmt: skip
    return [operators.unfold(result, size, batch)]


def _backward_batched(size, inputs, has):
    input, gradient, params, *_, positions, target, recorded = inputs
    # Gradients of parameters are sums over the batch: they cannot be taken apart again.
    if params:
        return operators.one_by_one(torch.ops.sextant.map_rows_backward, size, inputs, has)
    batch = input.shape[1] if has[0] else input.shape[0]
    input, gradient = (operators.fold(t, h, size) for t, h in zip((input, gradient), has))
    (result,) = torch.ops.sextant.map_rows_backward(
        input, gradient, params, *inputs[3:7],
        operators.fold_positions(positions, has[7], size, batch), target, recorded,
    )  # fmt: skip
    return [operators.unfold(result, size, batch)]


_LABEL = "sextant.map_rows"
_map_rows = operators.register(
    Operator(
        "map_rows" + _SCHEMA.format(extra="", last=", str? recorded", results="Tensor"),
        _LABEL,
        _forward,
        _forward_shapes,
        _batched,
        lambda inputs, results: results[0],
        _gradient,
        recorded=lambda inputs: (*inputs[:-1], plans.recorded_of(inputs, 1)),
    )
)
_map_rows_backward = operators.register(
    Operator(
        "map_rows_backward"
        + _SCHEMA.format(extra="Tensor gradient, ", last=", str recorded", results="Tensor[]"),
        _LABEL,
        _backward,
        _backward_shapes,
        _backward_batched,
        lambda inputs, results: results,
    )
)
