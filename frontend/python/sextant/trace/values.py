"""Values that a traced function computes with.

A `Value` stands for an SSA value of a payload: an ``f32``, ``i32`` or ``i1``
scalar, or a vector ``tensor<?xf32>`` (all heads' scores, a whole row). Python's
operators on it write ops. What Python would have to know at once (``if``,
``float(x)``, ``math.sin(x)``) is an error that says what to write instead.
"""

from __future__ import annotations

import math
import numbers
from typing import NoReturn

from .builder import Builder, trace_error
from .foreign import Foreign, has_array, no_attribute

F32, I32, I1, VECTOR = "f32", "i32", "i1", "tensor<?xf32>"

# What messages call a value.
KINDS = {
    F32: "a number",
    I32: "an integer",
    I1: "a condition",
    VECTOR: "a vector",
}

_ARITHMETIC = {
    # operator: (op on f32 and vectors, op on i32)
    "+": ("arith.addf", "arith.addi"),
    "-": ("arith.subf", "arith.subi"),
    "*": ("arith.mulf", "arith.muli"),
    "/": ("arith.divf", None),
    "max": ("arith.maximumf", "arith.maxsi"),
    "min": ("arith.minimumf", "arith.minsi"),
}

_COMPARE = {
    # operator: (predicate on f32, predicate on i32)
    "==": ("oeq", "eq"),
    "!=": ("une", "ne"),
    "<": ("olt", "slt"),
    "<=": ("ole", "sle"),
    ">": ("ogt", "sgt"),
    ">=": ("oge", "sge"),
}

_BITS = {"&": "arith.andi", "|": "arith.ori", "^": "arith.xori"}

_NO_CHOICE = (
    "use sextant.where(condition, a, b) to choose, sextant.minimum and sextant.maximum, "
    "and & | ~ to combine conditions (0 <= x < 3 is (0 <= x) & (x < 3))"
)


# What modules of this package ask whether an operand has it.
_ASKED = ("as_value", "matrix_operand")


class Value(Foreign):
    """An SSA value; see the module's text.

    ``extent`` is the SSA name (i32) of a vector's length.
    """

    __slots__ = ("builder", "name", "type", "extent")

    def __init__(self, builder: Builder, name: str, type: str, extent: str = ""):
        self.builder = builder
        self.name = name
        self.type = type
        self.extent = extent

    # Arithmetic ---------------------------------------------------------

    def __add__(self, other):
        return binary("+", self, other)

    def __radd__(self, other):
        return binary("+", other, self)

    def __sub__(self, other):
        return binary("-", self, other)

    def __rsub__(self, other):
        return binary("-", other, self)

    def __mul__(self, other):
        return binary("*", self, other)

    def __rmul__(self, other):
        return binary("*", other, self)

    def __truediv__(self, other):
        return binary("/", self, other)

    def __rtruediv__(self, other):
        return binary("/", other, self)

    def __floordiv__(self, other):
        return floor_divide(self, other)

    def __rfloordiv__(self, other):
        return floor_divide(other, self)

    def __mod__(self, other):
        return self - floor_divide(self, other) * other

    def __rmod__(self, other):
        return other - floor_divide(other, self) * self

    def __pow__(self, other):
        return power(self, other)

    def __rpow__(self, other):
        return power(other, self)

    def __neg__(self):
        if self.type == I32:
            return binary("-", 0, self)
        return op("arith.negf", self.as_number())

    def __pos__(self):
        return self

    def __abs__(self):
        if self.type == I32:
            return op("math.absi", self)
        return op("math.absf", self.as_number())

    # Comparisons and conditions ------------------------------------------

    def __eq__(self, other):
        return compare("==", self, other)

    def __ne__(self, other):
        return compare("!=", self, other)

    def __lt__(self, other):
        return compare("<", self, other)

    def __le__(self, other):
        return compare("<=", self, other)

    def __gt__(self, other):
        return compare(">", self, other)

    def __ge__(self, other):
        return compare(">=", self, other)

    def __hash__(self) -> NoReturn:
        raise trace_error(
            "a value of a traced encoding is not known yet: it is no key of a dict or a set",
            hint="what it would look up comes in as a parameter",
        )

    def __and__(self, other):
        return bits("&", self, other)

    __rand__ = __and__

    def __or__(self, other):
        return bits("|", self, other)

    __ror__ = __or__

    def __xor__(self, other):
        return bits("^", self, other)

    __rxor__ = __xor__

    def __invert__(self):
        return bits("^", self, True if self.type == I1 else -1)

    def __lshift__(self, other):
        return shift("arith.shli", self, other)

    def __rshift__(self, other):
        return shift("arith.shrsi", self, other)

    # What cannot be known while tracing ----------------------------------

    def __bool__(self) -> NoReturn:
        raise trace_error(
            "a value of a traced encoding is not known yet: it cannot decide "
            "an if, while, and, or, not, min or max",
            hint=_NO_CHOICE,
        )

    def __float__(self) -> NoReturn:
        raise trace_error(
            "a value of a traced encoding is not known yet: it has no float",
            hint="use sextant.sqrt, sextant.exp, ... instead of math's functions",
        )

    def __int__(self) -> NoReturn:
        raise trace_error(
            "a value of a traced encoding is not known yet: it has no int",
            hint="use sextant.to_int(x), or sextant.sum(f, n) to run over 0 .. n-1; what it "
            "would index, a list or an array, comes in as a parameter",
        )

    __index__ = __int__
    __complex__ = __float__

    def __round__(self, digits=None) -> NoReturn:
        raise trace_error(
            "round() is not an op of payloads", hint="use sextant.floor(x + 0.5)"
        )

    def __floor__(self):
        return op("math.floor", self.as_number())

    def __iter__(self) -> NoReturn:
        raise trace_error(
            "a value of a traced encoding cannot be iterated over",
            hint="use sextant.sum(lambda k: ..., n)",
        )

    def __getitem__(self, index) -> NoReturn:
        raise trace_error(f"{KINDS[self.type]} has no elements to index")

    def __call__(self, *args, **kwargs) -> NoReturn:
        raise trace_error(f"{KINDS[self.type]} is not a function")

    def __getattr__(self, name: str):
        if name in _ASKED:
            raise AttributeError(name)
        raise no_attribute(KINDS[self.type], name)

    def __repr__(self) -> str:
        return f"<traced {self.type} {self.name}>"

    # Conversions ----------------------------------------------------------

    def as_number(self) -> Value:
        """Itself as f32 (or vector); a condition is an error."""
        if self.type in (F32, VECTOR):
            return self
        if self.type == I1:
            raise trace_error(
                "a condition is not a number",
                hint="use sextant.where(condition, 1.0, 0.0)",
            )
        return self._convert("arith.sitofp", F32)

    def as_integer(self, what: str) -> Value:
        """Itself as i32, where ``what`` needs an integer."""
        if self.type != I32:
            raise trace_error(
                f"{what} must be an integer, got {KINDS[self.type]}",
                hint="use sextant.to_int(x), which rounds towards zero",
            )
        return self

    def _convert(self, name: str, type: str) -> Value:
        text = f"{name} {self.name} : {self.type} to {type}"
        return Value(self.builder, self.builder.pure(text, "v"), type)


def constant(builder: Builder, value: bool | int | float, type: str) -> Value:
    """A number written in the encoding."""
    if type == I1:
        return Value(builder, builder.pure(f"arith.constant {'true' if value else 'false'}", "c"), I1)
    if type == I32:
        if not -(2**31) <= value < 2**31:
            raise trace_error(f"{value} does not fit a 32-bit integer")
        return Value(builder, builder.pure(f"arith.constant {int(value)} : i32", "c"), I32)
    return Value(builder, builder.pure(f"arith.constant {spell_float(value)} : f32", "c"), F32)


def spell_float(value: float) -> str:
    """A float literal of MLIR.

    Infinities and NaN, which have no decimal spelling, are written as bits.
    """
    value = float(value)
    if math.isnan(value):
        return "0x7FC00000"
    if math.isinf(value) or abs(value) > 3.4028235e38:
        return "0x7F800000" if value > 0 else "0xFF800000"
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{exponent}" if exponent else mantissa


def lift(builder: Builder, value, type: str = "") -> Value:
    """A Python number or a value as a `Value`; numbers take ``type`` if it
    suits them."""
    if hasattr(value, "as_value"):  # a parameter
        value = value.as_value()
    if isinstance(value, Value):
        if value.builder is not builder:
            raise trace_error(
                "a value of another traced function, or of an earlier call of this one, "
                "has no meaning here",
                hint="make it anew: a function is traced more than once, and what it keeps "
                "outside of itself (a list, a global) does not hold",
            )
        return value
    if isinstance(value, bool) or type_name(value) == "bool":  # NumPy's is no bool
        return constant(builder, bool(value), I1)
    if isinstance(value, numbers.Integral):
        return constant(builder, int(value), F32 if type in (F32, VECTOR) else I32)
    if isinstance(value, numbers.Real):
        return constant(builder, float(value), F32)
    raise trace_error(
        f"a payload computes with numbers and traced values, got {type_name(value)}",
        hint=_foreign_hint(value),
    )


def type_name(value) -> str:
    """The type of a Python object, for messages."""
    return type(value).__name__


def _foreign_hint(value) -> str:
    if has_array([value]):
        return "tensors come in as parameters: def f(score, at, table: sextant.Param(...))"
    if type_name(value) in ("Tensor", "Parameter"):
        return "a tensor without dims gives its number by .item()"
    if isinstance(value, (list, tuple, dict)):
        return "lists come in as parameters: def f(score, at, table: sextant.Param(...))"
    if callable(value):
        return "call it"
    return ""


def builder_of(*values) -> Builder:
    """The builder behind any of some operands."""
    for value in values:
        builder = getattr(value, "builder", None)
        if builder is not None:
            return builder
    raise trace_error(
        "none of the arguments is a traced value",
        hint="use Python's own functions on plain numbers",
    )


def unify(*values) -> list[Value]:
    """Operands of one type: integers become numbers beside numbers, numbers
    become vectors beside vectors."""
    builder = builder_of(*values)
    hint = ""
    for value in values:
        if hasattr(value, "as_value"):
            value = value.as_value()
        is_real = isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)
        kind = value.type if isinstance(value, Value) else F32 if is_real else ""
        if kind in (F32, VECTOR):
            hint = F32
    lifted = [lift(builder, v, hint) for v in values]
    kinds = {v.type for v in lifted}
    if len(kinds) == 1:
        return lifted
    if I1 in kinds:
        for value in lifted:
            value.as_number()
    lifted = [v.as_number() for v in lifted]
    extents = [v.extent for v in lifted if v.type == VECTOR]
    if extents:
        return [v if v.type == VECTOR else splat(v, extents[0]) for v in lifted]
    return lifted


def splat(value: Value, extent: str) -> Value:
    """A number as a vector of equal elements."""
    builder = value.builder
    size = builder.pure(f"arith.index_cast {extent} : i32 to index", "n")
    text = f"tensor.splat {value.name}[{size}] : {VECTOR}"
    return Value(builder, builder.pure(text, "v"), VECTOR, extent)


def op(name: str, *operands: Value, type: str = "") -> Value:
    """An op whose operands have one type, which is its result's type too."""
    builder = operands[0].builder
    names = ", ".join(o.name for o in operands)
    text = f"{name} {names} : {operands[0].type}"
    extent = next((o.extent for o in operands if o.extent), "")
    return Value(builder, builder.pure(text, "v"), type or operands[0].type, extent)


def binary(sign: str, left, right) -> Value:
    """``left sign right``; division of integers gives a number."""
    on_numbers, on_integers = _ARITHMETIC[sign]
    a, b = unify(left, right)
    if a.type == I32 and on_integers:
        return op(on_integers, a, b)
    return op(on_numbers, a.as_number(), b.as_number())


def floor_divide(left, right) -> Value:
    """Python's ``//``: rounds towards minus infinity."""
    a, b = unify(left, right)
    if a.type == I32:
        return op("arith.floordivsi", a, b)
    return op("math.floor", op("arith.divf", a.as_number(), b.as_number()))


def power(base, exponent) -> Value:
    """``base ** exponent`` as a number; 2 and 0.5 become a product and a root."""
    if isinstance(base, Value) and isinstance(exponent, (int, float)):
        if exponent == 2:  # of a number: the square of an integer wraps from 46341 on
            return base.as_number() * base.as_number()
        if exponent == 0.5:
            return op("math.sqrt", base.as_number())
    a, b = unify(base, exponent)
    return op("math.powf", *unify(a.as_number(), b.as_number()))


def compare(sign: str, left, right) -> Value:
    """A condition."""
    a, b = unify(left, right)
    if a.type == VECTOR:
        raise trace_error("vectors cannot be compared: conditions are scalars")
    on_numbers, on_integers = _COMPARE[sign]
    if a.type == F32:
        text = f"arith.cmpf {on_numbers}, {a.name}, {b.name} : f32"
    else:
        text = f"arith.cmpi {on_integers}, {a.name}, {b.name} : {a.type}"
    return Value(a.builder, a.builder.pure(text, "v"), I1)


def bits(sign: str, left, right) -> Value:
    """``&``, ``|``, ``^`` of conditions or of integers."""
    a, b = unify(left, right)
    if a.type in (F32, VECTOR):
        raise trace_error(
            f"{sign} combines conditions or integers, got {KINDS[a.type]}",
            hint="comparisons beside & and | need parentheses: (a < b) & (c < d)",
        )
    return op(_BITS[sign], a, b)


def shift(name: str, left, right) -> Value:
    """``<<`` and ``>>`` of integers."""
    a, b = unify(left, right)
    return op(name, a.as_integer("a shifted value"), b.as_integer("a shift"))
