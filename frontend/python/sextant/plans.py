"""Compiled attentions, one per dtype, head dims, encodings and target.

Batch, heads, lengths and offsets are not compiled in: a `Plan` serves them all.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

from . import backend, definitions
from .attention_text import AttentionKey, ParamType, attention_module
from .definitions import Signature

DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float64: "f64", torch.float16: "f16"}

_lock = threading.Lock()
_plans: dict[tuple, "Plan"] = {}
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
    value_dim: int
    query_axes: int
    key_axes: int
    scale: float | None
    target: str
    heads: int = 0  # compiled in only where a site sees all heads


class Plan:
    """An attention, compiled for forward or for both directions."""

    def __init__(self, request: Request, signature: Signature, both: bool):
        self.signature = signature
        self.both = both
        types = tuple(
            ParamType(p.name, p.rank, p.element, p.trained) for p in signature.params
        )
        key = AttentionKey(
            DTYPES[request.dtype],
            request.head_dim,
            request.value_dim,
            signature.uses,
            types,
            signature.definitions,
            request.query_axes,
            request.key_axes,
            request.scale,
            request.heads if signature.all_heads else 0,
        )
        self.artifact = compile_module(
            attention_module(key, backward=both), request.target
        )


def compile_module(text: str, target: str) -> backend.Artifact:
    """Compiles a module and loads it."""
    global _compiles
    data = backend.compiler().compile(
        text, target, definitions.user_folder(), "artifact", "<attention>"
    )
    _compiles += 1
    return backend.Artifact(data)


def plan_for(request: Request, both: bool) -> Plan:
    """The plan of a request; compiled at the first call."""
    signature = definitions.resolve(request.spelled, request.definitions)
    key = (request, definitions._path_key())
    plan = _plans.get(key)
    if plan is not None and (plan.both or not both):
        return plan
    with _lock:
        plan = _plans.get(key)
        if plan is None or (both and not plan.both):
            plan = _plans[key] = Plan(request, signature, both)
    return plan
