"""Large memory of a backward stays for the next one: counted in page faults of
processes of their own, since what is kept is a process's."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

PROGRAM = """
import json, resource, sys, torch, sextant
torch.set_num_threads(1)
torch.manual_seed(0)
# Outputs are small beside the copies of dQ.
shape = (1, 4, 32768, 16)
q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
out = sextant.attention(q, k, v, encodings=["near=window(size=64)"], target="cpu:avx2")
gradient = torch.randn_like(out)
counts, bits = [], []
for _ in range(8):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    found = torch.autograd.grad(out, [q, k, v], gradient, retain_graph=True)
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    bits.append([hash(t.numpy().tobytes()) for t in found])
print(json.dumps([counts, all(b == bits[0] for b in bits)]))
"""


def run(keep):
    environment = {k: v for k, v in os.environ.items() if k != "SEXTANT_KEEP_MEMORY"}
    if keep is not None:
        environment["SEXTANT_KEEP_MEMORY"] = keep
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, text=True, capture_output=True
    )


def test_the_next_backward_waits_for_no_page_of_them():
    (kept, equal), (fresh, same) = (json.loads(run(keep).stdout) for keep in (None, "0"))
    # The copies of dQ are 64 MiB: 32 of the largest pages. The first calls also meet
    # what the C library's heap has to learn.
    print("page faults of each call:", kept, "kept nothing:", fresh)
    assert min(fresh) >= 30
    assert min(kept) < 10
    assert equal and same


def test_a_number_of_mebibytes_is_asked_for():
    done = run("much")
    assert done.returncode == 1
    assert (
        "SEXTANT_KEEP_MEMORY is how many MiB may be kept from one call to the next" in done.stderr
    )
    assert "not 'much'" in done.stderr
