"""What main kernels of warps keep in shared memory, of every encoding.

Usage: near.py ENCODINGS DTYPE

Lowers a forward and a backward with rows of 64 of each definition below the folder
ENCODINGS and prints, of each main kernel, the bytes that an item has in shared memory and
in scratch memory of the launch. Exits with 1 if a kernel has more shared memory than
every launch may have, or if one with scores of one head asks for more than two fifths of
the scratch memory that kernels take which do not look at shared memory (430 KiB).
"""

import re
import subprocess
import sys
from pathlib import Path

from loops import ALL_HEADS, module, parameters

REMARK = re.compile(
    r"Category:scratch \| Function=\w+?_(?P<kernel>forward|main) \| .*?"
    r"FarBytes=(?P<far>\d+), NearBytes=(?P<near>\d+)"
)
MOST_NEAR, MOST_FAR = 48 << 10, 172 << 10


def main() -> int:
    folder, dtype = sys.argv[1:]
    files = {path.stem: path.read_text() for path in sorted(Path(folder).rglob("*.mlir"))}
    status = 0
    for name, text in files.items():
        params = parameters(name, folder)
        command = ["sextant-compile", "-", "--target=cuda-emulated:sm_80", "--emit=exec"]
        run = subprocess.run(
            [*command, "--remarks", "--o=/dev/null", f"--search-path={folder}"],
            input=module(name, text, dtype, params),
            text=True,
            capture_output=True,
        )
        if run.returncode:  # an encoding that is none of attention
            continue
        found = [m.groups() for m in REMARK.finditer(run.stderr)]
        for kernel, far, near in found:
            of_head = not ALL_HEADS.search(text)
            if int(near) > MOST_NEAR or (of_head and int(far) > MOST_FAR):
                status = 1
                print(f"FAILED {name}: {kernel} has {near} and {far} bytes")
        print(f"{name}: " + ", ".join(f"{k} {near} near {far} far" for k, far, near in found))
    return status


if __name__ == "__main__":
    sys.exit(main())
