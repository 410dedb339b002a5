"""A new encoding is one file and one test: nothing else has to be touched."""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

DEFINITION = """\
pos.encoding @fresh attributes {formula = "s - m_h sqrt(1 + |i - j|)", paper = "none"} {
  %heads = pos.extent heads
  %low = arith.constant 0.1 : f32
  %high = arith.constant 1.0 : f32
  %m = pos.param "m" : tensor<?xf32> dims(%heads) init uniform(%low, %high)
  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %o = pos.offset
    %n = math.absi %o : i32
    %d = arith.sitofp %n : i32 to f32
    %one = arith.constant 1.0 : f32
    %e = arith.addf %d, %one : f32
    %r = math.sqrt %e : f32
    %slope = pos.read %m[%h] : tensor<?xf32>
    %b = arith.mulf %slope, %r : f32
    %t = arith.subf %s, %b : f32
    pos.yield %t : f32
  }
}
"""

ITS_TEST = """\
import math
import torch
import sextant


def test_values():
    q, k, v = (torch.randn(1, 2, 6, 4) for _ in range(3))
    m = torch.tensor([0.3, 0.7])
    i = torch.arange(6)
    bias = m[:, None, None] * torch.sqrt(1.0 + (i[:, None] - i).abs())
    want = torch.softmax(q @ k.transpose(-1, -2) / 2 - bias, -1) @ v
    got = sextant.attention(q, k, v, ["fresh"], {"fresh.m": m})
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
"""


def test_a_fresh_encoding_is_picked_up(tmp_path):
    (tmp_path / "fresh.mlir").write_text(DEFINITION)
    (tmp_path / "test_fresh.py").write_text(ITS_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [str(tmp_path / "test_fresh.py"), str(HERE / "test_encodings.py")]
    command += ["-k", "test_values or (fresh and (square or finite))"]
    done = subprocess.run(
        command,
        env={**os.environ, "SEXTANT_PATH": str(tmp_path)},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Its own test, and a kernel of each target and of bf16, some of which this machine skips.
    passed, *skipped = (int(n) for n in re.findall(r"(\d+) (?:passed|skipped)", done.stdout))
    assert passed >= 2 and passed + sum(skipped) >= 3, done.stdout
