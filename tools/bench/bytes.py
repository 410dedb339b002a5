"""Counts the bytes that the kernels of attention fetch from beyond the second cache.

Usage: bytes.py [--dim D] [--element f32|bf16] [--queries N] [--keys N] [--cache MIB]
                [--kernels NAME...] [--artifacts FOLDER]

Runs a forward and a backward (full, one head, AVX2), and a forward of one query of
heads that share keys (`decode`), under valgrind's cachegrind with a last level of
`--cache` MiB, and prints the bytes fetched per floating-point operation. Needs no
counters of the processor, so it says the same on any machine; it takes minutes. What
is fetched by a run of one block of queries is taken off: loading and compiling. Lines
that are sent back are not counted: of the backward that is one row of dQ per query and
tile. `--artifacts` takes forward.sxt, decode.sxt and backward.sxt from a folder, of
another version say; sextant-compile and sextant-run are those of PATH.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LINE = 64
ROWS, LSE, STATISTICS = "tensor<?x?x?x{dim}x{element}>", "tensor<?x?x?xf32>", "tensor<?x?x?x2xf32>"
FORWARD = """
func.func @forward(%q: {rows}, %k: {rows}, %v: {rows}) -> ({rows}, {lse}) {{
  %o, %lse = pos.attention %q, %k, (%v) uses []
    : {rows}, {rows}, ({rows}) -> ({rows}), {lse}
  return %o, %lse : {rows}, {lse}
}}"""
MODELS = {
    "forward": FORWARD,
    "decode": FORWARD,
    "backward": """
func.func @backward(%q: {rows}, %k: {rows}, %v: {rows}, %o: {rows}, %stats: {stats},
                    %do: {rows}, %dlse: {lse}) -> ({rows}, {rows}, {rows}) {{
  %dq, %dk, %dv = pos.attention_backward %q, %k, (%v), (%o), %stats, (%do), %dlse
    uses [] gradients []
    : {rows}, {rows}, ({rows}), ({rows}), {stats}, ({rows}), {lse}
    -> {rows}, {rows}, ({rows})
  return %dq, %dk, %dv : {rows}, {rows}, {rows}
}}""",
}
# Products of a forward and of a backward, and which arguments have rows of queries.
PRODUCTS = {"forward": 2, "decode": 2, "backward": 5}
QUERIES = {"forward": (0,), "decode": (0,), "backward": (0, 3, 4, 5, 6)}
KEYS = (1, 2)
# Heads of queries, over one of keys.
HEADS = {"forward": 1, "decode": 8, "backward": 1}
# Rows of queries and of keys: what passes, keys forward and queries backward, is
# longer than the cache; of bf16 half as large, so there are twice as many.
SIZES = {
    ("forward", "f32"): (288, 6144),
    ("forward", "bf16"): (288, 12288),
    ("decode", "f32"): (1, 6144),
    ("decode", "bf16"): (1, 12288),
    ("backward", "f32"): (3072, 480),
    ("backward", "bf16"): (6144, 480),
}


def compiled(kernel: str, dim: int, element: str, folder: Path) -> Path:
    model = folder / f"{kernel}.mlir"
    rows = ROWS.format(dim=dim, element=element)
    model.write_text(MODELS[kernel].format(rows=rows, lse=LSE, stats=STATISTICS))
    artifact = model.with_suffix(".sxt")
    command = ["sextant-compile", str(model), "--target=cpu:avx2", "--no-cache", f"--o={artifact}"]
    subprocess.run(command, check=True)
    return artifact


def misses(artifact: Path, kernel: str, queries: int, keys: int, cache: int, out: Path) -> int:
    """Lines that the data of one run fetch from beyond the last level."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--D1=49152,12,64"]
    command += [f"--LL={cache * 2**20},16,64", f"--cachegrind-out-file={out}"]
    # Not sextant-prof, which measures the peak as well: minutes in a simulation.
    command += ["sextant-run", str(artifact), "--threads=1"]
    for arguments, sizes in (
        (QUERIES[kernel], (1, HEADS[kernel], queries)),
        (KEYS, (1, 1, keys)),
    ):
        for number in arguments:
            for dim, size in enumerate(sizes):
                command += ["--dim", f"arg{number}.{dim}={size}"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"bytes: {kernel}: {run.stdout}{run.stderr}")
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--element", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--queries", type=int, help="not those that a kernel is counted at")
    parser.add_argument("--keys", type=int, help="likewise")
    parser.add_argument("--cache", type=int, default=2, metavar="MIB")
    parser.add_argument("--kernels", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--artifacts", type=Path, help="take forward.sxt and the others here")
    arguments = parser.parse_args()
    print("| kernel | type | heads | queries | keys | head dim | MiB fetched | FLOP per byte |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kernel in arguments.kernels:
            queries, keys = SIZES[kernel, arguments.element]
            queries, keys = arguments.queries or queries, arguments.keys or keys
            artifact = (
                arguments.artifacts / f"{kernel}.sxt"
                if arguments.artifacts
                else compiled(kernel, arguments.dim, arguments.element, folder)
            )
            lines = misses(artifact, kernel, queries, keys, arguments.cache, folder / "out")
            few = min(queries, 64)
            lines -= misses(artifact, kernel, few, 64, arguments.cache, folder / "out")
            rows = HEADS[kernel] * queries
            flops = 2 * PRODUCTS[kernel] * rows * keys * arguments.dim
            fetched = LINE * lines
            work = f"{kernel} | {arguments.element} | {HEADS[kernel]} | {queries} | {keys}"
            print(
                f"| {work} | {arguments.dim} | {fetched / 2**20:.2f} | {flops / fetched:.3g} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
