"""Calls with as many queries as a vector has lanes and fewer, such as steps of decoding:
without a gradient they have products of their own on the CPU."""

from dataclasses import replace

import pytest
import targets
import torch
from attention_contract import run
from cases import Case, compare, make_inputs
from tensor_core_cases import near_by_head
from test_encodings import AMONG, REPRESENTATIVES
from threads import threads

# 131 keys are two blocks of which the last is no whole group.
DECODE = dict(query=1, key=131, label="decode")
MASKED = dict(query=8, key=150, batch=1, **AMONG, label="among")
# Three heads pass over the same keys together.
GROUPED = dict(query=2, key=131, batch=1, heads=6, kv_heads=2, label="grouped")
SHAPES = [
    dict(query=5, key=64, heads=6, kv_heads=2, head_dim=20, value_dim=36, label="dims"),
    dict(query=4, key=150, heads=6, kv_heads=2, transposed=True, **AMONG, label="masked-groups"),
    # An item has room for 16 of the 17 heads.
    dict(query=1, key=33, batch=1, heads=34, kv_heads=2, positions="shared", label="many-heads"),
    dict(query=3, key=40, transposed=True, **AMONG, label="transposed"),
    dict(query=7, key=34, positions="batch", label="positions"),
    dict(query=6, key=2, label="more-queries"),
]


def hold(case, target, seed, dtype=torch.float32):
    compare(case, target, dtype, seed, gradients=False)


@pytest.mark.quick_code
@pytest.mark.parametrize("shape", [DECODE, MASKED, GROUPED], ids=lambda s: s["label"])
def test_they_match_the_reference(encoding, f32_target, shape, seed):
    hold(Case(encoding, **shape), f32_target, seed)


@pytest.mark.quick_code
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s["label"])
@pytest.mark.parametrize("name", [*REPRESENTATIVES, "cope", "seqpe", "liere"])
def test_shapes(name, f32_target, shape, seed):
    hold(Case(name, **shape), f32_target, seed)


@pytest.mark.quick_code
@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_bf16_in_f32_units(name, f32_target, seed):
    hold(Case(name, **DECODE), f32_target, seed, torch.bfloat16)


@pytest.mark.quick_code
@pytest.mark.parametrize("target", [*targets.DOT, targets.runnable(targets.AMX)])
@pytest.mark.parametrize("shape", [GROUPED, SHAPES[0], SHAPES[1]], ids=lambda s: s["label"])
@pytest.mark.parametrize("name", ["t5_bias", "rope", "seqpe"])
def test_bf16_where_products_are_of_pairs(name, target, shape, seed):
    """Those of few queries are of f32 on every target; a matrix unit takes three queries
    for few, a vector unit 16."""
    hold(Case(name, **shape), target, seed, torch.bfloat16)


@pytest.mark.quick_code
@pytest.mark.parametrize("dims", [(16, 16), (128, 72), (264, 8)], ids=str)
def test_dims_of_heads(f32_target, dims, seed):
    """In loops and written out."""
    shape = dict(query=2, key=70, head_dim=dims[0], value_dim=dims[1])
    hold(Case("alibi", **shape), f32_target, seed)


@pytest.mark.quick_code
def test_rows_without_a_key_and_threads(f32_target, seed):
    """C4 and C9."""
    case = Case("alibi", batch=3, heads=10, kv_heads=2, query=7, key=4, **AMONG)
    inputs = make_inputs(case, seed).cast(torch.float32)
    hidden = case.query - case.key
    got = run(case.uses, inputs, f32_target, gradients=False)
    assert (got["output"][:, :, :hidden] == 0).all()
    assert (got["lse"][:, :, :hidden] == -torch.inf).all()
    for count in (1, 2, 3, 7, 30):
        with threads(count):
            again = run(case.uses, inputs, f32_target, gradients=False)
        assert all(torch.equal(tensor, again[name]) for name, tensor in got.items())


@pytest.mark.quick_code
@pytest.mark.parametrize("name", ["causal", "rope"])
def test_a_head_has_the_bits_that_it_has_alone(name, f32_target, seed):
    """Whichever heads pass over its keys together."""
    case = Case(name, batch=1, heads=5, kv_heads=1, query=3, key=300)
    inputs = make_inputs(case, seed).cast(torch.float32)
    got = run(case.uses, inputs, f32_target, gradients=False)["output"]
    for head in range(case.heads):
        own = replace(inputs, query=inputs.query[:, [head]])
        alone = run(case.uses, own, f32_target, gradients=False)["output"]
        assert torch.equal(got[:, [head]], alone)


@pytest.mark.quick_code
def test_masks_of_heads(f32_target, seed):
    """A block of keys that one head of a group sees, and another one does not."""
    hold(Case(near_by_head, query=4, key=400, heads=8, kv_heads=2), f32_target, seed)


@pytest.mark.quick_code
def test_a_nan_stays_with_its_query(f32_target, seed):
    """Lanes of the products are elements of rows: those of one query are no other's."""
    case = Case("causal", query=4, key=70)
    inputs = make_inputs(case, seed).cast(torch.float32)
    want = run(case.uses, inputs, f32_target, gradients=False)["output"]
    inputs.query[0, 0, 2, -1] = torch.nan
    got = run(case.uses, inputs, f32_target, gradients=False)["output"]
    assert got[0, 0, 2].isnan().all()
    got[0, 0, 2] = want[0, 0, 2]
    assert torch.equal(got, want)
