"""Decorators that trace Python functions into encodings.

::

    @sextant.encoding
    def mine(score, at, slope: sextant.PerHead, *, reach=64):
        return score - slope[at.head] * sextant.sqrt(abs(at.offset))

A function is called once, with objects that write down what is done with them.
Arguments after ``at`` are parameters (annotated with `Param`), keyword-only
arguments are options.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..errors import CompileError, nearest
from ..uses import Use, parse_use
from .builder import Builder, trace_error
from .parameters import EXTENTS, Param, write_dim, write_option, write_param
from .values import F32, I1, I32, VECTOR, Value, lift, type_name

_OPERANDS = (
    "query",
    "key",
    "value",
    "embedding",
    "query_input",
    "key_input",
    "value_input",
)
_GROUPS = {"half": 2, "interleaved": 2, "single": 1, "whole": 1}


class Offset(Value):
    """Key's position minus the query's; ``at.offset(axis)`` is another axis."""

    __slots__ = ()

    def __call__(self, axis: int = 0) -> Value:
        return _context(self.builder, f"pos.offset axis {axis}" if axis else "pos.offset", "offset")


class At:
    """Where a payload stands. All are integers, except `scale`."""

    def __init__(self, builder: Builder, score_type: str = ""):
        self.builder = builder
        self._score_type = score_type

    @property
    def host(self) -> Value:
        """What the hosts that a use names add to the score (0 without hosts): a
        number, or a vector where the function sees all heads."""
        if not self._score_type:
            raise trace_error("at.host has a meaning in a score only")
        extent = ""
        if self._score_type == VECTOR:
            extent = self.builder.pure("pos.extent heads", "heads")
        name = self.builder.pure(f"pos.host : {self._score_type}", "host")
        return Value(self.builder, name, self._score_type, extent)

    @property
    def offset(self) -> Offset:
        """Key's position minus the query's: negative for keys before."""
        return Offset(self.builder, self.builder.pure("pos.offset", "offset"), I32)

    @property
    def head(self) -> Value:
        """The head, counted among the heads of the operand at hand."""
        return _context(self.builder, "pos.head", "head")

    @property
    def query(self) -> Value:
        """Index of the query; queries and keys are aligned at the end."""
        return _context(self.builder, "pos.index query", "query")

    @property
    def key(self) -> Value:
        """Index of the key."""
        return _context(self.builder, "pos.index key", "key")

    @property
    def row(self) -> Value:
        """Index of the row that a row map works on."""
        return _context(self.builder, "pos.index self", "row")

    @property
    def batch(self) -> Value:
        """Element of the batch."""
        return _context(self.builder, "pos.batch", "batch")

    @property
    def lane(self) -> Value:
        """Group of lanes that a row map works on, counted from 0 in its range; or
        number of an appended column."""
        return _context(self.builder, "pos.lane", "lane")

    @property
    def scale(self) -> Value:
        """Factor on the product of query and key: 1 / sqrt(head_dim) unless given."""
        return Value(self.builder, self.builder.pure("pos.scale", "scale"), F32)

    def coord(self, side: str = "self", axis: int = 0) -> Value:
        """Position of the "query", the "key", or the mapped row ("self")."""
        if side not in ("self", "query", "key"):
            raise trace_error(
                f"at.coord has no side {side!r}{nearest(str(side), ['self', 'query', 'key'])}"
            )
        end = f" axis {axis}" if axis else ""
        return _context(self.builder, f"pos.coord {side}{end}", "position")

    def extent(self, name: str) -> Value:
        """An extent of the attention: heads, kv_heads, head_dim, value_dim, model,
        query, key or batch."""
        if name not in EXTENTS:
            raise trace_error(f"unknown extent {name!r}{nearest(str(name), EXTENTS)}")
        return _context(self.builder, f"pos.extent {name}", name)

    def __getattr__(self, name: str):
        known = [n for n in dir(type(self)) if not n.startswith("_")]
        raise trace_error(f'"at" has no "{name}"{nearest(name, known)}')


def _context(builder: Builder, text: str, hint: str) -> Value:
    return Value(builder, builder.pure(text, hint), I32)


@dataclass(frozen=True)
class Encoding:
    """An encoding made by tracing; goes wherever a name of an encoding goes.

    ``text`` is its definition (`pos.encoding`), which can be saved as
    ``<name>.mlir`` on the search path. ``located`` is the same with the Python
    lines as locations. Calling it names hosts and sets options:
    ``mine("kerple_log", reach=8)``.
    """

    name: str
    text: str
    located: str
    options: tuple[str, ...]
    use: Use
    spelling: str = field(init=False, default="")

    def __call__(self, *hosts: str, **options) -> "Encoding":
        for name in options:
            if name not in self.options:
                raise CompileError(
                    f'encoding "{self.name}" has no option "{name}"'
                    f"{nearest(name, self.options)}"
                )
        merged = {**self.use.options, **options}
        named = self.use.hosts + tuple(parse_use(host) for host in hosts)
        return self._with(Use(self.name, self.use.instance, merged, named))

    def named(self, instance: str) -> "Encoding":
        """The same under another instance name."""
        return self._with(Use(self.name, instance, self.use.options, self.use.hosts))

    def _with(self, use: Use) -> "Encoding":
        return Encoding(self.name, self.text, self.located, self.options, use)

    def __post_init__(self):
        # Kept as text, so that a compiled caller (torch.compile) reads a constant.
        object.__setattr__(self, "spelling", str(self.use))

    def __str__(self) -> str:
        return self.spelling


def encoding(
    function: Callable | None = None,
    *,
    all_heads: bool = False,
    formula: str = "",
    paper: str = "",
):
    """Traces ``function(score, at, parameters..., *, options...)`` into an
    encoding that maps the scaled score at (batch, head, query, key).

    With ``all_heads`` the function sees the vector of all heads' scores.
    """

    def trace(function: Callable) -> Encoding:
        return _trace(function, _ScoreSite(all_heads), formula, paper)

    return trace(function) if function is not None else trace


def mask(function: Callable | None = None, *, formula: str = "", paper: str = ""):
    """Traces ``function(at, parameters..., *, options...)`` into an encoding that
    says which keys a query sees: true is visible."""

    def trace(function: Callable) -> Encoding:
        return _trace(function, _MaskSite(), formula, paper)

    return trace(function) if function is not None else trace


def rows(
    *,
    of: str | Sequence[str],
    group: str = "half",
    lanes: tuple[int, int] | None = None,
    formula: str = "",
    paper: str = "",
):
    """Traces a row map of operands: ``function(x, y, at, ...) -> (x', y')`` for
    groups "half" (lane t with t + n/2) and "interleaved" (2t with 2t + 1), and
    ``function(x, at, ...) -> x'`` for "single" lanes and the "whole" row.

    ``of``: among query, key, value, embedding, query_input, key_input,
    value_input. ``lanes``: the range [begin, end); an end of 0 is the head dim.
    """
    operands = (of,) if isinstance(of, str) else tuple(of)
    for operand in operands:
        if operand not in _OPERANDS:
            raise CompileError(
                f'rows of an unknown operand "{operand}"{nearest(operand, _OPERANDS)}'
            )
    if group not in _GROUPS:
        raise CompileError(f'unknown group "{group}"{nearest(group, _GROUPS)}')

    def trace(function: Callable) -> Encoding:
        return _trace(function, _RowsSite(operands, group, lanes), formula, paper)

    return trace


def columns(
    count: int | str,
    *,
    formula: str = "",
    paper: str = "",
):
    """Traces ``function(at, parameters..., *, options...) -> (a, b)`` into columns
    appended to query and key rows: the score becomes scale * (<q, k> + <a, b>).

    ``count``: how many, a whole number, an option, an extent, or arithmetic on
    these as text. ``at.lane`` is the column. ``a`` varies with the query
    (``at.query``, ``at.coord("query")``), ``b`` with the key; ``at.head`` counts
    the heads of the query in ``a`` and those of the key in ``b``. What does not
    vary with the batch or the head is shared by it, gradients are sums over it.

    >>> @sextant.columns("width")
    ... def low_rank(at, a: sextant.Param(512, "width"), b: sextant.Param(512, "width"), *, width=8):
    ...     return a[at.query, at.lane], b[at.key, at.lane]
    """

    def trace(function: Callable) -> Encoding:
        return _trace(function, _ColumnsSite(count), formula, paper)

    return trace


# What distinguishes the places ---------------------------------------------


class _ScoreSite:
    def __init__(self, all_heads: bool):
        self.type = VECTOR if all_heads else F32
        self.leading = ("scores" if all_heads else "score",)

    def write(self, builder: Builder, call: Callable[..., typing.Any], options) -> None:
        name = builder.name("s")
        with builder.region("pos.score", f"{name}: {self.type}"):
            extent = ""
            if self.type == VECTOR:
                extent = builder.pure("pos.extent heads", "heads")
            result = call(Value(builder, name, self.type, extent))
            _yield(builder, [result], self.type)


class _MaskSite:
    leading: tuple[str, ...] = ()

    def write(self, builder: Builder, call: Callable[..., typing.Any], options) -> None:
        with builder.region("pos.mask"):
            _yield(builder, [call()], I1)


class _RowsSite:
    def __init__(self, operands, group, lanes):
        self.operands, self.group, self.lanes = operands, group, lanes
        self.type = VECTOR if group == "whole" else F32
        self.leading = ("x", "y")[: _GROUPS[group]]

    def write(self, builder: Builder, call: Callable[..., typing.Any], options) -> None:
        head = f"pos.rows of [{', '.join(self.operands)}] {self.group}"
        if self.lanes is not None:
            begin, end = (lift(builder, int(n)).name for n in self.lanes)
            head += f" lanes({begin}, {end})"
        names = [builder.name(n) for n in self.leading]
        arguments = ", ".join(f"{n}: {self.type}" for n in names)
        with builder.region(head, arguments):
            extent = ""
            if self.type == VECTOR:
                extent = builder.pure("pos.extent head_dim", "head_dim")
            results = call(*(Value(builder, n, self.type, extent) for n in names))
            if len(names) == 1:
                results = (results,)
            if not isinstance(results, (tuple, list)) or len(results) != len(names):
                raise trace_error(
                    f"a row map of {self.group} groups returns {len(names)} values"
                )
            _yield(builder, results, self.type)


class _ColumnsSite:
    leading: tuple[str, ...] = ()

    def __init__(self, count):
        self.count = count

    def write(self, builder: Builder, call: Callable[..., typing.Any], options) -> None:
        count = write_dim(builder, self.count, options)
        with builder.region(f"pos.columns {count.name}"):
            results = call()
            if not isinstance(results, (tuple, list)) or len(results) != 2:
                raise trace_error(
                    "columns return 2 values, the query's and the key's"
                )
            _yield(builder, results, F32)


def _yield(builder: Builder, results, type: str) -> None:
    values = []
    for result in results:
        if result is None:
            raise trace_error("the function returns nothing", hint="add a return")
        value = lift(builder, result, type if type != I1 else "")
        if type != I1:
            value = value.as_number()
        if value.type != type:
            want = {I1: "a condition", F32: "a number", VECTOR: "a vector"}[type]
            raise trace_error(f"the function must return {want}, got {value!r}")
        values.append(value)
    names = ", ".join(v.name for v in values)
    builder.line(f"pos.yield {names} : {', '.join([type] * len(values))}")


# Tracing --------------------------------------------------------------------


def _trace(function: Callable, site, formula: str, paper: str) -> Encoding:
    if not callable(function):
        raise CompileError(f"expected a function, got {type_name(function)}")
    if not getattr(function, "__name__", "").isidentifier():
        raise CompileError(
            "an encoding takes the name of its function: write it with def"
        )
    if not formula and function.__doc__:
        formula = function.__doc__.strip().split("\n")[0]
    texts = [_write(function, site, formula, paper, located) for located in (False, True)]
    name = function.__name__
    return Encoding(name, *texts, _option_names(function), Use(name, name))


def _signature(function: Callable) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise _at_function(
            function,
            f"cannot evaluate the annotations ({error})",
        ) from None


def _option_names(function: Callable) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _at_function(function: Callable, message: str) -> CompileError:
    code = function.__code__
    return CompileError(
        f'in encoding "{function.__name__}": {message}',
        file=code.co_filename,
        line=code.co_firstlineno,
        column=1,
    )


def _write(function, site, formula: str, paper: str, located: bool) -> str:
    builder = Builder(located)
    signature = list(_signature(function).parameters.values())
    positional = [p for p in signature if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for p in signature:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise _at_function(function, f"*{p.name} has no meaning in an encoding")
    leading = len(site.leading) + 1
    if len(positional) < leading:
        want = ", ".join([*site.leading, "at"])
        raise _at_function(function, f"its first arguments are ({want})")
    options = {
        p.name: _write_option(builder, function, p)
        for p in signature
        if p.kind is p.KEYWORD_ONLY
    }
    params = []
    for p in positional[leading:]:
        if not isinstance(p.annotation, Param):
            raise _at_function(
                function,
                f'argument "{p.name}" needs an annotation that says what it is, '
                "such as sextant.PerHead or sextant.Param(...); options are "
                "keyword-only (after a *)",
            )
        params.append(write_param(builder, p.name, p.annotation, options))
    at = At(builder, site.type if isinstance(site, _ScoreSite) else "")
    site.write(builder, lambda *data: function(*data, at, *params, **options), options)
    return _assemble(function.__name__, builder, formula, paper)


def _write_option(builder: Builder, function, parameter: inspect.Parameter):
    if parameter.default is parameter.empty:
        raise _at_function(function, f'option "{parameter.name}" needs a default')
    choices: tuple[str, ...] = ()
    if typing.get_origin(parameter.annotation) is typing.Literal:
        choices = typing.get_args(parameter.annotation)
    return write_option(builder, parameter.name, parameter.default, choices)


def _assemble(name: str, builder: Builder, formula: str, paper: str) -> str:
    notes = [
        f'{key} = "{_escape(value)}"'
        for key, value in (("formula", formula), ("paper", paper))
        if value
    ]
    attributes = f" attributes {{{', '.join(notes)}}}" if notes else ""
    body = "\n".join(builder.lines)
    return f"pos.encoding @{name}{attributes} {{\n{body}\n}}\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
