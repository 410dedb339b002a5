"""Contextual places in CPU kernels: products with tables, scans, weighted rows.

Tolerance: C7, see numeric_contract.py. With an interpolation the slope jumps at whole
positions, which a rounding of a sum of gates may cross, in plain code as in kernels:
neighbours of the input show how far gradients move by that.
"""

import attention_contract
import pytest
import targets
import torch

import sextant

# A scan from the first key on, and no encoding of the package does it.
COUNT = """\
pos.encoding @count {
  %n = pos.option "limit" : f32 = 5.0 : f32
  pos.score {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %minus = arith.negf %s : f32
    %odds = math.exp %minus : f32
    %sum = arith.addf %odds, %one : f32
    %gate = arith.divf %one, %sum : f32
    %p = pos.scan %gate rightward until %n : f32
    %tenth = arith.constant 0.1 : f32
    %b = arith.mulf %p, %tenth : f32
    %t = arith.addf %s, %b : f32
    pos.yield %t : f32
  }
}
"""


def params_of(use, heads, dim, value_dim):
    if use.startswith("cope"):
        count = int(use.partition("=")[2].rstrip(")") or 64)
        return {"cope.table": torch.randn(dim, count)}
    if use.startswith("shaw"):
        rows = 2 * int(use.partition("=")[2].rstrip(")") or 16) + 1
        return {"shaw.ak": torch.randn(rows, dim), "shaw.av": torch.randn(rows, value_dim)}
    return {}


def compare(target, use, shape, scale=1.0):
    targets.require(target)
    batch, heads, kv_heads, queries, keys, dim, value_dim, masks = shape
    dtype = targets.DTYPES[target]
    tensors = [
        scale * torch.randn(batch, heads, queries, dim),
        torch.randn(batch, kv_heads, keys, dim),
        torch.randn(batch, kv_heads, keys, value_dim),
    ]
    inputs = attention_contract.Inputs.drawn(
        *(t.to(dtype) for t in tensors), params_of(use, heads, dim, value_dim)
    )
    attention_contract.compare([*masks, use], inputs, target, dtype, (use, shape))


@pytest.mark.parametrize("target, shape", targets.in_turn(targets.SHAPES, targets.F32), ids=str)
@pytest.mark.parametrize("use", ["cope", "cope(positions=4)", "shaw", "shaw(reach=3)"])
def test_matches_the_reference(target, use, shape):
    compare(target, use, shape)


@pytest.mark.parametrize("use", ["cope(positions=9)", "shaw"])
def test_bf16_matches_the_reference(use):
    compare("cpu:avx512bf16", use, (1, 2, 1, 70, 70, 48, 40, ["causal"]), scale=0.25)


@pytest.mark.parametrize("scale", [8.0, 0.01])
def test_gates_that_are_open_or_shut(scale):
    """Large logits saturate the scan within a few keys, or never."""
    compare("cpu:avx512", "cope(positions=20)", (1, 1, 1, 200, 200, 16, 16, ["causal"]), scale)


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_a_scan_from_the_first_key(target, search_path):
    search_path({"count": COUNT})
    for shape in targets.SHAPES[1:3]:
        compare(target, "count", shape)


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_a_scan_of_what_a_scan_gives(target):
    """The gates of the second use see the bias of the first, so the gradient of the
    first scan needs that of the second, of all keys."""
    tables = {"cope.table": torch.randn(24, 9), "again.table": torch.randn(24, 6)}
    inputs = targets.drawn(target, (2, 2, 1, 63, 165, 24, 40), tables)
    uses = ["causal", "cope(positions=9)", "again=cope(positions=6)"]
    attention_contract.compare(uses, inputs, target, targets.DTYPES[target], uses)


def test_tables_of_other_sizes_are_refused():
    q = torch.randn(1, 1, 12, 16)
    tables = {"shaw.ak": torch.randn(33, 16), "shaw.av": torch.randn(33, 16)}
    for name, table in tables.items():
        for wrong in (table[:20], table[:, :8]):
            with pytest.raises((ValueError, sextant.CompileError, RuntimeError), match=name):
                sextant.attention(q, q, q, ["shaw"], {**tables, name: wrong})




@sextant.encoding
def counted(score, at, gate: sextant.Param("batch", "heads", "key", given=True)):
    """The sum of gates from the key to the query, at most 8."""
    return score + 0.1 * at.scan(gate[at.batch, at.head, at.key], until=8)


@pytest.mark.parametrize("target", targets.F32)
def test_gates_behind_a_saturated_scan_are_not_computed(target):
    """An early exit saves work and changes nothing, so what it skips has to be made
    visible: gates that are no numbers, far behind the eight that count."""
    length, far = 600, 200
    rows = [torch.randn(2, 2, n, 16) for n in (16, length, length)]
    results = []
    for behind in (1.0, torch.nan):
        gate = torch.ones(2, 2, length)
        gate[:, :, :far] = behind
        leaves = [t.clone().requires_grad_() for t in (*rows, gate)]
        out = sextant.attention(
            *leaves[:3], ["causal", counted], {"counted.gate": leaves[3]}, target=target
        )
        results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for plain, skipped in zip(*results):
        assert torch.equal(plain, skipped)
