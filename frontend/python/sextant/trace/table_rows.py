"""Rows and columns of tables: what a parameter of two dims gives for one index.

`table[i]` is a row, `table[:, i]` a column. Neither is a value of a payload: a row is
multiplied with the query's or the key's row (`at.query_dot`, `at.key_dot`) or added
to the values that a query sums (`sextant.weighted_rows`).
"""

from __future__ import annotations

from .builder import Builder, trace_error
from .foreign import Foreign
from .values import F32, Value

# How the dim is written along which a row or a column meets a row of one side.
_ROW = ("head_dim",)
_COLUMN = {
    "query": ("head_dim", "model", "heads * head_dim", "head_dim * heads"),
    "key": ("head_dim", "kv_heads * head_dim", "head_dim * kv_heads"),
}
_HEADS = {"query": "heads", "key": "kv_heads"}


class TableRow(Foreign):
    """A row (or a column) of a parameter of two dims, at an integer index.

    Indexed itself it is an element: ``table[i][j]`` is ``table[i, j]``.
    """

    def __init__(self, table, index: Value, is_column: bool = False):
        self.builder: Builder = table.builder
        self.table = table
        self.index = index
        self.is_column = is_column

    @property
    def text(self) -> str:
        """How it is written: ``table[i]`` or ``table[:, i]``."""
        return f"{self.table.label}[{':, ' if self.is_column else ''}i]"

    @property
    def lanes(self) -> str:
        """The dim that runs along it."""
        return str(self.table.param.dims[0 if self.is_column else 1])

    def __getitem__(self, index) -> Value:
        return self.table[(index, self.index) if self.is_column else (self.index, index)]

    def __iter__(self):
        raise trace_error(
            f"{self.text} cannot be iterated over",
            hint="use sextant.sum(lambda k: ..., n)",
        )

    def as_value(self) -> Value:
        """A row is no operand: an error that says what it is for."""
        table, kind = self.table, "column" if self.is_column else "row"
        element = f"{table.label}[j, i]" if self.is_column else f"{table.label}[i, j]"
        raise trace_error(
            f'parameter "{table.label}" has 2 dim(s) ({table.dims_text}), so {self.text} is '
            f"a {kind} of it, not a number",
            hint=f"{element} is a number, at.query_dot({self.text}) the {kind} times the query row",
        )

    def check_lanes(self, wanted: tuple[str, ...], what: str) -> None:
        """An error where its lanes are written as another dim than one of ``wanted``;
        whole numbers are left to the compiler."""
        if self.lanes in wanted or self.lanes.isdigit():
            return
        kind, other = "row", f"{self.table.label}[:, i] is a column"
        turned = self.table.param.dims[0]
        if self.is_column:
            kind, other = "column", f"{self.table.label}[i] is a row"
            turned = self.table.param.dims[1]
        hint = f"{other}, of {turned} elements" if str(turned) in wanted else ""
        raise trace_error(
            f"{what} has {wanted[0]} elements, {self.text} has {self.lanes}: a {kind} of "
            f'"{self.table.label}" ({self.table.dims_text})',
            hint=hint,
        )


def row_dot(builder: Builder, side: str, row, plus, head: Value | None) -> Value:
    """``row`` times the row of a side, to which the head's row ``plus`` is added."""
    name = f"at.{side}_dot"
    if not isinstance(row, TableRow):
        raise trace_error(
            f"{name} takes a row or a column of a parameter of two dims",
            hint=f"write {name}(table[i]) or {name}(table[:, i])",
        )
    row.check_lanes(_COLUMN[side] if row.is_column else _ROW, f"the {side} row")
    operands, types = "", row.table.tensor
    if plus is not None:
        is_row = isinstance(plus, TableRow) and not plus.is_column
        if not is_row or head is None or plus.index.name != head.name:
            raise trace_error(
                f"what {name} adds to the {side} row is the row of its head, of a "
                f"parameter of ({_HEADS[side]}, head_dim)",
                hint=f"write {name}(row, plus=v[at.head])",
            )
        plus.check_lanes(_ROW, f"the {side} row")
        operands, types = f" plus {plus.table.name}", f"{types}, {plus.table.tensor}"
    columns = " columns" if row.is_column else ""
    text = f"pos.{side}_dot {row.table.name}{columns}[{row.index.name}]{operands} : {types}"
    return Value(builder, builder.pure(text, "v"), F32)
