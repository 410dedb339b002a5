"""What the kernels of encodings take of a GPU of NVIDIA, and of the time to compile them.

Usage: ptxas.py ENCODINGS TARGET DTYPE NAME...

Compiles a forward and a backward of each named definition below the folder ENCODINGS
and checks that no kernel keeps registers in memory, that the main launches take no
more registers than a thread can have with eight warps on a multiprocessor, and all
others at most 168 of them, so that twelve are there, but for products of rows and
pullbacks of turns, which hold tiles. Prints one line per encoding, with the seconds of
the processor that all kernels but the main ones took, and all of them, from MLIR to the
assembler's end (the goals are 1 and 8 on an idle machine; no check, since it differs from
machine to machine); exits with 1 if a check fails.
"""

import re
import subprocess
import sys
from pathlib import Path

from loops import module, parameters

REMARK = re.compile(
    r"Category:ptxas \| Function=(?P<kernel>\w+) \| .*?"
    r"Registers=(?P<registers>\d+), SpillLoadBytes=(?P<loads>\d+), "
    r"SpillStoreBytes=(?P<stores>\d+), StackBytes=(?P<stack>\d+)"
)
# Lowering is of all kernels; what else a module takes is of each.
LOWERING = re.compile(r"Category:llvm \| EmittingM.*?, LoweringMilliseconds=([\d.e+-]+)")
TIMES = re.compile(r"Category:(?:llvm|ptxas) \| Function=(\w+) \| (.*)")
MILLISECONDS = re.compile(r"Milliseconds=([\d.e+-]+)")
MAIN = re.compile(r"_(forward|main|(forward|backward)_fragments)$")
TILES = re.compile(r"_(products_\w+|turn\d+_pullback)$")
MOST_OF_HELPERS, MOST_OF_TILES, MOST_OF_MAIN = 168, 254, 255


def seconds(remarks: str) -> tuple[float, float]:
    """What all kernels but the main ones took, and what all did."""
    helpers = everything = sum(map(float, LOWERING.findall(remarks)))
    for kernel, metrics in TIMES.findall(remarks):
        spent = sum(map(float, MILLISECONDS.findall(metrics)))
        everything += spent
        if not MAIN.search(kernel):
            helpers += spent
    return helpers / 1000, everything / 1000


def faults(remarks: str) -> list[str]:
    found = []
    kernels = [m.groupdict() for m in REMARK.finditer(remarks)]
    for kernel in kernels:
        name, registers = kernel["kernel"], int(kernel["registers"])
        most = MOST_OF_HELPERS
        if MAIN.search(name):
            most = MOST_OF_MAIN
        elif TILES.search(name):
            most = MOST_OF_TILES
        if registers > most:
            found.append(f"{name}: {registers} registers, expected at most {most}")
        spilled = int(kernel["loads"]) + int(kernel["stores"])
        if spilled:
            found.append(f"{name}: {spilled} bytes of registers in memory")
    if len(kernels) < 4:
        found.append(f"found {len(kernels)} kernels, expected a forward and a backward")
    timed = {kernel for kernel, _ in TIMES.findall(remarks)}
    if not LOWERING.search(remarks) or timed != {k["kernel"] for k in kernels}:
        found.append(f"times are told of {len(timed)} kernels, expected {len(kernels)}")
    return found


def main() -> int:
    folder, target, dtype, *names = sys.argv[1:]
    status = 0
    files = {path.stem: path.read_text() for path in Path(folder).rglob("*.mlir")}
    for name in names:
        text = module(name, files[name], dtype, parameters(name, folder))
        command = ["sextant-compile", "-", f"--target={target}", "--remarks", "--o=/dev/null"]
        run = subprocess.run(
            [*command, f"--search-path={folder}"], input=text, text=True, capture_output=True
        )
        wrong = [run.stderr] if run.returncode else faults(run.stderr)
        helpers, everything = seconds(run.stderr)
        verdict = "FAILED" if wrong else "no spills"
        print(f"{name}: {verdict}, {helpers:.2f} s without main kernels, {everything:.2f} s with them")
        for line in wrong:
            print("  " + line)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
