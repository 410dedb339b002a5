"""What NVIDIA's assembler says of the kernels of encodings.

Usage: ptxas.py ENCODINGS TARGET DTYPE NAME...

Compiles a forward and a backward of each named definition below the folder ENCODINGS
and checks that no kernel keeps registers in memory, that the main launches take no
more registers than a thread can have with eight warps on a multiprocessor, and all
others at most 168 of them, so that twelve are there. Prints one line per encoding;
exits with 1 if a check fails.
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
MAIN = re.compile(r"_(forward|main)$")
MOST_OF_HELPERS, MOST_OF_MAIN = 168, 255


def faults(remarks: str) -> list[str]:
    found = []
    kernels = [m.groupdict() for m in REMARK.finditer(remarks)]
    for kernel in kernels:
        name, registers = kernel["kernel"], int(kernel["registers"])
        most = MOST_OF_MAIN if MAIN.search(name) else MOST_OF_HELPERS
        if registers > most:
            found.append(f"{name}: {registers} registers, expected at most {most}")
        spilled = int(kernel["loads"]) + int(kernel["stores"])
        if spilled:
            found.append(f"{name}: {spilled} bytes of registers in memory")
    if len(kernels) < 4:
        found.append(f"found {len(kernels)} kernels, expected a forward and a backward")
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
        print(f"{name}: {'FAILED' if wrong else 'no spills'}")
        for line in wrong:
            print("  " + line)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
