"""Orders of threads on tensor cores, in the emulator: which results they may change, and
which must be the same bits."""

from dataclasses import replace

import attention_contract
import pytest
import torch
from attention_contract import run
from cases import Case, make_inputs
from tensor_core_cases import (
    CHUNKS,
    ONE,
    SHAPES,
    TARGET,
    added_forms,
    every_form,
    launches_of,
    run_on_tensor_cores,
    waves,
)

import sextant

pytestmark = pytest.mark.usefixtures("drawn_threads")
# Orders of threads that are drawn where results must not depend on them.
ORDERS = 40


@pytest.mark.parametrize(
    "name, shape",
    [
        ("kerple_log", CHUNKS),
        ("rope", SHAPES[3]),
        ("fire", SHAPES[2]),
        (every_form, dict(query=40, key=290, heads=4, kv_heads=2)),
        ("t5_bias", dict(query=70, key=150, head_dim=256, value_dim=256)),
        ("causal", dict(query=40, key=270, head_dim=9, value_dim=31)),
        ("kerple_log", dict(query=70, key=150, head_dim=96, value_dim=96)),
    ],
    ids=["chunks", "rows", "hinges", "every-form", "split-gradients", "odd", "shared-columns"],
)
def test_in_any_order(name, shape, seed):
    """Chunks of keys add to the same gradients of queries, without a race."""
    case = Case(name, **(ONE | shape))
    inputs = replace(make_inputs(case, seed, torch.bfloat16), deterministic=False)
    found = attention_contract.compare(case.uses, inputs, TARGET, torch.bfloat16, case)
    assert "backward" in found


@pytest.mark.parametrize("query", [33, 90])
def test_memory_in_any_order(query, seed):
    """One sum of gradients of queries, not one for each of three chunks; the launches stay,
    since the last one rounds the sum to the type of the queries."""
    case = Case("alibi", **ONE, query=query, key=300)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    ordered = launches_of(case, inputs, "backward")
    free = launches_of(case, replace(inputs, deterministic=False), "backward")
    assert ordered.keys() == free.keys()
    # Rows are whole blocks of statistics and vectors.
    lanes, rows = 32, -(-query // 64) * 64
    saved = {name: ordered[name] - free[name] for name in ordered}
    expected = 2 * ONE["batch"] * ONE["heads"] * rows * lanes * 4
    changed = {name.split("_", 3)[3]: count for name, count in saved.items() if count}
    assert changed == {"backward_fragments": expected, "finish": expected}


def test_one_order_is_the_default(seed, monkeypatch):
    """The same bits whatever the order of threads, with three chunks; PyTorch's own switch
    asks for that, too. In another order other sums may come."""
    case = Case("rope", **ONE, query=40, key=300)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    want = run(case.uses, inputs, TARGET)
    free = replace(inputs, deterministic=False)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    for schedule, again in enumerate((inputs, free, inputs, free)):
        monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed + schedule))
        got = run(case.uses, again, TARGET)
        assert all(torch.equal(want[name], got[name]) for name in want)


@pytest.mark.parametrize("target", ["cpu", TARGET])
def test_what_keeps_its_order_all_the_same(target, seed):
    """CPUs, and kernels of warps, here of f32."""
    case = Case("rope", **ONE, query=20, key=40)
    inputs = make_inputs(case, seed, torch.float32).cast(torch.float32)
    want = run(case.uses, inputs, target)
    got = run(case.uses, replace(inputs, deterministic=False), target)
    assert all(torch.equal(want[name], got[name]) for name in want)


def hold_to_one_order(case, seed, monkeypatch):
    """Results of both directions have the same bits whatever the order of threads."""
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    want = run_on_tensor_cores(case, inputs)
    for schedule in range(ORDERS):
        monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed + schedule))
        got = run(case.uses, inputs, TARGET)
        assert all(torch.equal(want[name], got[name]) for name in want), schedule


@pytest.mark.parametrize("tiles", [(20, 100), (20, 300), (90, 200)], ids=str)
@pytest.mark.parametrize("use", [every_form, waves()], ids=["every-form", "columns"])
def test_no_order_of_threads_changes_gradients(use, tiles, seed, monkeypatch):
    """1 x 1, 1 x 3 and 3 x 2 tiles of a backward, with odd edges."""
    query, key = tiles
    case = Case(use, batch=1, heads=2, kv_heads=1, query=query, key=key)
    hold_to_one_order(case, seed, monkeypatch)


@pytest.mark.parametrize("kind", ["batch", "repeated", "random"])
def test_no_order_of_threads_changes_sums_over_positions(kind, seed, monkeypatch):
    case = Case(every_form, batch=1, heads=2, kv_heads=1, query=40, key=200, positions=kind)
    hold_to_one_order(case, seed, monkeypatch)


@pytest.mark.parametrize(
    "use, dim", [("t5_bias", 16), ("fire", 16), (added_forms, 64)], ids=["table", "hinges", "shared-columns"]
)
def test_items_of_a_block_do_not_meet(use, dim, seed, monkeypatch):
    """Without checks a block runs several items, one after the other: a warp that begins the
    next one must not change what another still reads of the last."""
    dims = dict(head_dim=dim, value_dim=dim)
    case = Case(use, batch=2, heads=4, kv_heads=4, query=70, key=100, **dims, before=("causal",))
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    want = run_on_tensor_cores(case, inputs)
    monkeypatch.delenv("SEXTANT_CHECK", raising=False)
    for schedule in range(20):
        monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed + schedule))
        got = run(case.uses, inputs, TARGET)
        assert all(torch.equal(want[name], got[name]) for name in want), schedule


@pytest.mark.parametrize(
    "tiles",
    [(100, 50, 1), (100, 190, 1), (300, 120, 1), (1, 150, 8), (3, 290, 2), (9, 90, 1)],
    ids=str,
)
def test_no_order_of_threads_is_wrong(tiles, seed, monkeypatch):
    """1 x 1, 1 x 3 and 3 x 2 tiles, with odd edges: the same bits, and no race. Likewise of
    few queries, of heads that share keys."""
    query, key, heads = tiles
    case = Case("alibi", batch=1, heads=heads, kv_heads=1, query=query, key=key)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)

    def attend():
        with torch.no_grad():
            return sextant.attention(
                inputs.query, inputs.key, inputs.values[0], case.uses, inputs.params,
                enable_gqa=heads > 1, target=TARGET,
            )

    want = attend()
    for schedule in range(ORDERS):
        monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed + schedule))
        assert torch.equal(want, attend())


def test_approximations_are_drawn(seed, monkeypatch):
    """The same bits for one draw of their errors, in any order of threads, and others for
    another draw."""
    case = Case("causal", **ONE, query=40, key=70)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    results = []
    for draw in (seed, seed, seed + 1):
        monkeypatch.setenv("SEXTANT_ROUNDING", str(draw))
        monkeypatch.setenv("SEXTANT_SCHEDULE", str(len(results)))
        with torch.no_grad():
            tensors = inputs.query, inputs.key, inputs.values[0]
            _, lse = sextant.attention(*tensors, case.uses, target=TARGET, return_lse=True)
        results.append(lse)
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
