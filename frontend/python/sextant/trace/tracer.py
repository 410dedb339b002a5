"""Decorators that trace Python functions into encodings.

::

    @sextant.encoding
    def mine(score, at, slope: sextant.PerHead, *, reach=64):
        return score - slope[at.head] * sextant.sqrt(abs(at.offset))

A function is called once, with objects that write down what is done with them.
Arguments after ``at`` are parameters (annotated with `Param`), keyword-only
arguments are options. All decorators take ``formula`` and ``paper``, texts of the
definition, and ``requires``, what has to hold where it is used (`require`,
`require_span`, `require_past`, one or a list).
"""

from __future__ import annotations

import inspect
import numbers
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..errors import CompileError, nearest
from ..uses import Use, parse_use
from .at import At
from .builder import Builder
from .parameters import Param, Range, write_option, write_param
from .requirements import Requirement, check_requirements, write_requirement
from .sites import (
    GROUPS,
    ColumnsSite,
    MaskSite,
    RowsSite,
    ScoreSite,
    Site,
    TurnRowsSite,
    WeightedRowsSite,
    check_operands,
)
from .values import type_name

Requires = Requirement | Sequence[Requirement]


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
    hosts: tuple[str, ...] = field(init=False, default=())

    def __call__(self, *hosts: str, **options) -> Encoding:
        for name, value in options.items():
            if name not in self.options:
                has = nearest(name, self.options) if self.options else "; it has none"
                raise CompileError(f'encoding "{self.name}" has no option "{name}"{has}')
            options[name] = _plain(value)
            if not isinstance(options[name], (bool, int, float, str)):
                raise CompileError(
                    f'option "{name}" of encoding "{self.name}" is a number, true or false, or '
                    f"the name of a choice, got {type_name(value)}"
                )
        named = self.use.hosts + tuple(map(self._host, hosts))
        if named and "pos.host" not in self.text:
            raise CompileError(
                f'encoding "{self.name}" takes no hosts: its function does not ask for at.host'
            )
        merged = {**self.use.options, **options}
        return self._with(Use(self.name, self.use.instance, merged, named))

    def _host(self, host) -> Use:
        """The use that a positional argument of a call names."""
        if isinstance(host, Use):
            return host
        if isinstance(host, str):
            return parse_use(host)
        cure = (
            f'an encoding computes inside attention: sextant.attention(q, k, v, [{self.name}])'
            if type_name(host) in ("Tensor", "Parameter", "ndarray", "Value")
            else f"options go by name: {self.name}({next(iter(self.options), 'size')}=...)"
            if isinstance(host, (bool, int, float))
            else "a host is the name of an installed encoding, such as \"alibi\""
        )
        raise CompileError(
            f'encoding "{self.name}" is called with hosts and options, got {type_name(host)}; {cure}'
        )

    def named(self, instance: str) -> Encoding:
        """The same under another instance name."""
        return self._with(Use(self.name, instance, self.use.options, self.use.hosts))

    def _with(self, use: Use) -> Encoding:
        return Encoding(self.name, self.text, self.located, self.options, use)

    def __post_init__(self):
        # Kept as text, so that a compiled caller (torch.compile) reads a constant.
        object.__setattr__(self, "spelling", str(self.use))
        object.__setattr__(self, "hosts", tuple(map(str, self.use.hosts)))

    def __str__(self) -> str:
        return self.spelling


def encoding(
    function: Callable | None = None,
    *,
    all_heads: bool = False,
    formula: str = "",
    paper: str = "",
    requires: Requires = (),
):
    """Traces ``function(score, at, parameters..., *, options...)`` into an
    encoding that maps the scaled score at (batch, head, query, key).

    With ``all_heads`` the function sees the vector of all heads' scores. A score of
    one head may depend on contents: ``at.query_dot`` and ``at.key_dot`` (the query's
    or the key's row times a table's row), ``at.scan`` (a sum over visible keys),
    ``at.running_sum``.
    """

    def trace(function: Callable) -> Encoding:
        return _trace(function, ScoreSite(all_heads), formula, paper, requires)

    return trace(function) if function is not None else trace


def mask(
    function: Callable | None = None,
    *,
    formula: str = "",
    paper: str = "",
    requires: Requires = (),
):
    """Traces ``function(at, parameters..., *, options...)`` into an encoding that
    says which keys a query sees: true is visible."""

    def trace(function: Callable) -> Encoding:
        return _trace(function, MaskSite(), formula, paper, requires)

    return trace(function) if function is not None else trace


def rows(
    function: Callable | None = None,
    *,
    of: str | Sequence[str] = (),
    group: str = "half",
    lanes: tuple[int, int] | None = None,
    formula: str = "",
    paper: str = "",
    requires: Requires = (),
):
    """Traces a row map of operands: ``function(x, y, at, ...) -> (x', y')`` for
    groups "half" (lane t with t + n/2) and "interleaved" (2t with 2t + 1), and
    ``function(x, at, ...) -> x'`` for "single" lanes and the "whole" row. A map of whole
    rows can be written and saved; so far no target, reference included, has a kernel of it.

    ``of``: among query, key, value, embedding, query_input, key_input,
    value_input. ``lanes``: the range [begin, end); an end of 0 is the head dim.
    """
    operands = check_operands(of)
    if group not in GROUPS:
        raise CompileError(f'unknown group "{group}"{nearest(group, GROUPS)}')

    def trace(function: Callable) -> Encoding:
        return _trace(function, RowsSite(operands, group, lanes), formula, paper, requires)

    return trace(function) if function is not None else trace


def turn_rows(
    function: Callable | None = None,
    *,
    of: str | Sequence[str] = ("query", "key"),
    block: int | str = "head_dim",
    formula: str = "",
    paper: str = "",
    requires: Requires = (),
):
    """Traces ``function(block, row, column, at, parameters..., *, options...) -> a``
    into a turn of query and key rows: block x of a row becomes exp(A) x, where
    ``a``, a number, is the element of the matrix A at (row, column). All three
    arguments are integers that count from 0.

    ``of``: query, key or both. ``block``: lanes of a block, a whole number, an
    option, an extent, or arithmetic on these as text; by default the head is one
    block. Blocks follow each other from lane 0 on, head_dim // block of them;
    lanes that fill none stay as they are. A may vary with ``at.row``,
    ``at.coord()``, ``at.batch`` and ``at.head``, which counts the operand's own
    heads; rows that share an A share its exponential.

    A skew A (a[r, c] = -a[c, r]) is a rotation (Ostmeier et al. 2024, LieRE,
    section 4). If it is the position times a matrix that does not vary with it,
    the score depends on the difference of the positions only.

    Raises `CompileError` for operands that do not turn and for what there is not in
    a turn (a score, an offset, the other side). What a call decides is an error
    when it compiles: a block wider than a head, a turn that is named after another
    map of the same rows, a ``query_dot`` of a query that turns, a ``key_dot`` of a key.

    >>> @sextant.turn_rows(block="size")
    ... def turned(block, row, column, at, g: sextant.Param("head_dim // size", "size", "size"), *, size=8):
    ...     return at.coord() * (g[block, row, column] - g[block, column, row])
    """
    operands = check_operands(of, ("query", "key"))

    def trace(function: Callable) -> Encoding:
        return _trace(function, TurnRowsSite(operands, block), formula, paper, requires)

    return trace(function) if function is not None else trace


def columns(
    count: int | str,
    *,
    formula: str = "",
    paper: str = "",
    requires: Requires = (),
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

    if callable(count):
        raise CompileError("columns are so many: write @sextant.columns(8), or an option's name")

    def trace(function: Callable) -> Encoding:
        return _trace(function, ColumnsSite(count), formula, paper, requires)

    return trace


def weighted_rows(
    function: Callable | None = None,
    *,
    formula: str = "",
    paper: str = "",
    requires: Requires = (),
):
    """Traces ``function(at, parameters..., *, options...) -> table[i]`` into rows of a
    table that are added to values: o_i = sum_j P_ij (v_j + table[i]), with the row
    that the function returns at (query i, key j).

    The table is a parameter of (rows, value_dim), shared by the heads. The index is an
    integer made of ``at`` and of parameters, without the score; one outside of the
    table gives NaN.

    >>> @sextant.weighted_rows
    ... def value_side(at, av: sextant.Param("2 * reach + 1", "value_dim"), *, reach=16):
    ...     return av[sextant.clamp(at.offset, -reach, reach) + reach]
    """

    def trace(function: Callable) -> Encoding:
        return _trace(function, WeightedRowsSite(), formula, paper, requires)

    return trace(function) if function is not None else trace


# Tracing --------------------------------------------------------------------


def _plain(value):
    """A number of NumPy as Python's; everything else as it is."""
    if type(value) in (bool, int, float, str):
        return value
    if type_name(value) == "bool":  # NumPy's is no bool
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def _trace(function: Callable, site: Site, formula: str, paper: str, requires: Requires) -> Encoding:
    if not callable(function):
        raise CompileError(f"expected a function, got {type_name(function)}")
    if not getattr(function, "__name__", "").isidentifier():
        raise CompileError(
            "an encoding takes the name of its function: write it with def"
        )
    if not formula and function.__doc__:
        formula = function.__doc__.strip().split("\n")[0]
    needs = check_requirements(requires)
    try:
        text, located = (
            _write(function, site, formula, paper, needs, with_lines) for with_lines in (False, True)
        )
    except CompileError as error:
        # Its place says more than the frames of this package.
        raise error.with_traceback(None) from None
    name = function.__name__
    return Encoding(name, text, located, _option_names(function), Use(name, name))


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


def _check_leading(function: Callable, positional: list[inspect.Parameter], site: Site) -> None:
    """What a site gives stands first, then ``at``, then parameters."""
    leading = [*site.leading, "at"]
    names = [p.name for p in positional]
    first = positional[: len(leading)]
    misplaced = "at" in names and names.index("at") != len(leading) - 1
    if len(first) < len(leading) or misplaced or any(isinstance(p.annotation, Param) for p in first):
        raise _at_function(
            function,
            f"its first arguments are ({', '.join(leading)}), got ({', '.join(names)})",
        )


def _check_names(function: Callable, parameters: Sequence[inspect.Parameter]) -> None:
    """Uses, and names of values in a definition, are of plain letters."""
    for name in (function.__name__, *(p.name for p in parameters)):
        if not name.isascii():
            raise _at_function(
                function, f'the name "{name}" is not of the letters a to z, digits and _ alone'
            )


def _write(function, site: Site, formula: str, paper: str, requires, located: bool) -> str:
    builder = Builder(located)
    signature = list(_signature(function).parameters.values())
    positional = [p for p in signature if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for p in signature:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise _at_function(function, f"*{p.name} has no meaning in an encoding")
    _check_leading(function, positional, site)
    _check_names(function, signature)
    declared = positional[len(site.leading) + 1 :]
    for p in declared:
        if not isinstance(p.annotation, Param):
            raise _at_function(
                function,
                f'argument "{p.name}" needs an annotation that says what it is, '
                "such as sextant.PerHead or sextant.Param(...); options are "
                "keyword-only (after a *)",
            )
    with builder.at_work():
        options = {
            p.name: _write_option(builder, function, p)
            for p in signature
            if p.kind is p.KEYWORD_ONLY
        }
        for one in requires:
            write_requirement(builder, one, options)
        params = [write_param(builder, p.name, p.annotation, options) for p in declared]
        at = At(builder, site.place)
        site.write(builder, lambda *data: function(*data, at, *params, **options), options)
    return _assemble(function.__name__, builder, formula, paper)


def _write_option(builder: Builder, function, parameter: inspect.Parameter):
    if parameter.default is parameter.empty:
        raise _at_function(function, f'option "{parameter.name}" needs a default')
    choices: tuple[str, ...] = ()
    if typing.get_origin(parameter.annotation) is typing.Literal:
        choices = typing.get_args(parameter.annotation)
    allowed = parameter.annotation
    if not isinstance(allowed, Range):
        allowed = Range()
    return write_option(builder, parameter.name, parameter.default, choices, allowed)


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
    """As a text in MLIR, which ends at a control character."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return shown.replace("\\", "\\\\").replace('"', '\\"')
