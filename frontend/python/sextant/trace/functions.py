"""Functions of payloads, under their usual names.

Each takes traced values (or Python numbers beside them) and writes one op. They
work element by element on vectors. None runs on tensors: they are for functions
that a decorator such as `sextant.encoding` traces.
"""

from __future__ import annotations

from collections.abc import Callable

from .builder import current, trace_error
from .values import (
    F32,
    I1,
    I32,
    VECTOR,
    Value,
    binary,
    builder_of,
    lift,
    op,
    type_name,
    unify,
)


def _number(x, function: str) -> Value:
    if not isinstance(x, Value) and not hasattr(x, "as_value"):
        raise trace_error(
            f"sextant.{function} takes a traced value, got {type_name(x)}",
            hint=f"use math.{function} on plain numbers and torch.{function} on tensors",
        )
    return lift(builder_of(x), x).as_number()


def abs(x) -> Value:
    """Absolute value; of an integer, an integer. Its derivative at 0 is 0."""
    if not isinstance(x, Value):
        x = _number(x, "abs")
    return x.__abs__()


def sqrt(x) -> Value:
    """Square root."""
    return op("math.sqrt", _number(x, "sqrt"))


def exp(x) -> Value:
    """e to the power of x."""
    return op("math.exp", _number(x, "exp"))


def log(x) -> Value:
    """Natural logarithm."""
    return op("math.log", _number(x, "log"))


def log1p(x) -> Value:
    """Natural logarithm of 1 + x."""
    return op("math.log1p", _number(x, "log1p"))


def sin(x) -> Value:
    """Sine of an angle in radians."""
    return op("math.sin", _number(x, "sin"))


def cos(x) -> Value:
    """Cosine of an angle in radians."""
    return op("math.cos", _number(x, "cos"))


def tanh(x) -> Value:
    """Hyperbolic tangent."""
    return op("math.tanh", _number(x, "tanh"))


def sigmoid(x) -> Value:
    """1 / (1 + exp(-x)), with no exponential that overflows."""
    x = _number(x, "sigmoid")
    open_ = x >= 0.0
    down = exp(where(open_, -x, x))
    return where(open_, 1.0, down) / (down + 1.0)


def logsigmoid(x) -> Value:
    """log(sigmoid(x)), exact where sigmoid(x) is nearly 0 or 1, smooth at 0."""
    x = _number(x, "logsigmoid")
    open_ = x >= 0.0
    return where(open_, 0.0, x) - log1p(exp(where(open_, -x, x)))


def softplus(x) -> Value:
    """log(1 + exp(x)), with no exponential that overflows, smooth at 0."""
    x = _number(x, "softplus")
    open_ = x >= 0.0
    return where(open_, x, 0.0) + log1p(exp(where(open_, -x, x)))


def relu(x) -> Value:
    """max(x, 0)."""
    return binary("max", _number(x, "relu"), 0.0)


def maximum(a, b) -> Value:
    """The larger of two values; NaN if one is NaN."""
    return binary("max", a, b)


def minimum(a, b) -> Value:
    """The smaller of two values; NaN if one is NaN."""
    return binary("min", a, b)


def floor(x) -> Value:
    """The largest whole number not above x, as a number."""
    return op("math.floor", _number(x, "floor"))


def ceil(x) -> Value:
    """The smallest whole number not below x, as a number."""
    return op("math.ceil", _number(x, "ceil"))


def clamp(x, low=None, high=None) -> Value:
    """x, but at least low and at most high; of integers, an integer.

    >>> sextant.clamp(at.offset, -reach, reach)
    """
    if low is None and high is None:
        raise trace_error("sextant.clamp takes a least or a greatest value, or both")
    for sign, bound in (("max", low), ("min", high)):
        if bound is not None:
            x = binary(sign, x, bound)
    return x


def to_int(x) -> Value:
    """x as an integer, rounded towards zero; no gradient passes."""
    x = lift(builder_of(x), x)
    if x.type == I32:
        return x
    if x.type == VECTOR:
        raise trace_error("a vector has no integer form")
    if x.type == I1:
        return x._convert("arith.extui", I32)
    return x._convert("arith.fptosi", I32)


def to_float(x) -> Value:
    """An integer as a number."""
    return _number(x, "to_float")


def where(condition, a, b) -> Value:
    """a where the condition holds, else b.

    Both are computed; the gradient goes to the one that is taken.
    """
    builder = builder_of(condition, a, b)
    condition = lift(builder, condition)
    if condition.type != I1:
        raise trace_error(
            "the first argument of sextant.where is a condition, such as x < 3"
        )
    if isinstance(a, (bool, int, float)) and isinstance(b, (bool, int, float)):
        kind = F32 if isinstance(a, float) or isinstance(b, float) else ""
        a, b = lift(builder, a, kind), lift(builder, b, kind)
    a, b = (lift(builder, v) for v in unify(a, b))
    text = f"arith.select {condition.name}, {a.name}, {b.name} : {a.type}"
    return Value(builder, builder.pure(text, "v"), a.type, a.extent)


def sum(function: Callable[[Value], Value], count) -> Value:
    """function(0) + ... + function(count - 1).

    ``count`` is an option, an extent or a whole number; ``function`` takes the
    integer k.

    >>> sextant.sum(lambda k: sextant.cos(at.offset * speed[k]), width)
    """
    if not callable(function):
        raise trace_error(
            "sextant.sum takes a function and a count",
            hint="write sextant.sum(lambda k: ..., n)",
        )
    builder = current()
    if builder is None:
        raise trace_error("sextant.sum stands in a function that is traced")
    count = lift(builder, count).as_integer("the count of a sum")
    result = builder.name("sum")
    k = builder.name("k")
    with builder.region(
        f"{result} = pos.sum to {count.name}", f"{k}: i32", f": {F32}", what="a sextant.sum"
    ):
        value = lift(builder, function(Value(builder, k, I32)), F32).as_number()
        if value.type != F32:
            raise trace_error("the terms of a sum are numbers, got a vector")
        builder.line(f"pos.yield {value.name} : f32")
    return Value(builder, result, F32)


def contract(matrix, vector, first_column=None) -> Value:
    """Matrix (a parameter of two dims) times vector.

    With ``first_column`` (an option, an extent or a whole number) only as many
    columns from there on count as the vector has elements: the product with [a; b]
    is ``contract(w, a, 0) + contract(w, b, at.extent("heads"))``.
    """
    if not hasattr(matrix, "matrix_operand"):
        raise trace_error("the first argument of sextant.contract is a parameter")
    name, type_, rows = matrix.matrix_operand()
    builder = matrix.builder
    vector = lift(builder, vector)
    if vector.type != VECTOR:
        raise trace_error(
            "the second argument of sextant.contract is a vector (all heads' "
            "scores, a whole row), got a scalar",
            hint="use sextant.sum(lambda k: ..., n) on scalars",
        )
    columns = ""
    if first_column is not None:
        first = lift(builder, first_column).as_integer("the first column")
        columns = f" columns from {first.name}"
    text = f"pos.contract {name}, {vector.name}{columns} : {type_}, {VECTOR} -> {VECTOR}"
    return Value(builder, builder.pure(text, "v"), VECTOR, rows)
