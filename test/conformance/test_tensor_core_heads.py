"""Scores of all heads on tensor cores, in the emulator: products by warps of some of the
heads, payloads by threads of all of them. Threads run in drawn orders, and copies that
nobody has waited for are NaN."""

from dataclasses import replace

import attention_contract
import pytest
import torch
from attention_contract import launches_on_tensor_cores, run
from cases import Case, compare, make_inputs
from tensor_core_cases import (
    HOPPER,
    TARGET,
    every_form,
    launches_of,
    near_by_head,
    run_on_tensor_cores,
    scaled,
    waves,
)

import sextant

pytestmark = pytest.mark.usefixtures("drawn_threads")

# A block has 8 warps, one head of each at a time, 16 queries and 16 keys.
SHAPES = [
    dict(query=1, key=1, heads=2, kv_heads=2, label="single"),
    dict(query=1, key=65, heads=4, kv_heads=2, label="decode"),
    dict(query=40, key=70, heads=8, kv_heads=8, value_dim=40, label="warps"),
    dict(query=33, key=65, heads=9, kv_heads=3, head_dim=24, value_dim=8, label="one-more"),
    dict(query=17, key=50, heads=12, kv_heads=12, head_dim=32, value_dim=32, label="halves"),
    dict(query=20, key=31, heads=3, kv_heads=1, head_dim=9, value_dim=31, label="odd"),
]


@sextant.encoding(all_heads=True)
def hosted(
    scores,
    at,
    w: sextant.Param("heads", "2 * heads", init=sextant.normal(0.0, 0.3)),
    pull: sextant.Param("heads", init=sextant.normal(1.0, 0.3)),
):
    """Matrices of scores and of what a host adds, under a function of their sum."""
    heads = at.extent("heads")
    seen = sextant.contract(w, scores, 0) + sextant.contract(w, at.host, heads)
    return scores + at.host + 0.5 * sextant.tanh(seen) * pull


BOTH = {"forward", "backward"}


def hold(case, seed, dtype=torch.bfloat16, expected=BOTH, target=TARGET):
    assert compare(case, target, dtype, seed) == expected


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s["label"])
@pytest.mark.parametrize("name", ["talking_heads", "dape", "dape(kerple_log)"])
def test_it_matches_the_reference(name, shape, seed):
    hold(Case(name, **(dict(batch=2) | shape)), seed)


@pytest.mark.parametrize("name, heads", [("talking_heads", 16), ("dape(kerple_log)", 16)])
def test_large_rows(name, heads, seed):
    """Tiles that take all of the shared memory that a block of sm_90a has, or nearly so."""
    rows = dict(heads=heads, kv_heads=heads, head_dim=64, value_dim=64)
    case = Case(name, batch=1, query=20, key=40, **rows, before=("causal",))
    hold(case, seed, target=HOPPER)


@pytest.mark.parametrize(
    "name, rest, expected",
    [
        (hosted("t5_bias"), dict(before=("causal",)), BOTH),
        (hosted("alibi"), dict(positions="random", before=("causal",)), BOTH),
        ("dape(hidden=24,t5_bias)", dict(positions="batch"), {"forward"}),
        ("talking_heads", dict(before=("window(size=20)", every_form)), {"forward"}),
        ("talking_heads", dict(before=("document", scaled), scale=0.3), BOTH),
        ("talking_heads", dict(before=("causal",), scale=20.0), BOTH),
        ("talking_heads", dict(before=("rope",), after=("softcap",), transposed=True), BOTH),
        ("dape(kerple_log)", dict(before=(waves,), head_dim=32, value_dim=48), BOTH),
    ],
    ids=["host", "given", "trained-given", "every-form", "document", "large", "rows", "columns"],
)
def test_beside_others(name, rest, expected, seed):
    """Hosts, given positions, scalar scores with values of a head and over offsets, masks with
    tiles that they hide, rows that are mapped, columns. Trained values over rows, and over
    offsets of given positions, stay with warps in the backward."""
    case = Case(name, batch=2, heads=6, kv_heads=3, query=50, key=90, **rest)
    hold(case, seed, expected=expected)


@pytest.mark.parametrize(
    "query, key, batch, items", [(200, 70, 1, 5 * 2), (40, 300, 1, 16), (300, 300, 2, 2 * 16 * 3)]
)
def test_parts_and_chunks(query, key, batch, items, seed):
    """Of queries and of keys, each with sums of its own: as many items as there are
    multiprocessors, but no part of fewer than 8 tiles of queries."""
    case = Case("dape(kerple_log)", batch=batch, heads=2, kv_heads=1, query=query, key=key)
    case = replace(case, before=("causal",))
    hold(case, seed)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    found = launches_of(case, inputs, "backward", "items")
    assert [n for name, n in found.items() if name.endswith("_fragments")] == [items]


@pytest.mark.parametrize("scale", [-0.5, 0.0, 1e-6])
def test_scales(scale, seed):
    shape = dict(batch=1, heads=3, kv_heads=3, query=20, key=40)
    hold(Case("dape(alibi)", **shape, scale=scale), seed)


def test_several_values(seed):
    shape = dict(batch=1, heads=9, kv_heads=3, query=20, key=40)
    case = Case("talking_heads", **shape)
    inputs = make_inputs(case, seed, torch.bfloat16)
    other = make_inputs(Case("causal", **shape, value_dim=24), seed + 1, torch.bfloat16)
    inputs.values += other.values
    inputs.output_grads += other.output_grads
    found = attention_contract.compare(case.uses, inputs, TARGET, torch.bfloat16, case)
    assert found == BOTH


@pytest.mark.parametrize("name", ["talking_heads", "dape(kerple_log)"])
def test_f16(name, seed):
    hold(Case(name, batch=1, heads=9, kv_heads=9, query=35, key=35), seed, torch.float16)


@pytest.mark.parametrize("query, key, splits", [(1, 700, 11), (20, 300, 5), (40, 60, 1)])
def test_split_keys(query, key, splits, seed):
    """Few queries leave keys to several blocks, of 4 tiles or more each."""
    case = Case("dape(kerple_log)", batch=1, heads=5, kv_heads=5, query=query, key=key)
    hold(case, seed)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    items = launches_of(case, inputs, "forward", "items")
    assert items["attention_0_forward_fragments"] == -(-query // 16) * splits
    assert (items["attention_0_forward_join"] == 0) == (splits == 1)


@pytest.mark.parametrize("query, key", [(5, 0), (0, 5), (70, 40)])
def test_rows_without_keys(query, key, seed):
    case = Case("talking_heads", batch=1, heads=3, kv_heads=3, query=query, key=key)
    hold(replace(case, before=("causal",)), seed)


@pytest.mark.parametrize(
    "case",
    [
        Case("talking_heads", batch=1, heads=2, kv_heads=2, before=(near_by_head,)),
        Case("dape(fire)", batch=1, heads=2, kv_heads=2, before=("causal",)),
        Case("talking_heads", batch=1, heads=40, kv_heads=2, query=5, key=9, head_dim=64),
        Case("talking_heads", batch=1, heads=17, kv_heads=17, query=5, key=9, value_dim=96),
    ],
    ids=["masks-differ", "units", "shared-memory", "registers"],
)
def test_which_stay_with_warps(case, seed):
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    with launches_on_tensor_cores() as found:
        run(case.uses, inputs, TARGET)
    assert not found


@pytest.mark.parametrize("checks", ["races,memory,banks", ""], ids=["checked", "several-items"])
def test_no_order_of_threads_changes_results(checks, seed, monkeypatch):
    """Without checks a block runs several items, one after the other: a warp that begins the
    next one must not change what another still reads of the last."""
    case = Case("dape(kerple_log)", batch=2, heads=9, kv_heads=3, query=40, key=70)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    monkeypatch.setenv("SEXTANT_CHECK", checks)
    want = run_on_tensor_cores(case, inputs)
    for schedule in range(20):
        monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed + schedule))
        got = run(case.uses, inputs, TARGET)
        assert all(torch.equal(want[name], got[name]) for name in want), schedule


def test_sums_keep_their_order_all_the_same(seed, monkeypatch):
    """Where any order is allowed these kernels still add up in one, whatever threads do."""
    case = Case("talking_heads", batch=1, heads=3, kv_heads=3, query=40, key=300)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    want = run_on_tensor_cores(case, inputs)
    monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed + 1))
    got = run(case.uses, replace(inputs, deterministic=False), TARGET)
    assert all(torch.equal(want[name], got[name]) for name in want)
