"""What NumPy, PyTorch and habits from them do with traced values.

Python's operators on traced values write ops. Everything else that looks like a
computation, `numpy.sqrt(x)`, `torch.exp(x)`, ``x.exp()``, an array indexed by a value,
is an error that says what to write instead.
"""

from __future__ import annotations

import operator
from typing import NoReturn

from .builder import trace_error

# NumPy's name of what an operator does beside one of its numbers.
_OPERATORS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "true_divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}

# Other libraries' names of what Sextant has, as calls on x.
_ELSEWHERE = {
    "absolute": "abs(x)",
    "clip": "sextant.clamp(x, low, high)",
    "cosh": "(sextant.exp(x) + sextant.exp(-x)) / 2",
    "div": "x / y",
    "divide": "x / y",
    "exp2": "2.0 ** x",
    "fabs": "abs(x)",
    "float": "sextant.to_float(x)",
    "floor_divide": "x // y",
    "fmax": "sextant.maximum(x, y)",
    "fmin": "sextant.minimum(x, y)",
    "int": "sextant.to_int(x)",
    "item": "x itself: it is a scalar",
    "log10": "sextant.log(x) / math.log(10)",
    "log2": "sextant.log(x) / math.log(2)",
    "long": "sextant.to_int(x)",
    "max": "sextant.maximum(x, y)",
    "min": "sextant.minimum(x, y)",
    "mul": "x * y",
    "multiply": "x * y",
    "neg": "-x",
    "negative": "-x",
    "pow": "x ** y",
    "power": "x ** y",
    "remainder": "x % y",
    "rint": "sextant.floor(x + 0.5)",
    "round": "sextant.floor(x + 0.5)",
    "rsqrt": "1.0 / sextant.sqrt(x)",
    "sign": "sextant.where(x > 0, 1.0, sextant.where(x < 0, -1.0, 0.0))",
    "silu": "x * sextant.sigmoid(x)",
    "sinh": "(sextant.exp(x) - sextant.exp(-x)) / 2",
    "square": "x * x",
    "sub": "x - y",
    "subtract": "x - y",
    "tan": "sextant.sin(x) / sextant.cos(x)",
    "trunc": "sextant.to_float(sextant.to_int(x))",
}
# Functions of `sextant` that take one value, or more of them.
_ONE = "abs ceil cos exp floor log log1p logsigmoid relu sigmoid sin softplus sqrt tanh to_float to_int"
_MORE = {
    "clamp": "clamp(x, low, high)",
    "maximum": "maximum(x, y)",
    "minimum": "minimum(x, y)",
    "sum": "sum(lambda k: ..., n)",
    "where": "where(condition, x, y)",
}
_PARAMETERS = "tensors come in as parameters: def f(score, at, table: sextant.Param(...))"


def instead_of(name: str) -> str:
    """What to write for another library's function, or empty."""
    name = name.strip("_")
    if name in _ONE.split():
        return f"write sextant.{name}(x)"
    if name in _MORE:
        return f"write sextant.{_MORE[name]}"
    return f"write {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""


def has_array(values) -> bool:
    """Whether a tensor or an array is among some arguments."""
    return any(
        type(v).__name__ in ("Tensor", "Parameter", "ndarray") and getattr(v, "ndim", 0) > 0
        for v in values
    )


def refuse(library: str, name: str, values) -> NoReturn:
    """The error of a function of another library."""
    hint = _PARAMETERS if has_array(values) else instead_of(name)
    what = "indexing" if name == "__getitem__" else name
    raise trace_error(f"{library}'s {what} cannot be traced", hint=hint or "see the functions of sextant")


class Foreign:
    """What traced objects say to other libraries."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc, method, *inputs, **settings):
        compute = _OPERATORS.get(ufunc.__name__)
        if compute is None or method != "__call__" or settings or has_array(inputs):
            refuse("numpy", ufunc.__name__, inputs)
        # A number of NumPy stands beside a traced value.
        return compute(*(v if isinstance(v, Foreign) else v.item() for v in inputs))

    def __array_function__(self, function, types, args, kwargs):
        refuse("numpy", function.__name__, args)

    def __array__(self, *args, **kwargs) -> NoReturn:
        raise trace_error(
            "numpy cannot compute with a value of a traced encoding, nor index by it",
            hint=f"use sextant's functions and Python numbers; {_PARAMETERS}",
        )

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        refuse("torch", getattr(function, "__name__", "function"), args)


def no_attribute(what: str, name: str) -> Exception:
    """The error of an attribute that a traced value does not have: one that a method
    of tensors explains, or Python's own where Python asks for itself."""
    if name.startswith("__"):
        return AttributeError(name)
    hint = instead_of(name) or "it has operators, and sextant's functions work on it"
    return trace_error(f'{what} of a traced encoding has no "{name}"', hint=hint)
