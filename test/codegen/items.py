"""How many work items the main launches of warps have at a size that should fill a GPU.

Usage: items.py ENCODINGS

Lowers a forward and a backward of 4 x 16 heads of 4096 rows of 64, in f32, of each
definition below the folder ENCODINGS, whose sizes are then numbers of the program. A large
GPU has some 130 multiprocessors that run 4 to 8 warps each: 1024 items keep it busy. Scores
of all heads, whose items are few and large, and trained rows of offsets, of which each item
keeps its sums, have at least 512. Prints one line per encoding, with the gigabytes of what
items keep of their own; exits with 1 if there are fewer items, or if these take more than
4 GiB and what tables are padded by.
"""

import re
import subprocess
import sys
from math import prod
from pathlib import Path

from loops import ALL_HEADS, module, parameters

BATCH, HEADS, LENGTH = 4, 16, 4096
LEAST, LEAST_OF_LARGE, MOST_BYTES = 1024, 512, 4.25 * 2**30
LARGE = {"deberta", "transformer_xl"}
CONSTANT = re.compile(r"(%\w+) = arith\.constant (\d+) : index")
ALLOCATION = re.compile(r"(%\w+) = exec\.alloc\(([^)]*)\)(?: zero)? : tensor<([^>]*)x(f32|f64|i32|i64)>")
LAUNCH = re.compile(r"exec\.launch @kernels::@\w+_(forward|main) .*? writes\(([^:]*) :")


def fixed(text: str) -> str:
    """The text with the sizes of rows."""
    sizes = (f"tensor<{BATCH}x{HEADS}x{LENGTH}x", f"tensor<{BATCH}x{LENGTH}x")
    text = re.sub(r"tensor<\?x[?4]x\?x(?=64xf32|2xf32|f32)", sizes[0], text)
    return re.sub(r"tensor<\?x\?x(?=\dxi32)", sizes[1], text)


class Program:
    """Tensors that a lowered program allocates, and what its main launches write."""

    def __init__(self, text: str):
        constants = {name: int(value) for name, value in CONSTANT.findall(text)}
        self.shapes, self.bytes = {}, {}
        for name, sizes, dims, element in ALLOCATION.findall(text):
            given = iter(constants.get(size, 1) for size in sizes.split(", "))
            shape = [next(given) if dim == "?" else int(dim) for dim in dims.split("x")]
            self.shapes[name] = shape
            self.bytes[name] = prod(shape) * int(element[1:]) // 8
        self.written = {kind: names.split(", ") for kind, names in LAUNCH.findall(text)}

    def count_items(self, of_all_heads: bool) -> int:
        """Of the backward: chunks of keys, of which dQ has a copy each, times parts of the
        queries, of which dK has one."""
        chunks, parts = (self.shapes[name][0] for name in self.written["main"][:2])
        return BATCH * (1 if of_all_heads else HEADS) * chunks * parts

    def count_bytes(self) -> int:
        return sum(self.bytes.get(name, 0) for name in self.written["main"])


def main() -> int:
    (folder,) = sys.argv[1:]
    status = 0
    for path in sorted(Path(folder).rglob("*.mlir")):
        text = path.read_text()
        model = fixed(module(path.stem, text, "f32", parameters(path.stem, folder)))
        command = ["sextant-compile", "-", "--target=cuda:sm_80", "--emit=exec"]
        run = subprocess.run(
            [*command, f"--search-path={folder}"], input=model, text=True, capture_output=True
        )
        if run.returncode:  # an encoding that is none of attention
            continue
        of_all_heads = bool(ALL_HEADS.search(text))
        program = Program(run.stdout.partition("module @kernels")[0])
        items, taken = program.count_items(of_all_heads), program.count_bytes()
        is_large = of_all_heads or path.stem in LARGE
        least = LEAST_OF_LARGE if is_large else LEAST
        verdict = "" if items >= least and taken <= MOST_BYTES else "FAILED "
        status |= bool(verdict)
        print(f"{verdict}{path.stem}: {items} items, {taken / 2**30:.2f} GiB")
    return status


if __name__ == "__main__":
    sys.exit(main())
