"""Where a payload stands: the argument ``at`` of a traced function."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import nearest
from . import running, table_rows
from .builder import Builder, trace_error
from .parameters import EXTENTS
from .table_rows import TableRow
from .values import F32, I32, VECTOR, Value


@dataclass(frozen=True)
class Place:
    """What there is at a site.

    ``what``: the site, as it stands after "in". ``axes``: among offset, head,
    query, key, self, lane. ``instead``: for an axis that there is not, what to
    write. ``score``: the type of the score that is mapped, or empty.
    """

    what: str
    axes: frozenset[str]
    instead: dict[str, str] = field(default_factory=dict)
    score: str = ""


class Offset(Value):
    """Key's position minus the query's; ``at.offset(axis)`` is another axis."""

    __slots__ = ()

    # The one value that can be called.
    def __call__(self, axis: int = 0) -> Value:  # type: ignore[override]
        return _context(self.builder, f"pos.offset{axis_text('at.offset', axis)}", "offset")


class At:
    """Where a payload stands. All are integers, except `scale` and `host`, and what
    depends on contents: `query_dot`, `key_dot`, `scan` and `running_sum` are numbers.

    What there is not at a place is an error there: `row` and `lane` belong to
    maps of rows, `offset`, `query` and `key` to scores and masks, `query_dot`,
    `key_dot` and `scan` to the score of one head.
    """

    def __init__(self, builder: Builder, place: Place):
        self.builder = builder
        self._place = place

    def _require(self, axis: str, spelling: str) -> None:
        place = self._place
        body = self.builder.nested
        if body.endswith("running sum") and axis in ("offset", "query", "key"):
            raise trace_error(
                f"{spelling} has no meaning in {body}",
                hint="the argument of the function is the index of the key",
            )
        if axis not in place.axes:
            raise trace_error(
                f"{spelling} has no meaning in {place.what}", hint=place.instead.get(axis, "")
            )

    def _require_score(self, spelling: str, nested: tuple[str, ...] = ()) -> None:
        """An error where ``spelling`` does not stand in a score of one head, itself or
        in a body among ``nested``."""
        body = self.builder.nested
        if self._place.score == F32 and (not body or body in nested):
            return
        place = body if self._place.score == F32 else self._place.what
        hint = "it belongs to a score of one head: @sextant.encoding without all_heads"
        if self._place.score == F32:
            hint = "make it before, outside of the function of the sum"
        raise trace_error(f"{spelling} has no meaning in {place}", hint=hint)

    @property
    def host(self) -> Value:
        """What the hosts that a use names add to the score (0 without hosts): a
        number, or a vector where the function sees all heads."""
        type_ = self._place.score
        if not type_:
            raise trace_error("at.host has a meaning in a score only")
        if self.builder.nested.endswith("running sum"):
            raise trace_error(f"at.host has no meaning in {self.builder.nested}")
        extent = ""
        if type_ == VECTOR:
            extent = self.builder.pure("pos.extent heads", "heads")
        name = self.builder.pure(f"pos.host : {type_}", "host")
        return Value(self.builder, name, type_, extent)

    @property
    def offset(self) -> Offset:
        """Key's position minus the query's: negative for keys before."""
        self._require("offset", "at.offset")
        return Offset(self.builder, self.builder.pure("pos.offset", "offset"), I32)

    @property
    def head(self) -> Value:
        """The head, counted among the heads of the operand at hand."""
        self._require("head", "at.head")
        return _context(self.builder, "pos.head", "head")

    @property
    def query(self) -> Value:
        """Index of the query; queries and keys are aligned at the end. A parameter
        with a dim "query" is read at `query_row`."""
        self._require("query", "at.query")
        return _context(self.builder, "pos.index query", "query")

    @property
    def query_row(self) -> Value:
        """Row of the query's tensor, counted from 0: where a parameter with a dim
        "query" has what belongs to the query.

        >>> at.key < length[at.batch, at.query_row]
        """
        self._require("query", "at.query_row")
        return _context(self.builder, "pos.tensor_row query", "query_row")

    @property
    def key(self) -> Value:
        """Index of the key."""
        self._require("key", "at.key")
        return _context(self.builder, "pos.index key", "key")

    @property
    def row(self) -> Value:
        """Index of the row that is mapped or turned."""
        self._require("self", "at.row")
        return _context(self.builder, "pos.index self", "row")

    @property
    def tensor_row(self) -> Value:
        """The row that is mapped or turned, counted from 0 in its own tensor: where a
        parameter with a dim "query" has what belongs to a row of the query."""
        self._require("self", "at.tensor_row")
        return _context(self.builder, "pos.tensor_row self", "tensor_row")

    @property
    def batch(self) -> Value:
        """Element of the batch."""
        return _context(self.builder, "pos.batch", "batch")

    @property
    def lane(self) -> Value:
        """Group of lanes that a row map works on, counted from 0 in its range; or
        number of an appended column."""
        self._require("lane", "at.lane")
        return _context(self.builder, "pos.lane", "lane")

    @property
    def scale(self) -> Value:
        """Factor on the product of query and key: 1 / sqrt(head_dim) unless given."""
        return Value(self.builder, self.builder.pure("pos.scale", "scale"), F32)

    def coord(self, side: str = "self", axis: int = 0) -> Value:
        """Position of the "query", the "key", or the row at hand ("self")."""
        if side not in ("self", "query", "key"):
            if isinstance(side, int):
                raise trace_error(
                    f"the first argument of at.coord is a side, got {side}",
                    hint=f"write at.coord(axis={side}), or at.coord(\"query\", {side})",
                )
            raise trace_error(
                f"at.coord has no side {side!r}{nearest(str(side), ['self', 'query', 'key'])}"
            )
        self._require(side, "at.coord()" if side == "self" else f'at.coord("{side}")')
        end = axis_text("at.coord", axis)
        return _context(self.builder, f"pos.coord {side}{end}", "position")

    def least_coord(self, side: str, axis: int = 0) -> Value:
        """Least position of all rows of the "query" or the "key" in this call and the
        whole batch: one integer per call, everywhere."""
        return self._bound("least", side, axis)

    def greatest_coord(self, side: str, axis: int = 0) -> Value:
        """Greatest position of a side, as `least_coord`.

        >>> middle = (at.least_coord("key") + at.greatest_coord("key")) / 2
        """
        return self._bound("greatest", side, axis)

    def _bound(self, bound: str, side: str, axis: int) -> Value:
        if side not in ("query", "key"):
            raise trace_error(
                f"at.{bound}_coord is one of the query or the key, not of "
                f"{side!r}{nearest(str(side), ['query', 'key'])}"
            )
        end = axis_text(f"at.{bound}_coord", axis)
        return _context(self.builder, f"pos.bound {bound} {side}{end}", bound)

    def query_dot(self, row: TableRow, plus: TableRow | None = None) -> Value:
        """The query row times a row or a column of a table, a number without the scale:
        ``at.query_dot(table[i])`` of a parameter of (rows, head_dim) and
        ``at.query_dot(table[:, i])`` of one of (head_dim, columns), which all heads
        share; a parameter of ("heads * head_dim", columns) has a part for each head.

        The index is any integer of the score: clipped, or made of contents. One
        outside of the table gives NaN. The query row is as it entered attention, maps
        of rows do not change it; ``plus=v[at.head]`` adds the head's row of a
        parameter of (heads, head_dim) to it. In a score of one head, also in
        `sextant.sum`.

        >>> score + at.scale * at.query_dot(table[sextant.clamp(at.offset, -8, 8) + 8])
        """
        self._require_score("at.query_dot", ("a sextant.sum",))
        head = self.head if plus is not None else None
        return table_rows.row_dot(self.builder, "query", row, plus, head)

    def key_dot(self, row: TableRow, plus: TableRow | None = None) -> Value:
        """The key row times a row or a column of a table, as `query_dot` does it with
        the query row: a parameter of ("kv_heads * head_dim", columns) has a part for
        each head of the keys, and ``plus=v[at.head]`` adds a row of a parameter of
        (kv_heads, head_dim), that of the key's head.

        >>> score + at.scale * at.key_dot(table[sextant.clamp(at.offset, -8, 8) + 8])
        """
        self._require_score("at.key_dot", ("a sextant.sum",))
        head = self.head if plus is not None else None
        return table_rows.row_dot(self.builder, "key", row, plus, head)

    def scan(self, value, until=math.inf, direction: str = "leftward") -> Value:
        """The sum of ``value``, a number that is not negative, over the visible keys of
        a row from its last key ("leftward") or its first ("rightward") to the key at
        hand, that one included, and at most ``until``: a number or an option, at which
        no gradient passes any more. Hidden keys count 0. In a score of one head;
        all scans of an attention run in one direction.

        The smaller ``until`` is, the more keys are computed without it.

        >>> p = at.scan(sextant.sigmoid(score), until=positions - 1)
        """
        self._require_score("at.scan")
        return running.scan(self.builder, value, until, direction)

    def running_sum(self, function: Callable[[Value], Value], side: str) -> Value:
        """function(0) + ... + function(i), where i is the index of the "query" or of
        the "key" and ``function`` takes the index of a key: what the keys up to there
        have of their own (parameters, `batch`, `head`), without a score. It is made
        once per call for all rows.

        >>> gone = lambda t: sextant.logsigmoid(gate[at.batch, at.head, t])
        >>> score + at.running_sum(gone, "query") - at.running_sum(gone, "key")
        """
        place, body = self._place, self.builder.nested
        if body or not {"query", "key"} <= place.axes:
            raise trace_error(
                f"at.running_sum has no meaning in {body or place.what}",
                hint="" if body else place.instead.get("key", ""),
            )
        return running.running_sum(self.builder, function, side)

    def extent(self, name: str) -> Value:
        """An extent of the attention: heads, kv_heads, head_dim, value_dim, model,
        query, key or batch."""
        if name not in EXTENTS:
            raise trace_error(f"unknown extent {name!r}{nearest(str(name), EXTENTS)}")
        return _context(self.builder, f"pos.extent {name}", name)

    def __getattr__(self, name: str):
        known = [n for n in dir(type(self)) if not n.startswith("_")]
        raise trace_error(f'"at" has no "{name}"{nearest(name, known)}')


def axis_text(what: str, axis) -> str:
    """How an op names an axis of positions, which ``what`` is asked for."""
    if isinstance(axis, bool) or not isinstance(axis, numbers.Integral) or axis < 0:
        raise trace_error(f"the axis of {what} must be a whole number from 0 on, got {axis!r}")
    return f" axis {int(axis)}" if axis else ""


def _context(builder: Builder, text: str, hint: str) -> Value:
    return Value(builder, builder.pure(text, hint), I32)
