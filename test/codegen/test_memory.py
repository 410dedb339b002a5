"""Memory of attention is linear in the length, forward and backward.

Measured in a process of its own, whose heap blocks are counted (live_bytes.c): how
far the bytes that live rise at most above what they were before. A call needs tens of
bytes per row and lane here, so doubling the length has to double the rise; one
byte per score would quadruple it. A narrow window makes the products cheap and
leaves every allocation as it is.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SHORT, LONG = 8192, 16384
FACTOR = 2.2

PROGRAM = """
import ctypes, json, sys
import torch, sextant
torch.set_num_threads(1)

heap = ctypes.CDLL(None)
for function in (heap.live_bytes_start, heap.live_bytes_most):
    function.restype = ctypes.c_size_t


def rise(call):
    before = heap.live_bytes_start()
    call()
    return heap.live_bytes_most() - before


@sextant.columns(8)
def lowrank(at, a: sextant.Param("key", 8, given=True), b: sextant.Param("key", 8, given=True)):
    return a[at.query, at.lane], b[at.key, at.lane]


def attention(length, uses, dense):
    torch.manual_seed(0)
    leaves = [torch.randn(1, 1, length, 16, requires_grad=True) for _ in range(3)]
    made = [n for n in uses if n != "lowrank"]
    params = sextant.init_params(made, heads=1, head_dim=16, seed=0)
    params = {n: t.detach().requires_grad_(t.is_floating_point()) for n, t in params.items()}
    if "lowrank" in uses:
        params |= {n: torch.randn(length, 8, requires_grad=True) for n in ("lowrank.a", "lowrank.b")}
    for n, shape in GIVEN.items():
        if n.split(".")[0] in uses:
            params[n] = torch.ones(1, length, dtype=torch.int32)
    named = {}
    uses = [lowrank if n == "lowrank" else n for n in uses]
    if positions:
        place = torch.arange(length, dtype=torch.int32)[None, :, None] * positions
        named = dict(query_positions=place, key_positions=place)
    out = sextant.attention(*leaves, [*uses, "near=window(size=64)"], params, **named)
    if dense:  # the smallest thing with an element per score
        out = out + torch.ones(length, length, dtype=torch.int8)[0, 0]
    out.sum().backward()


GIVEN = {"document.ids": None, "padding.visible": None}
uses, positions, dense, lengths = json.loads(sys.argv[1])
attention(lengths[0] // 64, uses, False)  # compiles
print(json.dumps([rise(lambda: attention(n, uses, dense)) for n in lengths]))
"""


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """The library that counts the blocks of a process that preloads it."""
    library = tmp_path_factory.mktemp("heap") / "live_bytes.so"
    source = Path(__file__).with_name("live_bytes.c")
    # Functions of the allocator's names are not to be taken for the allocator's.
    flags = ["-O2", "-fno-builtin", "-shared", "-fPIC"]
    subprocess.run(["clang-22", *flags, source, "-o", library], check=True)
    return library


def measure(library, uses, positions=0, dense=False):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([uses, positions, dense, [SHORT, LONG]])],
        env={**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Every form of hoisted value, alone and together.
ENCODINGS = [
    ["alibi"],
    ["kerple_log", "kerple_power"],
    ["t5_bias"],
    ["sandwich", "causal", "softcap"],
    ["rope"],
    ["document", "padding"],
    ["lowrank"],
    ["rope", "t5_bias", "document", "kerple_log"],
]


def holds(*arguments, **keywords):
    short, long = measure(*arguments, **keywords)
    print(f"{short / 2**20:.1f} MB, {long / 2**20:.1f} MB: {long / short:.2f}")
    assert short > 2**23, "too little to measure"
    return long <= FACTOR * short


@pytest.mark.parametrize("uses", ENCODINGS, ids="-".join)
def test_peak_is_linear(counted, uses):
    assert holds(counted, uses)


@pytest.mark.parametrize("gap", [1, 10**5], ids=["table", "in-tile"])
def test_peak_is_linear_under_positions(counted, gap):
    assert holds(counted, ["t5_bias", "kerple_log"], gap)


def test_a_byte_per_score_is_noticed(counted):
    """The measure itself: it fails where it has to."""
    assert not holds(counted, ["alibi"], dense=True)
