"""Where a payload stands: the argument ``at`` of a traced function."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import nearest
from .builder import Builder, trace_error
from .parameters import EXTENTS
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

    def __call__(self, axis: int = 0) -> Value:
        return _context(self.builder, f"pos.offset axis {axis}" if axis else "pos.offset", "offset")


class At:
    """Where a payload stands. All are integers, except `scale` and `host`.

    What there is not at a place is an error there: `row` and `lane` belong to
    maps of rows, `offset`, `query` and `key` to scores and masks.
    """

    def __init__(self, builder: Builder, place: Place):
        self.builder = builder
        self._place = place

    def _require(self, axis: str, spelling: str) -> None:
        place = self._place
        if axis not in place.axes:
            raise trace_error(
                f"{spelling} has no meaning in {place.what}", hint=place.instead.get(axis, "")
            )

    @property
    def host(self) -> Value:
        """What the hosts that a use names add to the score (0 without hosts): a
        number, or a vector where the function sees all heads."""
        type_ = self._place.score
        if not type_:
            raise trace_error("at.host has a meaning in a score only")
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
        """Index of the query; queries and keys are aligned at the end."""
        self._require("query", "at.query")
        return _context(self.builder, "pos.index query", "query")

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
            raise trace_error(
                f"at.coord has no side {side!r}{nearest(str(side), ['self', 'query', 'key'])}"
            )
        self._require(side, "at.coord()" if side == "self" else f'at.coord("{side}")')
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
