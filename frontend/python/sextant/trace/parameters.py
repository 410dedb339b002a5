"""Parameters and options of traced encodings."""

from __future__ import annotations

import ast
import inspect
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..checks import check_count
from ..errors import nearest
from .builder import Builder, trace_error
from .foreign import Foreign, instead_of
from .table_rows import TableRow
from .values import F32, I1, I32, KINDS, VECTOR, Value, constant, lift, spell_float, type_name

EXTENTS = (
    "heads",
    "kv_heads",
    "head_dim",
    "value_dim",
    "model",
    "query",
    "key",
    "batch",
)


@dataclass(frozen=True)
class Distribution:
    """Initial values: ``kind`` is constant, normal or uniform."""

    kind: str
    arguments: tuple[float, ...]


def _number(label: str, value) -> float:
    """A number where one is expected."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{label} must be a number, got {value!r}")
    return float(value)


def constant_init(value: float) -> Distribution:
    """Every element starts at ``value``."""
    return Distribution("constant", (_number("value of sextant.constant_init", value),))


def normal(mean: float = 0.0, deviation: float = 0.02) -> Distribution:
    """Elements start as draws of a normal distribution."""
    named = ("mean of sextant.normal", mean), ("deviation of sextant.normal", deviation)
    return Distribution("normal", tuple(_number(*one) for one in named))


def uniform(low: float, high: float) -> Distribution:
    """Elements start as draws from [low, high)."""
    named = ("low of sextant.uniform", low), ("high of sextant.uniform", high)
    return Distribution("uniform", tuple(_number(*one) for one in named))


@dataclass(frozen=True)
class Param:
    """A parameter of a traced encoding, as the annotation of an argument.

    ``dims``: names of extents (heads, kv_heads, head_dim, value_dim, model,
    query, key, batch), of options, whole numbers, or arithmetic on these as
    text (``"2 * reach + 1"``). ``init``: a `Distribution`, or a function of the
    indices evaluated in float64 (``lambda h: ...``), which takes extents and
    options by keyword (``lambda row, lane, *, head_dim: ...``); the default is
    normal(0, 0.02). ``given``: the caller passes it at every call and it has no initial
    value. ``integer``: i32 elements, always given. ``frozen``: not trained.
    ``floor``, ``ceiling``: bounds applied by `sextant.project_`. ``scope``:
    "layer" or "model".

    >>> def mine(score, at, slope: sextant.Param("heads", floor=0.0)): ...
    """

    dims: tuple[str | int, ...]
    init: Distribution | Callable[..., Any] | None = None
    given: bool = False
    integer: bool = False
    frozen: bool = False
    floor: float | None = None
    ceiling: float | None = None
    scope: str = "layer"

    def __init__(self, *dims: str | int, **settings):
        known = set(self.__dataclass_fields__) - {"dims"}
        for name in settings:
            if name not in known:
                raise TypeError(
                    f'sextant.Param has no setting "{name}"{nearest(name, known)}'
                )
        object.__setattr__(self, "dims", dims)
        for name in known:
            default = self.__dataclass_fields__[name].default
            object.__setattr__(self, name, settings.get(name, default))
        for bound in ("floor", "ceiling"):
            if (number := getattr(self, bound)) is not None:
                object.__setattr__(self, bound, _number(f"{bound} of sextant.Param", number))
        if self.scope not in ("layer", "model"):
            raise ValueError(f'scope is "layer" or "model", got "{self.scope}"')
        if self.integer:
            object.__setattr__(self, "given", True)
        if self.given and self.init is not None:
            raise ValueError("a given parameter has no initial value")
        if not (self.init is None or isinstance(self.init, Distribution) or callable(self.init)):
            cure = f"sextant.constant_init({self.init})" if isinstance(self.init, (int, float)) else (
                "a function of indices, or a given parameter"
            )
            raise TypeError(f"init is no {type_name(self.init)}: write {cure}")

    def __call__(self, **settings) -> Param:
        """The same parameter with other settings: ``PerHead(floor=0.01)``."""
        return replace_settings(self, settings)


def replace_settings(param: Param, settings: dict) -> Param:
    """``param`` with some settings changed."""
    merged = {
        name: getattr(param, name)
        for name in param.__dataclass_fields__
        if name != "dims"
    }
    merged.update(settings)
    return Param(*param.dims, **merged)


PerHead = Param("heads")
"""One trained number per head."""


@dataclass(frozen=True)
class Range:
    """Numbers that an option may be, as the annotation of a keyword-only argument.

    Limits are whole numbers: greater than ``above``, ``at_least``, ``at_most``, a
    ``multiple_of`` (whole numbers only). Another value is an error where the
    encoding is used.

    >>> def near(at, *, size: sextant.Range(at_least=1) = 64): ...
    """

    above: int | None = None
    at_least: int | None = None
    at_most: int | None = None
    multiple_of: int | None = None

    def __post_init__(self):
        for name in self.__dataclass_fields__:
            if (limit := getattr(self, name)) is not None:
                check_count(f"{name} of sextant.Range", limit, 1 if name == "multiple_of" else None)

    @property
    def text(self) -> str:
        """The limits as `pos.option` spells them."""
        limits = ((name, getattr(self, name)) for name in self.__dataclass_fields__)
        return "".join(f" {name} {limit}" for name, limit in limits if limit is not None)


class TracedParam(Foreign):
    """A parameter inside a traced function: indexing it reads an element.

    Without dims it is a number; with one dim it is also a vector beside vectors; with
    two dims ``table[i]`` is a row and ``table[:, i]`` a column.
    """

    def __init__(self, builder: Builder, label: str, name: str, param: Param, extents: list[str]):
        self.builder = builder
        self.label = label
        self.name = name
        self.param = param
        self.extents = extents
        element = "i32" if param.integer else "f32"
        self.tensor = f"tensor<{'?x' * len(param.dims)}{element}>"

    @property
    def dims_text(self) -> str:
        """The dims as they are written."""
        return ", ".join(map(str, self.param.dims))

    def __getitem__(self, index) -> Value | TableRow:
        indices = index if isinstance(index, tuple) else (index,)
        if len(self.param.dims) == 2 and not self.param.integer:
            whole = [_is_whole(i) for i in indices]
            if whole in ([False], [False, True], [True, False]):
                at = self._index(indices[whole.index(False)])
                return TableRow(self, at, is_column=whole[0])
        if len(indices) != len(self.param.dims):
            raise trace_error(
                f'parameter "{self.label}" has {len(self.param.dims)} dim(s) '
                f"({self.dims_text}), got {len(indices)} index(es)",
                hint=self._as_rows(len(indices)),
            )
        names = [self._index(i).name for i in indices]
        for dim, name in zip(self.param.dims, names):
            self._check_rows(dim, name)
        return self._read(names)

    def _as_rows(self, indices: int) -> str:
        """How a table of three dims, indexed as if that gave a row, is written; empty where
        it is indexed otherwise."""
        dims = self.param.dims
        if len(dims) != 3 or indices != 2 or self.param.integer:
            return ""
        first, rows, lanes = dims
        if first in ("heads", "kv_heads") and lanes == "head_dim":
            return f'a part for each head is one of ("{first} * {lanes}", {rows}): {self.label}[:, i]'
        index = "at.head" if first in ("heads", "kv_heads") else "n"
        return f'rows are those of ("{first} * {rows}", {lanes}): {self.label}[{index} * {rows} + i]'

    def _check_rows(self, dim: str | int, index: str) -> None:
        """A dim "query" has one row per query of a call."""
        op = next(self.builder.sources(index), "")
        if dim == "query" and op == "pos.index query":
            raise trace_error(
                f'dim "query" of parameter "{self.label}" has one row per query of the '
                "call, but at.query counts from the first key",
                hint="index it with at.query_row",
            )

    def _index(self, index) -> Value:
        if isinstance(index, slice) or index is None or index is Ellipsis:
            raise trace_error(
                f'parameter "{self.label}" is read one element at a time',
                hint="use sextant.sum(lambda k: ...) to run over a dim",
            )
        return lift(self.builder, index).as_integer("an index")

    def _read(self, names: list[str]) -> Value:
        text = f"pos.read {self.name}[{', '.join(names)}] : {self.tensor}"
        kind = I32 if self.param.integer else F32
        return Value(self.builder, self.builder.pure(text, "v"), kind)

    def as_value(self) -> Value:
        """The parameter as an operand of arithmetic."""
        if not self.param.dims:
            return self._read([])
        if len(self.param.dims) == 1 and not self.param.integer:
            return ParameterVector(self)
        raise trace_error(
            f'parameter "{self.label}" is a table',
            hint=f"index it: {self.label}[{', '.join('i' * len(self.param.dims))}]",
        )

    def matrix_operand(self) -> tuple[str, str, str]:
        """Name, type and number of rows, for a matrix product."""
        if len(self.param.dims) != 2 or self.param.integer:
            raise trace_error(
                f'parameter "{self.label}" is not a matrix: it has '
                f"{len(self.param.dims)} dim(s)"
            )
        return self.name, self.tensor, self.extents[0]

    def __getattr__(self, attribute):
        if attribute == "type" or attribute.startswith("__"):
            raise AttributeError(attribute)
        raise trace_error(
            f'parameter "{self.label}" has no attribute "{attribute}"',
            hint="; ".join(filter(None, ["index it to read an element", instead_of(attribute)])),
        )


def _is_whole(index) -> bool:
    # Not compared: an end may be a traced value.
    return isinstance(index, slice) and all(e is None for e in (index.start, index.stop, index.step))


def _forward(name: str):
    def method(self, *operands):
        return getattr(self.as_value(), name)(*operands)

    return method


_NUMERIC = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow "
    "rpow neg pos abs eq ne lt le gt ge and rand or ror xor rxor invert lshift "
    "rshift bool float int index"
).split()
for _name in _NUMERIC:
    setattr(TableRow, f"__{_name}__", _forward(f"__{_name}__"))
for _name in [*_NUMERIC, "iter"]:
    setattr(TracedParam, f"__{_name}__", _forward(f"__{_name}__"))


class ParameterVector(Value):
    """A parameter of one dim as a vector; alone with scalars it is a mistake."""

    __slots__ = ("parameter",)

    def __init__(self, parameter: TracedParam):
        super().__init__(
            parameter.builder, parameter.name, VECTOR, parameter.extents[0]
        )
        self.parameter = parameter


class Choice:
    """An option with named values: compare it with their names."""

    def __init__(self, value: Value, label: str, choices: tuple[str, ...]):
        self.builder = value.builder
        self._value = value
        self._label = label
        self._choices = choices

    def _number(self, other) -> int:
        if other not in self._choices:
            raise trace_error(
                f'option "{self._label}" has no choice {other!r}'
                f"{nearest(str(other), self._choices)}"
            )
        return self._choices.index(other)

    def as_value(self) -> Value:
        return self._value

    def __eq__(self, other):
        return self._value == self._number(other)

    def __ne__(self, other):
        return self._value != self._number(other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self):
        return bool(self._value)


def write_option(
    builder: Builder, label: str, default, choices: tuple[str, ...], allowed: Range
):
    """Declares an option and gives what the traced function sees of it."""
    name = builder.name(label)
    head = f'{name} = pos.option "{label}"'
    if choices:
        if not all(isinstance(choice, str) for choice in choices):
            raise trace_error(
                f'option "{label}" has choices that are no names', hint='write Literal["1", "2"]'
            )
        if default not in choices:
            raise trace_error(
                f'the default {default!r} of option "{label}" is not among its choices'
            )
        quoted = ", ".join(f'"{c}"' for c in choices)
        builder.line(f'{head} : i32 = "{default}" of [{quoted}]')
        return Choice(Value(builder, name, I32), label, choices)
    if isinstance(default, bool):
        builder.line(f"{head} : i1 = {'true' if default else 'false'}")
        return Value(builder, name, I1)
    if isinstance(default, int):
        builder.line(f"{head} : i32 = {default} : i32{allowed.text}")
        return Value(builder, name, I32)
    if isinstance(default, float):
        builder.line(f"{head} : f32 = {spell_float(default)} : f32{allowed.text}")
        return Value(builder, name, F32)
    raise trace_error(
        f'option "{label}" must default to a number, true or false, or a name of '
        f"typing.Literal, got {type_name(default)}"
    )


def write_dim(builder: Builder, dim: str | int, options: dict[str, Value]) -> Value:
    """The i32 value of a dim: an extent, an option, a number, or arithmetic."""
    if isinstance(dim, bool) or not isinstance(dim, (str, int)):
        raise trace_error(f"a dim is a name or a whole number, got {type_name(dim)}")
    try:
        tree = ast.parse(str(dim), mode="eval").body
    except SyntaxError:
        raise trace_error(f'dim "{dim}" is not arithmetic on names') from None
    return _dim_value(builder, tree, options, str(dim))


def _named(builder: Builder, name: str, options: dict[str, Value], unknown: str) -> Value | Choice:
    """An option or an extent by name; ``unknown`` begins the error of another name."""
    if name in options:
        return options[name]
    if name in EXTENTS:
        return Value(builder, builder.pure(f"pos.extent {name}", name), I32)
    raise trace_error(unknown + nearest(name, [*EXTENTS, *options]))


def _dim_value(builder: Builder, node: ast.expr, options, text: str) -> Value:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return constant(builder, node.value, I32)
    if isinstance(node, ast.Name):
        found = lift(builder, _named(builder, node.id, options, f'unknown dim "{node.id}"'))
        if found.type != I32:
            raise trace_error(f'a dim is an integer, option "{node.id}" is {KINDS[found.type]}')
        return found
    signs = {ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.FloorDiv: "__floordiv__"}
    if isinstance(node, ast.BinOp) and type(node.op) in signs:
        left = _dim_value(builder, node.left, options, text)
        right = _dim_value(builder, node.right, options, text)
        return getattr(left, signs[type(node.op)])(right)
    raise trace_error(f'dim "{text}" may only use names, whole numbers, + - * //')


def write_param(builder: Builder, label: str, param: Param, options: dict[str, Value]) -> TracedParam:
    """Declares a parameter and gives what the traced function sees of it."""
    dims = [write_dim(builder, dim, options).name for dim in param.dims]
    name = builder.name(label)
    traced = TracedParam(builder, label, name, param, dims)
    head = f'{name} = pos.param "{label}" : {traced.tensor} dims({", ".join(dims)})'
    if param.frozen:
        head += " frozen"
    init = param.init
    if init is None and not param.given:
        init = normal()
    tail = ""
    if param.floor is not None:
        tail += f" floor {spell_float(param.floor)}"
    if param.ceiling is not None:
        tail += f" ceiling {spell_float(param.ceiling)}"
    if param.scope != "layer":
        tail += f" scope {param.scope}"
    if isinstance(init, Distribution):
        values = [constant(builder, a, F32).name for a in init.arguments]
        builder.line(f"{head} init {init.kind}({', '.join(values)}){tail}")
    elif callable(init):
        indices = [builder.name("i") for _ in dims]
        arguments = ", ".join(f"{i}: i32" for i in indices)
        with builder.region(f"{head} by", arguments, tail.strip()):
            unknown = f'init of parameter "{label}" takes by keyword what is no extent and no option, '
            named = {
                name: _named(builder, name, options, f'{unknown}"{name}"')
                for name in _check_indices(label, param, init)
            }
            value = init(*(Value(builder, i, I32) for i in indices), **named)
            value = lift(builder, value, F32).as_number()
            builder.line(f"pos.yield {value.name} : f32")
    else:
        builder.line(head + tail)
    return traced


def _check_indices(label: str, param: Param, init: Callable) -> list[str]:
    """A function of initial values takes an index for each dim. Gives what it takes by
    keyword besides."""
    try:
        signature = inspect.signature(init)
        names = [n for n, one in signature.parameters.items() if one.kind is one.KEYWORD_ONLY]
        signature.bind(*param.dims, **dict.fromkeys(names))
        return names
    except TypeError:
        raise trace_error(
            f'init of parameter "{label}" is called with an index for each of its '
            f"{len(param.dims)} dim(s) ({', '.join(map(str, param.dims))}), which it does not take"
        ) from None
    except ValueError:  # a function of C says nothing of its arguments
        return []
