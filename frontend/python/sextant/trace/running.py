"""Sums along keys: the scan of a score (`pos.scan`) and the running sum of what keys
have of their own (`pos.running_sum`)."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import nearest
from .builder import ARGUMENT, Builder, trace_error
from .values import F32, I32, KINDS, Value, lift

DIRECTIONS = ("leftward", "rightward")

# What an op is to the author of a function, by how its text begins.
_SPELLINGS = {
    f"{ARGUMENT}pos.score": "the score",
    f"{ARGUMENT}pos.sum": "the argument of a sextant.sum",
    "pos.offset": "at.offset",
    "pos.index query": "at.query",
    "pos.index key": "at.key",
    "pos.tensor_row query": "at.query_row",
    "pos.coord query": 'at.coord("query")',
    "pos.coord key": 'at.coord("key")',
    "pos.head": "at.head",
    "pos.batch": "at.batch",
    "pos.lane": "at.lane",
    "pos.bound": "a bound of coordinates",
    "pos.host": "at.host",
    "pos.scan": "an at.scan",
    "pos.query_dot": "an at.query_dot",
    "pos.key_dot": "an at.key_dot",
    "pos.running_sum": "an at.running_sum",
    "pos.read": "a parameter",
}
# Of these, what the terms of a running sum may vary with.
_SHARED = ("at.head", "at.batch", "a bound of coordinates", "a parameter", "the argument of a sextant.sum")


def _found(builder: Builder, name: str, allowed: tuple[str, ...] = ()) -> str:
    """What a value is made of beyond numbers, options, extents and ``allowed``, as an
    author writes it: the first that there is, or empty."""
    for op in builder.sources(name):
        for begin, spelling in _SPELLINGS.items():
            if op.startswith(begin) and spelling not in allowed:
                return spelling
    return ""


def scan(builder: Builder, value, until, direction: str) -> Value:
    """The running sum of a score's ``value`` over visible keys, clamped."""
    if direction not in DIRECTIONS:
        raise trace_error(f"a scan has no direction {direction!r}{nearest(str(direction), DIRECTIONS)}")
    term = lift(builder, value, F32).as_number()
    limit = lift(builder, until, F32).as_number()
    for what, operand in (("the value", term), ("the limit", limit)):
        if operand.type != F32:
            raise trace_error(f"{what} of a scan is a number, got {KINDS[operand.type]}")
    varying = _found(builder, limit.name)
    if varying:
        raise trace_error(
            f"the limit of a scan is the same for all scores and not trained, got one made of {varying}",
            hint="use a number or an option",
        )
    text = f"pos.scan {term.name} {direction} until {limit.name} : f32"
    return Value(builder, builder.pure(text, "v"), F32)


def running_sum(builder: Builder, function: Callable, side: str) -> Value:
    """function(0) + ... + function(i), i the index of the query or of the key."""
    if side not in ("query", "key"):
        known = nearest(str(side), ["query", "key"])
        raise trace_error(f"a running sum goes to the query or the key, not to {side!r}{known}")
    if not callable(function):
        raise trace_error(
            "at.running_sum takes a function of a key's index",
            hint=f'write at.running_sum(lambda t: x[t], "{side}")',
        )
    result = builder.name(f"to_{side}")
    t = builder.name("t")
    head = f"{result} = pos.running_sum to {side}"
    with builder.region(head, f"{t}: i32", f": {F32}", what="the terms of a running sum"):
        value = lift(builder, function(Value(builder, t, I32)), F32).as_number()
        if value.type != F32:
            raise trace_error("the terms of a running sum are numbers, got a vector")
        varying = _found(builder, value.name, _SHARED)
        if varying:
            raise trace_error(
                "the terms of a running sum vary with the key's index, at.batch and at.head "
                f"only, got {varying}",
                hint="the index of the key is the argument of the function",
            )
        builder.line(f"pos.yield {value.name} : f32")
    return Value(builder, result, F32)
