"""The places at which traced functions act: what each is given and returns.

A site has ``leading``, the names of the arguments before ``at``, ``place``, what
``at`` can be asked there, and ``write``, which writes the site's op around what the
function makes.
"""

from __future__ import annotations

import numbers
import typing
from collections.abc import Callable, Sequence

from ..errors import CompileError, nearest
from .at import Place
from .builder import Builder, trace_error
from .parameters import write_dim
from .table_rows import TableRow
from .values import F32, I1, I32, KINDS, VECTOR, Value, lift, type_name

Call = Callable[..., typing.Any]

# Lanes of a group, by the name of the grouping.
GROUPS = {"half": 2, "interleaved": 2, "single": 1, "whole": 1}

_OPERANDS = (
    "query",
    "key",
    "value",
    "embedding",
    "query_input",
    "key_input",
    "value_input",
)
_PAIR = frozenset({"offset", "head", "query", "key"})
_NO_LANES = "rows and columns have lanes, scores have none"
_NO_ROW = {
    "self": 'use at.query and at.key, at.coord("query") and at.coord("key")',
    "lane": _NO_LANES,
}
_ONE_SIDE = dict.fromkeys(
    ("offset", "query", "key"),
    "it sees one row: its index is at.row, its position at.coord()",
)


def check_operands(of: str | Sequence[str], known: Sequence[str] = _OPERANDS) -> tuple[str, ...]:
    """The operands that a map works on; a `CompileError` where there are none, one is
    named twice or is not among ``known``."""
    operands = (of,) if isinstance(of, str) else tuple(of)
    if not operands:
        raise CompileError(
            f'of names no operand: one or more of {", ".join(known)}, as in of=["query", "key"]'
        )
    for operand in operands:
        if operand not in _OPERANDS:
            raise CompileError(
                f'rows of an unknown operand "{operand}"{nearest(str(operand), known)}'
            )
        if operand not in known:
            raise CompileError(f"turns rows of {' and '.join(known)}, not of {operand}")
        if operands.count(operand) > 1:
            raise CompileError(f"of names {operand} twice")
    return operands


class ScoreSite:
    """The score at (batch, head, query, key), or those of all heads."""

    def __init__(self, all_heads: bool):
        self.type = VECTOR if all_heads else F32
        self.leading = ("scores" if all_heads else "score",)
        if all_heads:
            instead = _NO_ROW | {
                "head": "scores are a vector over heads, and beside them a parameter of "
                "one dim is too: scores * gain"
            }
            self.place = Place("a score of all heads", _PAIR - {"head"}, instead, VECTOR)
        else:
            self.place = Place("a score", _PAIR, _NO_ROW, F32)

    def write(self, builder: Builder, call: Call, options) -> None:
        name = builder.name("s")
        with builder.region("pos.score", f"{name}: {self.type}"):
            extent = ""
            if self.type == VECTOR:
                extent = builder.pure("pos.extent heads", "heads")
            result = call(Value(builder, name, self.type, extent))
            _yield(builder, [result], self.type)


class MaskSite:
    """Whether a query sees a key."""

    leading: tuple[str, ...] = ()
    place = Place("a mask", _PAIR, _NO_ROW)

    def write(self, builder: Builder, call: Call, options) -> None:
        with builder.region("pos.mask"):
            _yield(builder, [call()], I1)


class RowsSite:
    """A group of lanes of a row."""

    def __init__(self, operands: Sequence[str], group: str, lanes: tuple[int, int] | None):
        axes = {"head", "self"} | (set() if group == "whole" else {"lane"})
        instead = _ONE_SIDE | {"lane": "the argument is the whole row, a vector"}
        self.place = Place("a map of rows", frozenset(axes), instead)
        self.operands, self.group, self.lanes = operands, group, lanes
        self.type = VECTOR if group == "whole" else F32
        self.leading = ("x", "y")[: GROUPS[group]]

    def write(self, builder: Builder, call: Call, options) -> None:
        head = f"pos.rows of [{', '.join(self.operands)}] {self.group}"
        if self.lanes is not None:
            begin, end = (lift(builder, n).name for n in _lanes(self.lanes))
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
                    f"a row map of {self.group} groups returns {len(names)} values, got "
                    f"{_kind(results)}"
                )
            _yield(builder, results, self.type)


def _lanes(lanes) -> tuple[int, int]:
    """The range of lanes as two integers."""
    pair = tuple(lanes) if isinstance(lanes, (tuple, list)) else ()
    if len(pair) != 2 or not all(map(_is_whole, pair)):
        raise trace_error(
            f"lanes must be two whole numbers, (begin, end), got {lanes!r}",
            hint="without lanes a map works on all of them",
        )
    return int(pair[0]), int(pair[1])


def _is_whole(number) -> bool:
    return isinstance(number, numbers.Integral) and not isinstance(number, bool)


class TurnRowsSite:
    """An element of the matrix whose exponential a block of lanes is turned by."""

    leading = ("block", "row", "column")
    place = Place(
        "the matrix of a turn",
        frozenset({"head", "self"}),
        _ONE_SIDE | {"lane": "the arguments block, row and column say which element it is"},
    )

    def __init__(self, operands: Sequence[str], size: int | str):
        self.operands, self.size = operands, size

    def write(self, builder: Builder, call: Call, options) -> None:
        size = write_dim(builder, self.size, options)
        names = [builder.name(n) for n in self.leading]
        head = f"pos.turn_rows of [{', '.join(self.operands)}] blocks {size.name}"
        with builder.region(head, ", ".join(f"{n}: i32" for n in names)):
            result = call(*(Value(builder, n, I32) for n in names))
            if isinstance(result, (tuple, list)):
                raise trace_error(
                    "a turn returns one number, the matrix's element at (row, column), "
                    f"got {len(result)} values"
                )
            _yield(builder, [result], F32)


class ColumnsSite:
    """A column that is appended to the rows of queries and keys."""

    leading: tuple[str, ...] = ()
    place = Place(
        "columns",
        frozenset({"head", "query", "key", "lane"}),
        {
            "offset": "the first value sees the query, the second the key: their positions "
            'are at.coord("query") and at.coord("key")',
            "self": _NO_ROW["self"],
        },
    )

    def __init__(self, count: int | str):
        self.count = count

    def write(self, builder: Builder, call: Call, options) -> None:
        count = write_dim(builder, self.count, options)
        with builder.region(f"pos.columns {count.name}"):
            results = call()
            if not isinstance(results, (tuple, list)) or len(results) != 2:
                raise trace_error(
                    "columns return 2 values, the query's and the key's"
                )
            _yield(builder, results, F32)


class WeightedRowsSite:
    """A row of a table that is added to the value of a key."""

    leading: tuple[str, ...] = ()
    place = Place("weighted rows", _PAIR, _NO_ROW)

    def write(self, builder: Builder, call: Call, options) -> None:
        first = len(builder.lines)
        with builder.region("pos.weighted_rows"):
            row = call()
            want = "weighted rows return a row of a parameter of two dims, table[i]"
            if not isinstance(row, TableRow):
                raise trace_error(f"{want}, got {_kind(row)}")
            if row.is_column:
                raise trace_error(f"{want}, got a column, {row.text}")
            row.check_lanes(("value_dim",), "the row of a value")
            builder.line(f"pos.yield {row.index.name} : i32")
        # Which table it is, the function said last.
        table = row.table
        builder.lines[first] = f"{builder.indent}pos.weighted_rows {table.name} : {table.tensor} {{"


Site = ScoreSite | MaskSite | RowsSite | TurnRowsSite | ColumnsSite | WeightedRowsSite


def _kind(result) -> str:
    """What a function returned, for messages."""
    if result is None:
        return "nothing"
    if isinstance(result, (tuple, list)):
        return f"{len(result)} values"
    if hasattr(result, "matrix_operand"):
        return "a parameter"
    return KINDS[result.type] if isinstance(result, Value) else type_name(result)


_WANTED = {I1: "a condition", F32: "a number", VECTOR: "a vector"}


def _yield(builder: Builder, results, type: str) -> None:
    values = []
    for result in results:
        if result is None:
            raise trace_error("the function returns nothing", hint="add a return")
        want = f'the function must return {_WANTED[type]}'
        if isinstance(result, (tuple, list)):
            raise trace_error(f"{want}, got {_kind(result)}")
        value = lift(builder, result, type if type != I1 else "")
        if type != I1:
            value = value.as_number()
        if value.type != type:
            hint = ""
            if value.type == VECTOR:
                # Beside numbers a parameter of one dim is taken for a vector of them.
                hint = "index a parameter of one dim: slope[at.head]"
            raise trace_error(f"{want}, got {KINDS[value.type]}", hint=hint)
        values.append(value)
    names = ", ".join(v.name for v in values)
    builder.line(f"pos.yield {names} : {', '.join([type] * len(values))}")
