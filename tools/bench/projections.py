"""The projections of queries and keys whose input holds the position in some lanes: the
shorter products that the compiler makes, against products of the rows as they are
written."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from rows import Row, Settings
from timing import Rounds

import sextant

# A second reader of the mapped rows is what keeps them. The rows themselves are those
# of a table, whose gradient takes part.
MODULE = """
nn.parameter "x" : {table} init constant [0.0]
nn.parameter "wq" : {weight} init constant [0.0]
nn.parameter "bq" : {bias} init constant [0.0]
nn.parameter "wk" : {weight} init constant [0.0]
nn.parameter "bk" : {bias} init constant [0.0]
func.func @loss(%i: tensor<?x?xi64> {{exec.name = "i"}},
    %dq: {rows} {{exec.name = "dq"}}, %dk: {rows} {{exec.name = "dk"}},
    %table: {table} {{nn.parameter = "x"}},
    %wq: {weight} {{nn.parameter = "wq"}}, %bq: {bias} {{nn.parameter = "bq"}},
    %wk: {weight} {{nn.parameter = "wk"}}, %bk: {bias} {{nn.parameter = "bk"}})
    -> (tensor<f32>, {rows}, {rows}{and_rows}) attributes {{nn.gradients = @gradients}} {{
  %x = nn.embedding %table, %i : ({table}, tensor<?x?xi64>) -> {rows}
  %xq = pos.map_rows %x of query_input uses [{use}] : {rows} -> {rows}
  %q = nn.linear %xq, %wq bias %bq : ({rows}, {weight}, {bias}) -> {rows}
  %xk = pos.map_rows %x of key_input uses [{use}] : {rows} -> {rows}
  %k = nn.linear %xk, %wk bias %bk : ({rows}, {weight}, {bias}) -> {rows}
  %a = nn.mul %q, %dq : ({rows}, {rows}) -> {rows}
  %b = nn.mul %k, %dk : ({rows}, {rows}) -> {rows}
  %c = nn.add %a, %b : ({rows}, {rows}) -> {rows}
  %s = nn.sum %c over [0, 1, 2] : ({rows}) -> tensor<f32>
  return %s, %q, %k{and_mapped} : tensor<f32>, {rows}, {rows}{and_rows}
}}
"""


class Projections:
    """Two projections of one input, of rows with positions in an eighth of the lanes."""

    def __init__(self, encoding: str, batch: int, length: int, width: int):
        self.encoding, self.width = encoding, width
        shape = (batch, length, width)
        self.inputs = {"i": torch.arange(batch * length).reshape(batch, length)}
        self.inputs |= {n: torch.randn(shape) for n in ("dq", "dk")}
        self.inputs["x"] = torch.randn(batch * length, width)
        for name in ("q", "k"):
            self.inputs[f"w{name}"] = torch.randn(width, width) / width**0.5
            self.inputs[f"b{name}"] = torch.randn(width)
        self.shorter, self.written = self.compile(False), self.compile(True)

    def compile(self, gives_rows: bool) -> sextant.Program:
        rows, width = f"tensor<?x?x{self.width}xf32>", self.width
        return sextant.compile(
            MODULE.format(
                table=f"tensor<{len(self.inputs['x'])}x{width}xf32>",
                weight=f"tensor<{width}x{width}xf32>",
                bias=f"tensor<{width}xf32>",
                rows=rows,
                use=f'#pos.use<@{self.encoding}, "{self.encoding}">',
                and_mapped=", %xq, %xk" if gives_rows else "",
                and_rows=f", {rows}, {rows}" if gives_rows else "",
            )
        )

    def run(self, program: sextant.Program) -> list[torch.Tensor]:
        """The loss, queries and keys, perhaps the mapped rows, and the gradients of all
        parameters."""
        return program.run("gradients", self.inputs)

    def candidates(self) -> dict[str, Callable[[], object]]:
        return {"shorter": lambda: self.run(self.shorter), "written": lambda: self.run(self.written)}


def projections(settings: Settings) -> Iterator[Row]:
    """A batch, whose addend is made once; of one sequence it costs what it saves."""
    sizes = ((2, 64, 128),) if settings.is_quick else ((8, 512, 768), (1, 2048, 768))
    for size in sizes:
        for encoding in ("expe", "exqpe"):
            text = f"{size} f32 {encoding}, projections of queries and keys with gradients vs as written"
            if not settings.wants(text):
                continue
            works = Projections(encoding, *size)
            rounds = Rounds(works.candidates(), settings.rounds)
            yield settings.ratio(
                "projections of rows that hold positions",
                text,
                rounds,
                "shorter",
                "written",
                1.1 if size[0] > 1 and not settings.is_quick else None,
                f"{1e3 * rounds.median('shorter'):.1f} ms",
            )
