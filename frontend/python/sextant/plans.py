"""Compiled attentions, one per dtype, head dims, encodings and target.

Batch, heads, lengths and offsets are not compiled in: a `Plan` serves them all. The
most recently used ones are kept; one that comes back later is read from the cache on
disk, in milliseconds.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields

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
    """What decides which kernel runs.

    ``environment``: what compiled programs depend on beside it (`definitions.environment`).
    """

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
    has_long_rows: bool = False  # of f32, where "cpu" may mean another target for them
    environment: tuple[str | None, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:  # of many fields, and asked for in every call
        return hash(tuple(getattr(self, each.name) for each in fields(self)))


# The parameters whose gradients a backward computes, in the order of operands; None for a
# forward alone.
Wanted = tuple[str, ...] | None


def wanted_of(signature: Signature, recorded: str | None) -> Wanted:
    """The trained parameters among those that autograd has ``recorded``, a name in a line each;
    None where it records nothing. What a caller keeps frozen is not worth a reduction over all
    pairs."""
    if recorded is None:
        return None
    names = set(recorded.split("\n"))
    return tuple(p.name for p in signature.params if p.trained and p.name in names)


def recorded_of(inputs: Sequence, params: int) -> str:
    """Which parameters autograd records, of the arguments of an operator of which ``params``
    is a list of tensors and the next one has their names, and the last is what the levels
    above have recorded."""
    tensors, names, above = inputs[params], inputs[params + 1], inputs[-1]
    known = set(above.split("\n")) if above else set()
    listed = zip(names.split("\n"), tensors)
    return "\n".join(name for name, t in listed if t.requires_grad or name in known)


@dataclass(frozen=True)
class Plan:
    """A compiled module with ``forward``, and a ``backward`` with the gradients of ``wanted``
    parameters unless that is None."""

    artifact: backend.Artifact
    wanted: Wanted

    @property
    def both(self) -> bool:
        return self.wanted is not None


# As many as the widest vector of a CPU has lanes. Programs of a forward alone have products
# of their own for them (FewQueries.h); one with a backward compiles faster without.
FEW_QUERIES = 16


def plan_for(
    request: Request, signature: Signature, wanted: Wanted, few: bool = False
) -> Plan:
    """The plan of an attention with the encodings of ``signature``; compiled at the first
    call. ``few``: a forward alone of `FEW_QUERIES` at most, on a CPU."""

    def write() -> str:
        types = param_types(signature, wanted)
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
            request.has_long_rows,
        )
        return attention_module(key, backward=wanted is not None)

    return remembered(request, signature, write, request.target, wanted, few)


def param_types(signature: Signature, wanted: Wanted) -> tuple[ParamType, ...]:
    """The parameters as operands of a program with the gradients of ``wanted``."""
    return tuple(
        ParamType(p.name, p.rank, p.element, p.name in (wanted or ())) for p in signature.params
    )


def remembered(
    key: Hashable,
    signature: Signature,
    write: Callable[[], str],
    target: str,
    wanted: Wanted,
    forward_alone: bool = False,
) -> Plan:
    """The plan with this key, which holds the environment, made from the text that ``write``
    gives: with the gradients that are wanted, or, where none is, the forward of any, unless that
    is to be alone."""
    global _compiles
    key = (key, signature.files)
    _, plan = _look(key, wanted, forward_alone)
    if plan is not None:
        return plan
    with _compiling:
        own, plan = _look(key, wanted, forward_alone)
        if plan is None:
            data = backend.compiler().compile(
                write(), target, definitions.first_folders(), "artifact", "<attention>"
            )
            _compiles += 1
            plan = Plan(backend.Artifact(data), wanted)
            _keep(own, plan)
    return plan


def _look(
    key: tuple, wanted: Wanted, forward_alone: bool
) -> tuple[tuple, Plan | None]:
    """The plan that serves, if it is there, and the key under which it is or will be: that of
    the first with a backward is the key itself, those of others have a word more."""
    plan = _find(key)
    if plan is None:
        return key, None
    if wanted is None:
        if not (forward_alone and plan.both):
            return key, plan
        key = (*key, "forward alone")
        return key, _find(key)
    if not plan.both:  # it is replaced
        return key, None
    if plan.wanted == wanted:
        return key, plan
    key = (*key, wanted)
    return key, _find(key)


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
    names: list[str],
    params: list[torch.Tensor],
    wanted: Wanted,
    gradients: list[torch.Tensor],
) -> list[torch.Tensor]:
    """Gradients in the order and the types of the caller's params; zeros for what has
    none."""
    by_name = dict(zip(wanted or (), gradients))
    return [
        by_name[name].to(tensor.dtype) if name in by_name else torch.zeros_like(tensor)
        for name, tensor in zip(names, params)
    ]


def of_trained(
    names: str, uses: str, texts: str, recorded: str | None, gradients: list
) -> list:
    """None for what is not trained or not recorded, in place of the zeros of `in_order`, which
    an operator must give: zeros would be a wrong gradient, by which an optimizer takes steps of
    its weight decay."""
    if not gradients:
        return []
    found = definitions.resolve(definitions.of_lines(uses), texts)
    wanted = wanted_of(found, recorded) or ()
    listed = names.split("\n") if names else []
    return [g if name in wanted else None for name, g in zip(listed, gradients)]
