"""Mutated artifacts, with the checksum mended, are refused, fail with an error or run.

`SEXTANT_FUZZ=N` makes N times as many mutants; `SEXTANT_SEED` repeats a run.
"""

import os
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")

import fuzz_artifacts
import targets

ROOT = Path(__file__).resolve().parents[2]
FACTOR = float(os.environ.get("SEXTANT_FUZZ") or 1)
ATTENTION = """
func.func @loss(%q: tensor<?x?x?x8xf32> {exec.name = "q", exec.dims = ["batch", "heads", "length", ""]},
                %at: tensor<?x?x1xi32> {exec.name = "at", exec.dims = ["batch", "length", ""]},
                %r1: tensor<?xf32> {exec.name = "r1", exec.dims = ["heads"]},
                %r2: tensor<?xf32> {exec.name = "r2", exec.dims = ["heads"]},
                %lse: tensor<?x?x?xf32> {exec.dims = ["batch", "heads", "length"]})
    -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?xf32>) {
  %o, %l, %s = pos.attention %q, %q, (%q) uses [#pos.use<@causal, "causal">, #pos.use<@kerple_log, "k">]
    params(%r1, %r2 : tensor<?xf32>, tensor<?xf32>) query_positions(%at : tensor<?x?x1xi32>)
    key_positions(%at : tensor<?x?x1xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>, tensor<?x?x?x2xf32>
  %dq, %dk, %dv, %dr1 = pos.attention_backward %q, %q, (%q), (%o), %s, (%q), %lse
    uses [#pos.use<@causal, "causal">, #pos.use<@kerple_log, "k">]
    params(%r1, %r2 : tensor<?xf32>, tensor<?xf32>) query_positions(%at : tensor<?x?x1xi32>)
    key_positions(%at : tensor<?x?x1xi32>) gradients [0]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>), tensor<?xf32>
  return %o, %dq, %dr1 : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?xf32>
}
"""


def scale():
    return (ROOT / "test/runtime/Inputs/scale.mlir").read_text()


def train_step():
    return sextant.models.gpt.gpt(
        vocabulary=11, width=8, heads=2, layers=1, encodings=("causal", "t5_bias"))


PROGRAMS = {
    "kernel": (scale, "reference"),
    "attention": (lambda: ATTENTION, "cpu:avx2"),
    "train step": (train_step, "reference"),
    "fat": (scale, "reference,cpu:avx2"),
}


@pytest.mark.skipif(not shutil.which("flatc"), reason="flatc is missing")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.timeout(300 * max(FACTOR, 1))
def test_mutants(name, seed, tmp_path):
    write, target = PROGRAMS[name]
    if not any(map(targets.available, target.split(","))):
        pytest.skip(f"this machine has no {target}")
    artifact = sextant.compile(write(), target=target).artifact
    library = sextant.backend.PACKAGE / "libsextant_torch.so"
    (alone,) = fuzz_artifacts.run_all(library, [_write(tmp_path / "whole.sxt", artifact)])
    assert alone == ("ran", "")
    outcomes, crashes = fuzz_artifacts.fuzz(
        library, artifact, seed=seed, fields=int(100 * FACTOR), count=int(200 * FACTOR))
    assert not crashes, "\n".join(crashes)
    # Mutants get through to each of the ends, or nothing was tested.
    assert outcomes["refused"] and outcomes["ran"], outcomes


def _write(path, data):
    path.write_bytes(data)
    return path
