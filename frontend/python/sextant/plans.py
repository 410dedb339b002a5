"""Compiled attentions, one per dtype, head dims, encodings and target.

Batch, heads, lengths and offsets are not compiled in: a `Plan` serves them all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch

from . import backend, definitions
from .attention_text import AttentionKey, ParamType, attention_module
from .definitions import Signature

DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float64: "f64", torch.float16: "f16"}

_lock = threading.Lock()
_plans: dict[Hashable, "Plan"] = {}
_compiles = 0


def compile_count() -> int:
    """How often this process has compiled an attention."""
    return _compiles


@dataclass(frozen=True)
class Request:
    """What decides which kernel runs."""

    spelled: tuple[str, ...]
    definitions: str
    dtype: torch.dtype
    head_dim: int
    value_dims: tuple[int, ...]
    query_axes: int
    key_axes: int
    scale: float | None
    target: str
    heads: int = 0  # compiled in only where a site sees all heads


@dataclass(frozen=True)
class Plan:
    """A compiled module with ``forward``, and ``backward`` if ``both``."""

    signature: Signature
    artifact: backend.Artifact
    both: bool


def plan_for(request: Request, both: bool) -> Plan:
    """The plan of an attention; compiled at the first call."""
    signature = definitions.resolve(request.spelled, request.definitions)

    def write(both: bool) -> str:
        types = tuple(
            ParamType(p.name, p.rank, p.element, p.trained) for p in signature.params
        )
        key = AttentionKey(
            DTYPES[request.dtype],
            request.head_dim,
            request.value_dims,
            signature.uses,
            types,
            signature.definitions,
            request.query_axes,
            request.key_axes,
            request.scale,
            request.heads,
        )
        return attention_module(key, backward=both)

    return remembered(request, signature, write, request.target, both)


def remembered(
    key: Hashable,
    signature: Signature,
    write: Callable[[bool], str],
    target: str,
    both: bool,
) -> Plan:
    """The plan with this key, made from the text that ``write`` gives."""
    global _compiles
    key = (key, definitions.path_key())
    plan = _plans.get(key)
    if plan is not None and (plan.both or not both):
        return plan
    with _lock:
        plan = _plans.get(key)
        if plan is None or (both and not plan.both):
            data = backend.compiler().compile(
                write(both), target, definitions.user_folder(), "artifact", "<attention>"
            )
            _compiles += 1
            plan = _plans[key] = Plan(signature, backend.Artifact(data), both)
    return plan


def in_order(
    signature: Signature,
    names: list[str],
    params: list[torch.Tensor],
    gradients: list[torch.Tensor],
) -> list[torch.Tensor]:
    """Gradients in the order of the caller's params; zeros for what is not
    trained."""
    trained = [p.name for p in signature.params if p.trained]
    by_name = dict(zip(trained, gradients))
    return [
        by_name[name] if name in by_name else torch.zeros_like(tensor)
        for name, tensor in zip(names, params)
    ]
