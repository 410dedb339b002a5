#!/usr/bin/env python3
"""Counts the instructions of an attention's main loops on tensor cores, without a GPU.

    tools/bench/sass.py --uses alibi --params 'tensor<?xf32>' [--dims 64 64] [--axes 1] [--backward]
    tools/bench/sass.py MODEL.mlir [--target cuda:sm_80]

Prints one line for each kernel that multiplies on tensor cores: registers, bytes of
spills as ptxas says, and what one pass of its main loop takes of a thread for each score
that the thread holds; then the clocks of other units over those of products, by a model
of rates. `sextant-prof --static` counts, and says what is counted; this adds the text of
an attention with named encodings.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SPILLS = re.compile(
    r"Category:ptxas \| Function=(?P<kernel>\w+) \| .*?"
    r"SpillLoadBytes=(?P<loads>\d+), SpillStoreBytes=(?P<stores>\d+)"
)
ARITHMETIC = ("FFMA", "FADD", "FMUL")


@dataclass
class Counts:
    """Of a kernel. `loop`: instructions of a pass of its main loop by kind; `clocks_of`: for
    how many clocks a pass keeps each unit of a GPU busy."""

    kernel: str
    registers: int
    shared: int  # bytes of a block
    spills: int
    scores: int
    loop: dict[str, int]
    clocks_of: dict[str, dict[str, float]]
    inside: list[int]  # instructions of a pass of each loop inside of it

    def per_score(self, *kinds: str) -> float:
        counted = kinds or tuple(self.loop)
        return sum(self.loop.get(kind, 0) for kind in counted) / self.scores

    def clocks(self, gpu: str) -> dict[str, float]:
        """Of units other than those of products, over the clocks of these."""
        units = dict(self.clocks_of[gpu])
        products = units.pop("products")
        return {unit: clocks / products for unit, clocks in units.items()}

    def __str__(self) -> str:
        parts = [
            f"{self.kernel}: {self.registers} registers, {self.shared} bytes of shared memory,",
            f"{self.spills} bytes of spills,",
            f"{sum(self.loop.values())} instructions for {self.scores} scores:",
            f"{self.per_score():.2f} per score; MUFU {self.per_score('MUFU'):.2f},",
            f"LDS {self.per_score('LDS'):.2f}, f32 {self.per_score(*ARITHMETIC):.2f};",
            " ".join(f"{kind} {number}" for kind, number in self.loop.items()),
            "; inside: " + " ".join(map(str, self.inside)),
        ]
        for gpu in self.clocks_of:
            units = ", ".join(f"{unit} {share:.2f}" for unit, share in self.clocks(gpu).items())
            parts.append(f"\n  {gpu}, over the clocks of products: {units}")
        return " ".join(parts)


def run(*command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, input=text, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr or done.stdout}")
    return done


def measure(model: str, target: str) -> list[Counts]:
    """The counts of the kernels of a model that multiply on tensor cores."""
    with tempfile.TemporaryDirectory() as folder:
        artifact = str(Path(folder) / "model.sxt")
        options = (f"--target={target}", "--no-cache", "--remarks", f"--o={artifact}")
        said = run("sextant-compile", "-", *options, text=model).stderr
        listed = json.loads(run("sextant-prof", "--static", "--json", artifact).stdout)
    spills = {m["kernel"]: int(m["loads"]) + int(m["stores"]) for m in SPILLS.finditer(said)}
    return [
        Counts(
            kernel["name"],
            kernel["registers"],
            kernel["shared"],
            spills[kernel["name"]],
            kernel["scores"],
            kernel["loop"],
            kernel["clocks"],
            kernel["inside"],
        )
        for kernel in listed["kernels"]
        if "HMMA" in kernel["loop"]
    ]


class Text:
    """What the texts of both directions have alike: `element` is that of rows, `params` are
    types of what the encodings take. `axes`: of positions that are given; 0: none are."""

    def __init__(
        self, uses: list[str], params: list[str], dims: tuple[int, int], element: str, axes: int
    ):
        self.head, self.value = (f"tensor<?x?x?x{dim}x{element}>" for dim in dims)
        self.arguments = "".join(f", %p{i}: {of_type}" for i, of_type in enumerate(params))
        names = ", ".join(f"%p{i}" for i in range(len(params)))
        named = ", ".join(f'#pos.use<@{name}, "{name}">' for name in uses)
        given = f"params({names} : {', '.join(params)})" if params else ""
        self.uses = f"uses [{named}] {given}"
        if axes:
            positions = f"tensor<?x?x{axes}xi32>"
            self.arguments += f", %at: {positions}"
            sides = (f"{side}_positions(%at : {positions})" for side in ("query", "key"))
            self.uses += f" {' '.join(sides)}"


def attention(
    uses: list[str], params: list[str], dims: tuple[int, int], element: str = "bf16", axes: int = 0
) -> str:
    """A forward of any length."""
    text = Text(uses, params, dims, element, axes)
    head, value = text.head, text.value
    return f"""
      func.func @f(%q: {head}, %k: {head}, %v: {value}{text.arguments}) -> {value} {{
        %o, %l = pos.attention %q, %k, (%v) {text.uses}
          : {head}, {head}, ({value}) -> ({value}), tensor<?x?x?xf32>
        return %o : {value}
      }}"""


def attention_backward(
    uses: list[str], params: list[str], dims: tuple[int, int], element: str = "bf16", axes: int = 0
) -> str:
    """Likewise a backward, with gradients of the parameters."""
    text = Text(uses, params, dims, element, axes)
    head, value = text.head, text.value
    statistics, row = "tensor<?x?x?x2xf32>", "tensor<?x?x?xf32>"
    names = ", ".join(["%dq", "%dk", "%dv", *(f"%dp{i}" for i in range(len(params)))])
    trained = "".join(f", {of_type}" for of_type in params)
    return f"""
      func.func @f(%q: {head}, %k: {head}, %v: {value}, %o: {value}, %s: {statistics},
                   %do: {value}, %dl: {row}{text.arguments}) -> ({head}, {head}, {value}{trained}) {{
        {names} = pos.attention_backward %q, %k, (%v), (%o), %s, (%do), %dl
          {text.uses} gradients [{", ".join(map(str, range(len(params))))}]
          : {head}, {head}, ({value}), ({value}), {statistics}, ({value}), {row}
          -> {head}, {head}, ({value}){trained}
        return {names} : {head}, {head}, {value}{trained}
      }}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", nargs="?", help="- for standard input; none: an attention")
    parser.add_argument("--uses", nargs="*", default=[], help="names of encodings")
    parser.add_argument("--params", nargs="*", default=[], help="types of what they take")
    parser.add_argument("--backward", action="store_true", help="not the forward, with all gradients")
    parser.add_argument("--target", default="cuda:sm_80")
    parser.add_argument("--element", default="bf16", choices=("bf16", "f16"), help="of rows")
    parser.add_argument("--axes", type=int, default=0, help="of given positions (0: none are given)")
    parser.add_argument("--dims", type=int, nargs=2, default=(64, 64), help="of rows of queries and of values")
    arguments = parser.parse_args()
    if arguments.model:
        model = sys.stdin.read() if arguments.model == "-" else Path(arguments.model).read_text()
    else:
        make = attention_backward if arguments.backward else attention
        model = make(
            arguments.uses, arguments.params, tuple(arguments.dims), arguments.element, arguments.axes
        )
    for counts in measure(model, arguments.target):
        print(counts)


if __name__ == "__main__":
    main()
