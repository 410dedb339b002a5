"""Memory of attention is linear in the length, forward and backward.

Measured in processes of their own, whose heap blocks are counted
(tools/bench/live_bytes.c), several attentions in one: how far the bytes that live rise at most above what they
were before. A call needs tens of bytes per row and lane here, so doubling the length
has to double the rise; one byte per score would quadruple it. A narrow window makes
the products cheap and leaves every allocation as it is.
"""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))

from live_bytes import run_counted

SHORT, LONG = 8192, 16384
FACTOR = 2.2

PROGRAM = """
import json, sys
import torch, sextant
from live_bytes import rises
torch.set_num_threads(1)


@sextant.columns(8)
def lowrank(at, a: sextant.Param("key", 8, given=True), b: sextant.Param("key", 8, given=True)):
    return a[at.query, at.lane], b[at.key, at.lane]


def attention(length, uses, positions, dense):
    torch.manual_seed(0)
    leaves = [torch.randn(1, 1, length, 16, requires_grad=True) for _ in range(3)]
    made = [n for n in uses if n != "lowrank"]
    params = sextant.init_params(made, heads=1, head_dim=16, seed=0)
    params = {n: t.detach().requires_grad_(t.is_floating_point()) for n, t in params.items()}
    if "lowrank" in uses:
        params |= {n: torch.randn(length, 8, requires_grad=True) for n in ("lowrank.a", "lowrank.b")}
    for n in ("document.ids", "padding.visible"):
        if n.split(".")[0] in uses:
            params[n] = torch.ones(1, length, dtype=torch.int32)
    if "forgetting" in uses:
        params["forgetting.gate"] = torch.randn(1, 1, length, requires_grad=True)
    named = {}
    uses = [lowrank if n == "lowrank" else n for n in uses]
    if positions:
        place = torch.arange(length, dtype=torch.int32)[None, :, None] * positions
        named = dict(query_positions=place, key_positions=place)
    if sextant.definitions.axes(uses) > 1:
        row = torch.arange(length)
        place = torch.stack([row // 64, row % 64], -1)[None]
        named = dict(query_positions=place, key_positions=place)
    out = sextant.attention(*leaves, [*uses, "near=window(size=64)"], params, **named)
    if dense:  # the smallest thing with an element per score
        out = out + torch.ones(length, length, dtype=torch.int8)[0, 0]
    out.sum().backward()


cases, lengths = json.loads(sys.argv[1])
found = []
for uses, positions, dense in cases:
    attention(lengths[0] // 64, uses, positions, False)  # compiles
    calls = [lambda n=n: attention(n, uses, positions, dense) for n in lengths]
    found.append(rises(calls))
print(json.dumps(found))
"""


# Every form of hoisted value, alone and together, and every place.
ENCODINGS = [
    ["alibi"],
    ["kerple_log", "kerple_power"],
    ["t5_bias"],
    ["sandwich", "causal", "softcap"],
    ["rope"],
    ["document", "padding"],
    ["lowrank"],
    ["rope", "t5_bias", "document", "kerple_log"],
    ["causal", "rope_2d_mixed", "xpos", "forgetting"],
    ["swin", "fire"],
    ["shaw"],
    ["transformer_xl"],
    ["liere(axes=1)"],
    ["causal", "cope"],
    ["dape(kerple_log)"],
    ["long=rope(scaling=ntk_dynamic, factor=4.0, train_length=64)",
     "short=rope(scaling=yarn, factor=4.0, train_length=64)", "rope_2d", "kerple_multiplicative"],
    ["liere(axes=1, block=8)"],
    ["talking_heads", "dape(alibi, fire)"],
]


# Uses, the gap of given positions (one with a table, one with values made in the tiles),
# and whether something dense is added.
CASES = [(uses, 0, False) for uses in ENCODINGS]
CASES += [(["t5_bias", "kerple_log"], gap, False) for gap in (1, 10**5)]
# The measure itself: it fails where it has to.
NOTICED = (["alibi"], 0, True)
PROCESSES = 3


@pytest.mark.parametrize("part", range(PROCESSES))
def test_peak_is_linear(part):
    cases = [*CASES[part::PROCESSES], NOTICED]
    done = run_counted(PROGRAM, json.dumps([cases, [SHORT, LONG]]))
    assert done.returncode == 0, done.stderr
    for case, (short, long) in zip(cases, json.loads(done.stdout), strict=True):
        text = f"{case}: {short / 2**20:.1f} MB, {long / 2**20:.1f} MB: {long / short:.2f}"
        print(text)
        assert short > 2**22, f"{text}: too little to measure"
        assert (long <= FACTOR * short) == (case != NOTICED), text
