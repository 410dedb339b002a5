"""Compiling leaves the process as it was."""

import os
import subprocess
import sys

PROGRAM = """
import os, signal
import sextant

# 32 and 33 are the C library's own: it takes them with the first thread it starts.
OWN = 1 << 31 | 1 << 32

def caught():
    lines = [line.split() for line in open("/proc/self/status")]
    names = ("SigCgt:", "SigIgn:", "SigBlk:")
    return [f"{line[0]} {int(line[1], 16) & ~OWN:016x}" for line in lines if line[0] in names]

got = []
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: got.append(number))
before = caught()
text = sextant.emit(MODEL, "asm")
sextant.compile(MODEL)
assert caught() == before, (before, caught())
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGHUP):
    os.kill(os.getpid(), number)
assert got == [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGHUP], got
print("as before")
"""
MODEL = """
func.func @forward(%x: tensor<1x1x?x16xf32>) -> tensor<1x1x?x16xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32>, (tensor<1x1x?x16xf32>)
    -> (tensor<1x1x?x16xf32>), tensor<1x1x?xf32>
  return %o : tensor<1x1x?x16xf32>
}
"""


def test_signal_handlers_stay(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", f"MODEL = {MODEL!r}\n{PROGRAM}"],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "as before\n", done.stderr
    assert list((tmp_path / "sextant").glob("*.entry")), "nothing was compiled"
