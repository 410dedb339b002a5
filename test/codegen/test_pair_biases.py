"""Biases with an element of their own for each pair of query and key, and their gradients.

No table holds what they read: tiles add to the gradient itself. Items of a launch whose
indices show that they reach separate elements add to one sum, others have one each.
"""

import json
import sys
from pathlib import Path

import pytest
import targets
import torch
from attention_contract import compare

import sextant

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))

from live_bytes import run_counted

EVERY = sextant.Param("batch", "heads", "query", "key", given=True)


@sextant.encoding
def pairs(score, at, bias: EVERY):
    return score + bias[at.batch, at.head, at.query_row, at.key]


@sextant.encoding
def turned_over(score, at, bias: sextant.Param("key", "batch", "query", given=True)):
    return score * bias[at.key, at.batch, at.query_row]


@sextant.encoding
def twice(score, at, bias: sextant.Param("heads", 150, 150)):
    """Pairs of separate tiles read one element."""
    return score + bias[at.head, at.query, at.key] - 0.5 * bias[at.head, at.key, at.query]


@sextant.encoding
def grouped(score, at, bias: sextant.Param("batch", "kv_heads", "query", "key", given=True)):
    """Heads of a group read one element."""
    return score + bias[at.batch, at.head // 2, at.query_row, at.key]


@sextant.encoding
def columns_of_pairs(score, at, bias: sextant.Param(3, "query", "key", given=True)):
    return score + sextant.sum(lambda n: bias[n, at.query_row, at.key], 3)


# Batch, heads, kv heads, queries, keys, head dim, value dim.
SHAPE = (4, 4, 2, 70, 131, 16, 16)
CASES = {
    "pairs": (pairs, (4, 4, 70, 131)),
    # Elements of the batch share those of the parameter.
    "two of four": (pairs, (2, 4, 70, 131)),
    "turned over": (turned_over, (131, 4, 70)),
    "twice": (twice, (4, 150, 150)),
    "grouped": (grouped, (1, 2, 70, 131)),
    "sum": (columns_of_pairs, (3, 70, 131)),
}


@pytest.mark.parametrize("target", targets.F32[:1] + targets.DOT)
@pytest.mark.parametrize("case", CASES)
def test_kernels(case, target):
    """Kernels agree with the reference, by the rule of C7."""
    use, sizes = CASES[case]
    inputs = targets.drawn(target, SHAPE, {f"{use}.bias": torch.randn(sizes)})
    compare([use, "causal"], inputs, target, targets.DTYPES[target], case)


PROGRAM = """
import json
import torch, sextant
from live_bytes import rises
torch.set_num_threads(1)

@sextant.encoding
def pairs(score, at, bias: sextant.Param("batch", "heads", "query", "key", given=True)):
    return score + bias[at.batch, at.head, at.query_row, at.key]

def attention(batch, heads, length):
    rows = [torch.randn(batch, heads, length, 16, requires_grad=True) for _ in range(3)]
    bias = torch.zeros(batch, heads, length, length, requires_grad=True)
    sextant.attention(*rows, [pairs], {"pairs.bias": bias}).sum().backward()

attention(1, 1, 8)  # compiles
print(json.dumps(rises([lambda: attention(4, 4, 256)])))
"""


def test_one_sum_for_all():
    """A gradient has its sums in float64 once, not for each head of each sample again."""
    done = run_counted(PROGRAM)
    assert done.returncode == 0, done.stderr
    (rise,) = json.loads(done.stdout)
    bias = 4 * 4 * 256 * 256 * 4
    # The bias, its gradient, and the sums; a sixth for rows and scratch memory.
    assert rise <= (1 + 1 + 2) * bias * 7 / 6, rise / bias
