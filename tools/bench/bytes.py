"""Counts the bytes that the kernels of attention fetch from beyond the second cache.

Usage: bytes.py [--uses USE...] [--heads H] [--batch B] [--dim D] [--element f32|bf16]
                [--queries N] [--keys N] [--cache MIB] [--kernels NAME...]
                [--artifacts FOLDER]

Runs a forward and a backward (AVX2, one head, without a mask), and a forward of one
query of eight heads that share keys (`decode`), under valgrind's cachegrind with a last
level of `--cache` MiB, and prints the bytes fetched per floating-point operation of the
products. `--uses` are encodings, as in `--uses causal 'dape(kerple_log)'`: parameters
have their initial values, those that are given at every call random ones, and the
backward makes the gradients of what is trained. All launches of a call count, also those
that fill tables. A score of all heads has four, and more rows of the side that does not
pass: its items are of all heads, and few rows would make small ones.

Needs no counters of the processor, so it says the same on any machine; it takes
minutes. What is fetched by a run of one block of queries is taken off: loading and
compiling. Lines that are sent back are not counted: of the backward that is one row of
dQ per query and tile. `--artifacts` takes forward.sxt, decode.sxt and backward.sxt from
a folder, of another version say; otherwise what is compiled stays nowhere.
sextant-compile and sextant-run are those of PATH; the package sextant, which writes the
models, is that of PYTHONPATH.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy

import sextant
from sextant import definitions
from sextant.attention_text import AttentionKey, attention_module
from sextant.declared import Signature
from sextant.plans import param_types

LINE = 64
KERNELS = ("forward", "decode", "backward")
# Products of a forward and of a backward, which arguments have rows of queries, and the
# number of the first parameter.
PRODUCTS = {"forward": 2, "decode": 2, "backward": 5}
QUERIES = {"forward": (0,), "decode": (0,), "backward": (0, 3, 4, 5, 6)}
KEYS = (1, 2)
PARAMS = {"forward": 3, "decode": 3, "backward": 7}
# Heads of queries of a decode, over one of keys.
SHARING = 8
# Heads of a score that sees all of them.
ALL_HEADS = 4
# Rows of queries and of keys, of f32: what passes, keys forward and queries backward,
# is longer than the cache. Those of bf16 are half as large: twice as many of them pass.
SIZES = {"forward": (288, 6144), "decode": (1, 6144), "backward": (3072, 480)}
ALL_HEADS_SIZES = {"forward": (2304, 1536), "decode": (1, 1536), "backward": (768, 1920)}


@dataclass(frozen=True)
class Problem:
    """What one kernel is run on."""

    kernel: str
    element: str
    uses: tuple[str, ...]
    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    dim: int

    @property
    def flops(self) -> int:
        """Of the products alone."""
        scores = self.batch * self.heads * self.queries * self.keys
        return 2 * PRODUCTS[self.kernel] * scores * self.dim

    def text(self, signature: Signature) -> str:
        """The model, of any sizes but the head dim and the heads of a score of all."""
        backward = self.kernel == "backward"
        trained = tuple(p.name for p in signature.params if p.trained)
        key = AttentionKey(
            self.element,
            self.dim,
            (self.dim,),
            signature.uses,
            param_types(signature, trained if backward else None),
            heads=self.heads if signature.all_heads else 0,
        )
        return attention_module(key, forward=not backward, backward=backward)

    def shapes(self, signature: Signature) -> dict[int, list[tuple[int, int]]]:
        """The sizes that are not compiled in: (dim, size), by the argument's number."""
        query = (self.batch, self.heads, self.queries)
        sized: dict[int, tuple[int, ...]] = dict.fromkeys(QUERIES[self.kernel], query)
        sized |= dict.fromkeys(KEYS, (self.batch, self.key_heads, self.keys))
        extents = {
            "batch": self.batch,
            "heads": self.heads,
            "kv_heads": self.key_heads,
            "head_dim": self.dim,
            "value_dim": self.dim,
            "model": self.heads * self.dim,
            "query": self.queries,
            "key": self.keys,
        }
        shapes = definitions.shapes(signature, extents)
        for number, param in enumerate(signature.params, PARAMS[self.kernel]):
            sized[number] = shapes[param.name]
        result = {number: list(enumerate(sizes)) for number, sizes in sized.items()}
        if signature.all_heads:
            for number in QUERIES[self.kernel]:
                del result[number][1]
        return result

    def inputs(self, signature: Signature, folder: Path) -> list[str]:
        """Sizes of arguments and values of parameters, as options of sextant-run."""
        values = sextant.init_params(
            self.uses,
            heads=self.heads,
            head_dim=self.dim,
            kv_heads=self.key_heads,
            length=self.keys,
            frozen=True,
        )
        names = {n: p.name for n, p in enumerate(signature.params, PARAMS[self.kernel])}
        options = []
        for number, sizes in self.shapes(signature).items():
            if names.get(number) in values:
                file = folder / f"arg{number}.npy"
                numpy.save(file, values[names[number]].detach().numpy())
                options += ["--input", f"arg{number}={file}"]
                continue
            for dim, size in sizes:
                options += ["--dim", f"arg{number}.{dim}={size}"]
        return options


def compiled(problem: Problem, signature: Signature, folder: Path) -> Path:
    model = folder / f"{problem.kernel}.mlir"
    model.write_text(problem.text(signature))
    artifact = model.with_suffix(".sxt")
    command = ["sextant-compile", str(model), "--target=cpu:avx2", "--no-cache", f"--o={artifact}"]
    subprocess.run(command, check=True)
    return artifact


def misses(artifact: Path, inputs: Sequence[str], cache: float, out: Path) -> int:
    """Lines that the data of one run fetch from beyond the last level."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--D1=49152,12,64"]
    command += [f"--LL={int(cache * 2**20)},16,64", f"--cachegrind-out-file={out}"]
    # Not sextant-prof, which measures the peak as well: minutes in a simulation.
    command += ["sextant-run", str(artifact), "--threads=1", *inputs]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"bytes: {artifact.stem}: {run.stdout}{run.stderr}")
    text = out.read_text()
    (events,) = re.findall(r"^events: (.*)$", text, re.M)
    # Kernels have no names that valgrind could read.
    count, is_kernel = 0, False
    for line in text.splitlines():
        if line.startswith("fn="):
            is_kernel = line == "fn=???"
        elif is_kernel and line[:1].isdigit():
            values = dict(zip(events.split(), map(int, line.split()[1:])))
            count += values.get("DLmr", 0) + values.get("DLmw", 0)
    return count


def fetched(problem: Problem, artifact: Path, signature: Signature, cache: float) -> int:
    """Bytes that a call fetches beyond those that one of a block of queries does."""
    few = replace(problem, batch=1, queries=min(problem.queries, 64), keys=64)
    lines = []
    for case in (problem, few):
        with tempfile.TemporaryDirectory() as name:
            inputs = case.inputs(signature, Path(name))
            lines.append(misses(artifact, inputs, cache, Path(name) / "out"))
    return LINE * (lines[0] - lines[1])


def problem_of(kernel: str, arguments: argparse.Namespace, signature: Signature) -> Problem:
    heads = arguments.heads or (ALL_HEADS if signature.all_heads else 1)
    queries, keys = (ALL_HEADS_SIZES if signature.all_heads else SIZES)[kernel]
    if arguments.element == "bf16" and kernel == "backward":
        queries *= 2
    elif arguments.element == "bf16":
        keys *= 2
    # Of a score of all heads it would be of so many.
    shared = SHARING if kernel == "decode" and not signature.all_heads else 1
    return Problem(
        kernel,
        arguments.element,
        tuple(arguments.uses),
        arguments.batch,
        shared * heads,
        heads,
        arguments.queries or queries,
        arguments.keys or keys,
        arguments.dim,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--uses", nargs="+", default=[], metavar="USE", help="encodings")
    parser.add_argument("--heads", type=int, help="of keys, not those that a kernel is counted at")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--element", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--queries", type=int, help="not those that a kernel is counted at")
    parser.add_argument("--keys", type=int, help="likewise")
    parser.add_argument("--cache", type=float, default=2, metavar="MIB")
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--artifacts", type=Path, help="take forward.sxt and the others here")
    arguments = parser.parse_args()
    signature = definitions.signature(arguments.uses)
    print("| encodings | kernel | type | batch | heads | queries | keys | head dim ", end="")
    print("| MiB fetched | FLOP per byte |\n|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for kernel in arguments.kernels:
            problem = problem_of(kernel, arguments, signature)
            artifact = (
                arguments.artifacts / f"{kernel}.sxt"
                if arguments.artifacts
                else compiled(problem, signature, Path(name))
            )
            count = fetched(problem, artifact, signature, arguments.cache)
            columns = [", ".join(arguments.uses) or "none", kernel, arguments.element]
            columns += [str(n) for n in (problem.batch, problem.heads)]
            columns += [str(n) for n in (problem.queries, problem.keys, problem.dim)]
            columns += [f"{count / 2**20:.2f}", f"{problem.flops / count:.3g}"]
            print(f"| {' | '.join(columns)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
