"""Which attentions multiply on tensor cores, with how many work items, and what they
refuse, in the emulator."""

import pytest
import torch
from attention_contract import launches_on_tensor_cores, run
from cases import Case, make_inputs
from tensor_core_cases import (
    AS_WARPS,
    ONE,
    TARGET,
    given_columns,
    grouped,
    launches_of,
    near_by_head,
)

import sextant
from sextant import attention_text, backend, definitions

pytestmark = pytest.mark.usefixtures("drawn_threads")


MANY, FEW = "attention_0_forward_fragments", "attention_0_forward_fragments_of_few"


# Rows of 16 bits; by the number of queries, of the block of four warps and of that of one.
@pytest.mark.parametrize(
    "query, group, many, few",
    [
        *((1, group, 0, blocks) for group, blocks in ((1, 1), (5, 1), (8, 1), (9, 2), (16, 2))),
        *((3, group, 0, blocks) for group, blocks in ((1, 1), (2, 1), (5, 3))),
        *((5, group, blocks, 0) for group, blocks in ((2, 1), (8, 2))),
        (16, 1, 0, 1),
        *((16, group, blocks, 0) for group, blocks in ((4, 1), (5, 2))),
        (17, 1, 1, 0),
        *((32, group, blocks, 0) for group, blocks in ((1, 1), (4, 1), (8, 2), (16, 4))),
    ],
)
def test_keys_are_read_once_for_several_heads(query, group, many, few, seed):
    """A work item reads the keys and values of a head once: so many are there."""
    case = Case("alibi", batch=3, **grouped(group, query, 65))
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    items = launches_of(case, inputs, "forward", "items")
    assert (items[MANY], items[FEW]) == (3 * 2 * many, 3 * 2 * few)
    assert items["attention_0_forward_join"] == 0


@pytest.mark.parametrize("query, launch, expected", [(20, MANY, [4, 9]), (1, FEW, [4, 16])])
def test_few_items_split_more_keys(query, launch, expected, seed, monkeypatch):
    """Heads that share a block are fewer items, so more of them share the keys. Only the
    launches are looked at: so many keys take long under the checks of memory."""
    monkeypatch.delenv("SEXTANT_CHECK")
    splits = []
    for heads, kv_heads in ((64, 64), (64, 16)):
        case = Case("causal", batch=1, heads=heads, kv_heads=kv_heads, query=query, key=2100)
        inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
        splits.append(launches_of(case, inputs, "forward", "items")[launch] // kv_heads)
    assert splits == expected


def test_products_are_counted_once(seed):
    """Of two launches the one that has the work says what it costs."""
    case = Case("causal", **ONE, query=1, key=65)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    flops = launches_of(case, inputs, "forward", "flops")
    assert flops[MANY] == 0 and flops[FEW] > 0


@pytest.mark.parametrize("queries, kernels", [(16, {MANY, FEW}), (17, {MANY})])
def test_known_lengths_need_one_kernel(queries, kernels):
    """Many queries are no few ones, which is known without a call."""
    row = f"tensor<2x3x{queries}x16xbf16>"
    text = f"""func.func @forward(%q: {row}, %k: tensor<2x3x?x16xbf16>) -> {row} {{
  %o, %l = pos.attention %q, %k, (%k)
    : {row}, tensor<2x3x?x16xbf16>, (tensor<2x3x?x16xbf16>) -> ({row}), tensor<2x3x{queries}xf32>
  return %o : {row}
}}"""
    manifest = sextant.compile(text, target=TARGET).manifest
    assert {k for k in manifest["kernels"] if "fragments" in k} == kernels


@pytest.mark.parametrize(
    "mask, query, blocks", [("causal", 32, 1), ("causal", 33, 4), (near_by_head, 2, 4)]
)
def test_which_heads_share_a_block(mask, query, blocks, seed):
    case = Case(mask, batch=1, **grouped(4, query, 64, kv_heads=1))
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    items = launches_of(case, inputs, "forward", "items")
    assert items["attention_0_forward_fragments"] == blocks


def test_columns_that_find_no_room():
    """Rows of more than 256 elements, with their columns, stay with warps."""
    case = Case(given_columns(width=65), **ONE, query=5, key=9, head_dim=192)
    inputs = make_inputs(case, 0, torch.bfloat16).cast(torch.bfloat16)
    with launches_on_tensor_cores() as found:
        run(case.uses, inputs, TARGET)
    assert not found


@pytest.mark.parametrize("side", ["query", "key"])
def test_too_many_rows(side):
    """More than 32 bits count; rows are one in memory."""
    one = torch.zeros(1, 1, 1, 16, dtype=torch.bfloat16)
    many = one.expand(1, 1, 2**31 - 1, 16)
    query, key = (many, one) if side == "query" else (one, many)
    message = (
        r"'pos.attention' on tensor cores \(sm_80 and later\) counts rows in 32 bits: cut the "
        rf"sequence; the length of {side} and the largest one \(2147483647 and 2147418111\)"
    )
    with pytest.raises(RuntimeError, match=message):
        sextant.attention(query, key, key, target=TARGET)


def test_doubles_are_for_the_reference():
    rows = torch.zeros(1, 1, 4, 16, dtype=torch.float64)
    message = f'target {TARGET} computes in .*float16.*; target="reference" computes in float64'
    with pytest.raises(TypeError, match=message):
        sextant.attention(rows, rows, rows, target=TARGET)


def stays_with_warps(encoding, element):
    """Whether the forward and the backward do, by the kernels of an attention that is given
    positions only where it needs them."""
    uses = [encoding]
    if definitions.signature(uses).requires_past:
        uses.insert(0, "past=causal")
    found = definitions.signature(uses)
    types = tuple(
        attention_text.ParamType(p.name, p.rank, p.element, p.trained) for p in found.params
    )
    axes = definitions.axes(uses)
    key = attention_text.AttentionKey(
        element,
        64,
        (64,),
        found.uses,
        types,
        found.definitions,
        axes if axes > 1 else 0,
        axes if axes > 1 else 0,
        heads=4 if found.all_heads else 0,
    )
    folders = definitions.first_folders()

    def as_warps(**directions) -> bool:
        text = attention_text.attention_module(key, **directions)
        kernels = str(backend.compiler().compile(text, TARGET, folders, "kernel", encoding))
        return "llvm.nvvm.mma" not in kernels

    return as_warps(backward=False), as_warps(forward=False, backward=True)


def test_which_encodings_stay_with_warps(encoding):
    as_warps = encoding in AS_WARPS
    assert stays_with_warps(encoding, "bf16") == (as_warps, as_warps)


@pytest.mark.parametrize("name", ["xpos", "rope", "t5_bias", "dape", "cope"])
def test_which_encodings_stay_with_warps_in_f16(name):
    """Those that do in bf16, and one. The README's table has all, which test_readme checks."""
    as_warps = name in AS_WARPS or name == "xpos"
    assert stays_with_warps(name, "f16") == (as_warps, as_warps)
