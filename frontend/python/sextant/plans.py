"""Compiled attentions, one per dtype, head dims, encodings and target.

Batch, heads, lengths and offsets are not compiled in: a `Plan` serves them all. The
most recently used ones are kept; one that comes back later is read from the cache on
disk, in milliseconds.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch

from . import backend, definitions
from .attention_text import AttentionKey, ParamType, attention_module
from .declared import Signature
from .targets import ELEMENTS

# Loaded code takes a few mappings of the process, of which it has 65530.
MOST_PLANS = 512

_plans: OrderedDict[Hashable, Plan] = OrderedDict()  # the last used one is last
_compiles = 0
_compiling: threading.Lock
_looking: threading.Lock


def _make_locks() -> None:
    """Of which there are two: a compile takes long, and calls whose plan is there do
    not wait for it. A child of a fork has its own: the thread that held one may not
    exist there."""
    global _compiling, _looking
    _compiling, _looking = threading.Lock(), threading.Lock()


_make_locks()
os.register_at_fork(after_in_child=_make_locks)


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
    has_tail: bool
    scale: float | None
    target: str
    heads: int = 0  # compiled in only where a site sees all heads
    deterministic: bool = True


@dataclass(frozen=True)
class Plan:
    """A compiled module with ``forward``, and ``backward`` if ``both``."""

    artifact: backend.Artifact
    both: bool


# As many as the widest vector of a CPU has lanes. Programs of a forward alone have products
# of their own for them (FewQueries.h); one with a backward compiles faster without.
FEW_QUERIES = 16


def plan_for(
    request: Request, signature: Signature, both: bool, few: bool = False
) -> Plan:
    """The plan of an attention with the encodings of ``signature``; compiled at the first
    call. ``few``: a forward alone of `FEW_QUERIES` at most, on a CPU."""

    def write(both: bool) -> str:
        types = tuple(
            ParamType(p.name, p.rank, p.element, p.trained) for p in signature.params
        )
        key = AttentionKey(
            ELEMENTS[request.dtype],
            request.head_dim,
            request.value_dims,
            signature.uses,
            types,
            signature.definitions,
            request.query_axes,
            request.key_axes,
            request.has_tail,
            request.scale,
            request.heads,
            request.deterministic,
        )
        return attention_module(key, backward=both)

    return remembered(request, signature, write, request.target, both, few)


def remembered(
    key: Hashable,
    signature: Signature,
    write: Callable[[bool], str],
    target: str,
    both: bool,
    forward_alone: bool = False,
) -> Plan:
    """The plan with this key, made from the text that ``write`` gives; with a backward
    where there is one, unless the forward is to be alone."""
    global _compiles
    key = (key, signature.files, definitions.environment())
    plan = _find(key)
    if forward_alone and plan is not None and plan.both:
        key = (*key, "forward alone")
        plan = _find(key)
    if plan is not None and (plan.both or not both):
        return plan
    with _compiling:
        plan = _find(key)
        if plan is None or (both and not plan.both):
            data = backend.compiler().compile(
                write(both), target, definitions.first_folders(), "artifact", "<attention>"
            )
            _compiles += 1
            plan = Plan(backend.Artifact(data), both)
            _keep(key, plan)
    return plan


def _find(key: Hashable) -> Plan | None:
    with _looking:
        plan = _plans.get(key)
        if plan is not None:
            _plans.move_to_end(key)
        return plan


def _keep(key: Hashable, plan: Plan) -> None:
    """Remembers a plan instead of those that were not used for the longest time.
    Calls that are under way keep theirs."""
    with _looking:
        _plans[key] = plan
        _plans.move_to_end(key)
        dropped = [_plans.popitem(last=False) for _ in range(len(_plans) - MOST_PLANS)]
    del dropped  # unloaded outside the lock


def in_order(
    signature: Signature,
    names: list[str],
    params: list[torch.Tensor],
    gradients: list[torch.Tensor],
) -> list[torch.Tensor]:
    """Gradients in the order and the types of the caller's params; zeros for what is
    not trained."""
    trained = [p.name for p in signature.params if p.trained]
    by_name = dict(zip(trained, gradients))
    return [
        by_name[name].to(tensor.dtype) if name in by_name else torch.zeros_like(tensor)
        for name, tensor in zip(names, params)
    ]


def of_trained(names: str, uses: str, texts: str, gradients: list) -> list:
    """None for what is not trained, in place of the zeros of `in_order`, which an operator
    must give: zeros would be a wrong gradient, by which an optimizer takes steps of its
    weight decay."""
    if not gradients:
        return []
    declared = definitions.resolve(tuple(uses.split("\n")) if uses else (), texts).by_name
    listed = names.split("\n") if names else []
    return [g if declared[name].trained else None for name, g in zip(listed, gradients)]
