"""Embeddings with a table of positions: a row map that takes the rows of the table of
tokens itself, against one that is given them, and against PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from rows import Row, Settings
from timing import Rounds

import sextant

# What a function returns it makes: with the rows as a second result, they are taken
# before they are mapped.
MODULE = """
nn.parameter "w" : {table} init constant [0.0]
nn.parameter "r" : {given} init constant [0.0]
func.func @forward(%i: tensor<?x?xi64> {{exec.name = "i"}},
                   %w: {table} {{nn.parameter = "w"}}, %r: {given} {{nn.parameter = "r"}})
    -> ({rows}{and_rows}) {{
  %x = nn.embedding %w, %i : ({table}, tensor<?x?xi64>) -> {rows}
  %y = pos.map_rows %x of embedding uses [{use}] {params} : {rows} -> {rows}
  return %y{and_x} : {rows}{and_rows}
}}
func.func @loss(%i: tensor<?x?xi64> {{exec.name = "i"}}, %g: {rows} {{exec.name = "g"}},
                %w: {table} {{nn.parameter = "w"}}, %r: {given} {{nn.parameter = "r"}})
    -> (tensor<f32>{and_rows}) attributes {{nn.gradients = @gradients}} {{
  %x = nn.embedding %w, %i : ({table}, tensor<?x?xi64>) -> {rows}
  %y = pos.map_rows %x of embedding uses [{use}] {params} : {rows} -> {rows}
  %z = nn.mul %y, %g : ({rows}, {rows}) -> {rows}
  %s = nn.sum %z over [0, 1, 2] : ({rows}) -> tensor<f32>
  return %s{and_x} : tensor<f32>{and_rows}
}}
"""
ENCODINGS = {
    "learned": '#pos.use<@learned, "learned", {{rows = {length} : i32}}>',
    "sinusoidal": '#pos.use<@sinusoidal, "sinusoidal">',
}


class Embedding:
    """Tokens that become rows with positions, as ours (fused and not) and PyTorch's."""

    def __init__(self, encoding: str, batch: int, length: int, width: int, vocabulary: int):
        self.encoding, self.length = encoding, length
        self.table = torch.randn(vocabulary, width).requires_grad_()
        self.added = torch.randn(length, width).requires_grad_()
        if encoding == "sinusoidal":  # a constant of PyTorch's user
            empty = torch.zeros(1, length, width)
            self.added = sextant.map_rows(empty, ["sinusoidal"])[0]
        self.tokens = torch.randint(0, vocabulary, (batch, length))
        self.gradient = torch.randn(batch, length, width)
        self.fused, self.separate = self.program(False), self.program(True)

    def program(self, gives_rows: bool) -> sextant.Program:
        vocabulary, width = self.table.shape
        rows = f"tensor<?x?x{width}xf32>"
        given = f"tensor<{self.length}x{width}xf32>"
        takes = self.encoding == "learned"
        return sextant.compile(
            MODULE.format(
                table=f"tensor<{vocabulary}x{width}xf32>",
                given=given,
                rows=rows,
                use=ENCODINGS[self.encoding].format(length=self.length),
                params=f"params(%r : {given})" if takes else "",
                and_x=", %x" if gives_rows else "",
                and_rows=f", {rows}" if gives_rows else "",
            )
        )

    def run(self, program: sextant.Program, function: str) -> list[torch.Tensor]:
        inputs = {"i": self.tokens, "w": self.table.detach(), "r": self.added.detach()}
        if function == "gradients":
            inputs["g"] = self.gradient
        return program.run(function, inputs)

    def torchs(self) -> torch.Tensor:
        return F.embedding(self.tokens, self.table) + self.added

    def torch_gradients(self) -> tuple[torch.Tensor, ...]:
        leaves = [t for t in (self.table, self.added) if t.requires_grad]
        return torch.autograd.grad((self.torchs() * self.gradient).sum(), leaves)

    def candidates(self, function: str) -> dict[str, Callable[[], object]]:
        def torchs():
            with torch.no_grad():
                return self.torchs()

        return {
            "fused": lambda: self.run(self.fused, function),
            "separate": lambda: self.run(self.separate, function),
            "torch": torchs if function == "forward" else self.torch_gradients,
        }


def gathers(settings: Settings) -> Iterator[Row]:
    """Against the same rows taken first, and against eager PyTorch."""
    size = (2, 128, 64, 256) if settings.is_quick else (8, 1024, 768, 50304)
    for encoding in ENCODINGS:
        embedding = None
        for function, phase in (("forward", "forward"), ("gradients", "with gradients")):
            works = {
                other: f"{size[:3]} of {size[3]} rows f32 {encoding} {phase} vs {text}"
                for other, text in (("separate", "rows taken first"), ("torch", "PyTorch"))
            }
            works = {other: work for other, work in works.items() if settings.wants(work)}
            if not works:
                continue
            embedding = embedding or Embedding(encoding, *size)
            candidates = embedding.candidates(function)
            rounds = Rounds({n: candidates[n] for n in ("fused", *works)}, settings.rounds)
            for other, work in works.items():
                yield settings.ratio(
                    "rows of the embedding taken where they are mapped",
                    work,
                    rounds,
                    "fused",
                    other,
                    note=f"{1e3 * rounds.median('fused'):.2f} ms",
                )
