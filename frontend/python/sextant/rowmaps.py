"""`sextant.map_rows`: row maps of embeddings and of projections' inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from . import arguments, definitions, plans
from .attention_text import ParamType, map_rows_module
from .definitions import EncodingLike, split
from .errors import nearest

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
    target: str = "cpu",
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

    Returns:
      A tensor like input.
    """
    if of not in OPERANDS:
        raise ValueError(f'unknown operand "{of}"{nearest(of, OPERANDS)}')
    spelled, texts = split(encodings)
    named = arguments.named_params(params)
    arguments.check_tensor("input", input)
    if positions is not None:
        arguments.check_tensor("positions", positions)
    for name, tensor in named.items():
        arguments.check_tensor(f'params["{name}"]', tensor)
    tensors = list(named.values())
    gradient = torch.is_grad_enabled() and any(
        t.requires_grad for t in (input, *tensors)
    )
    return torch.ops.sextant.map_rows(
        input, tensors, "\n".join(named), "\n".join(spelled), texts, of, positions,
        target, gradient,
    )  # fmt: skip


def _prepare(input, params, names, uses, texts, operand, positions, target, both):
    """The plan of a call, and its operands beside input (and its gradient)."""
    if input.dim() != 3:
        raise ValueError(
            f"input must be (batch, length, width), got shape {tuple(input.shape)}"
        )
    arguments.check_device_and_dtype(input, target)
    spelled = tuple(uses.split("\n")) if uses else ()
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
    named = arguments.check_params(signature, named, extents, compute)
    given = []
    if positions is not None:
        given = [arguments.check_positions("positions", positions, batch, length)]
    axes = given[0].shape[2] if given else 0
    key = ("map_rows", spelled, texts, operand, input.dtype, width, axes, target)

    def write(both: bool) -> str:
        types = tuple(
            ParamType(p.name, p.rank, p.element, p.trained) for p in signature.params
        )
        return map_rows_module(
            plans.DTYPES[input.dtype], width, operand, signature.uses, types,
            signature.definitions, axes, both,
        )  # fmt: skip

    plan = plans.remembered(key, signature, write, target, both)
    call = arguments.Call(None, list(named), named, extents, compute, given)
    return plan, call


def _impl(input, params, names, uses, texts, operand, positions, target, gradient):
    plan, call = _prepare(
        input, params, names, uses, texts, operand, positions, target, gradient
    )
    operands = [input, *call.operands(plan.signature)]
    return plan.artifact.run("forward", operands)[0]


def _fake(input, params, names, uses, texts, operand, positions, target, gradient):
    return torch.empty(input.shape, dtype=input.dtype, device=input.device)


def _backward_impl(
    input, gradient, params, names, uses, texts, operand, positions, target
):
    plan, call = _prepare(
        input, params, names, uses, texts, operand, positions, target, True
    )
    operands = [input, gradient, *call.operands(plan.signature)]
    result, *rest = plan.artifact.run("backward", operands)
    return [result, *plans.in_order(plan.signature, call.names, params, rest)]


def _backward_fake(
    input, gradient, params, names, uses, texts, operand, positions, target
):
    return [
        torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (input, *params)
    ]


def _setup(ctx, inputs, output):
    input, params, names, uses, texts, operand, positions, target, _ = inputs
    ctx.has_positions = positions is not None
    ctx.save_for_backward(input, *([positions] if ctx.has_positions else []), *params)
    ctx.settings = (names, uses, texts, operand, target)


def _autograd(ctx, gradient):
    input, *params = ctx.saved_tensors
    positions = params.pop(0) if ctx.has_positions else None
    names, uses, texts, operand, target = ctx.settings
    result, *rest = torch.ops.sextant.map_rows_backward(
        input, gradient, params, names, uses, texts, operand, positions, target
    )
    grads = [g if p.dtype.is_floating_point else None for g, p in zip(rest, params)]
    return result, grads, *[None] * 7


def _register() -> None:
    forward = torch.library.custom_op(
        "sextant::map_rows",
        _impl,
        mutates_args=(),
        schema=_SCHEMA.format(extra="", last=", bool gradient", results="Tensor"),
    )
    forward.register_fake(_fake)
    forward.register_autograd(_autograd, setup_context=_setup)
    backward = torch.library.custom_op(
        "sextant::map_rows_backward",
        _backward_impl,
        mutates_args=(),
        schema=_SCHEMA.format(extra="Tensor gradient, ", last="", results="Tensor[]"),
    )
    backward.register_fake(_backward_fake)


_register()
