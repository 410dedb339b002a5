"""Forward and backward on tensor cores, in the emulator: which plans have them, and that
they are right at shapes that leave parts of tiles. Threads run in drawn orders, copies
that nobody has waited for are NaN, and exponentials are off by what a GPU may be off."""

import json
from dataclasses import replace
from unittest import mock

import attention_contract
import pytest
import torch
from attention_contract import launches_on_tensor_cores, multiplies_on_tensor_cores
from cases import Case, compare, make_inputs

import sextant
from sextant import attention_text, backend, definitions

TARGET = "cuda-emulated:sm_80"
# Tiles of a forward are 128 queries by 64 keys, of a backward 32 queries by 128 keys.
SHAPES = [
    dict(query=1, key=1, label="single"),
    dict(query=1, key=65, heads=4, kv_heads=2, label="decode"),
    dict(query=63, key=63, value_dim=40, label="part-of-a-tile"),
    dict(query=65, key=129, heads=4, kv_heads=2, head_dim=24, value_dim=8, label="grouped"),
]
WITHOUT_KEYS = dict(query=129, key=65, label="rows-without-keys")
# Few queries: the keys of a head are split, 4 tiles or more each.
SPLIT = [
    dict(query=1, key=700, label="three-splits"),
    dict(query=3, key=260, heads=4, kv_heads=2, value_dim=40, label="two-splits"),
    dict(query=300, key=290, batch=1, heads=1, kv_heads=1, label="rows-without-keys"),
]
# A row of each has other fragments, tiles or stages.
DIMS = [(64, 48), (128, 128), (256, 256), (80, 192), (9, 31)]
ONE = dict(batch=1, heads=2, kv_heads=2)
# Orders of threads that are drawn where results must not depend on them.
ORDERS = 40
# Of a backward two chunks of keys, one of two tiles.
CHUNKS = dict(batch=8, heads=16, kv_heads=16, query=9, key=300)
# What scores, or rows behind them, ask for that tensor cores do not compute. A backward
# that has no kernel while its forward has one:
BACKWARD_AS_WARPS = {
    "swin": "tables over given positions",
}
FORWARD_AS_WARPS = {
    "cope": "running sums",
    "dape": "scores of all heads",
    "deberta": "products with tables",
    "shaw": "weighted rows",
    "talking_heads": "scores of all heads",
    "transformer_xl": "rows of offsets",
}


@sextant.encoding
def every_form(
    score,
    at,
    scale: sextant.Param("heads", init=sextant.normal(1.0, 0.2)),
    rows: sextant.Param("heads", 16, init=sextant.normal(0.0, 0.5)),
    columns: sextant.Param(16, init=sextant.normal(0.0, 0.5)),
    steps: sextant.Param("heads", 16, init=sextant.normal(0.0, 0.5)),
):
    """Trained values of a head, over queries, keys and offsets, in a score that does not
    only add them."""
    near = 1 + 0.3 * steps[at.head, at.offset % 16]
    pair = rows[at.head, at.query % 16] * columns[at.key % 16]
    return 3.0 * sextant.tanh(score * scale[at.head] / 3.0) * near + pair


@sextant.encoding
def large(
    score,
    at,
    rate: sextant.Param("heads", init=sextant.normal(0.05, 0.02)),
    steps: sextant.Param("heads", 16, init=sextant.normal(0.0, 0.1)),
    columns: sextant.Param(16, init=sextant.normal(0.0, 0.1)),
):
    """More than 60 operations, not only sums, with trained values over heads, offsets and keys."""
    x = score + steps[at.head, at.offset % 16]
    for step in range(20):
        x = x - rate[at.head] * 0.1 * sextant.maximum(x - 0.1 * step, 0.5 * x)
    return x + columns[at.key % 16] * x


@sextant.mask
def near_by_head(at):
    """Heads see windows of their own, so no tile is hidden from all of them."""
    return at.query - at.key < 3 + 40 * at.head


@sextant.columns("width")
def waves(
    at,
    speed: sextant.Param("width", init=sextant.normal(1.0, 0.3)),
    size: sextant.Param("heads", init=sextant.normal(1.0, 0.3)),
    *,
    width=7,
):
    """Columns of a head for queries, and of all heads for keys, with trained values."""
    i, j = at.coord("query"), at.coord("key")
    return size[at.head] * sextant.cos(i * speed[at.lane]), sextant.sin(j * speed[at.lane])


@sextant.columns("width")
def given_columns(
    at,
    a: sextant.Param("batch", "heads", "query", "width", given=True),
    b: sextant.Param("batch", "kv_heads", "key", "width", given=True),
    *,
    width=9,
):
    """Columns that the call brings, one of each element of the batch and head."""
    return a[at.batch, at.head, at.query_row, at.lane], b[at.batch, at.head, at.key, at.lane]


@pytest.fixture(autouse=True)
def checks(monkeypatch, seed):
    monkeypatch.setenv("SEXTANT_CHECK", "races,memory")
    monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed))
    monkeypatch.setenv("SEXTANT_ROUNDING", str(seed))


def launches_of(case, inputs, direction, what="bytes"):
    """Bytes of the operands of each launch of a direction, or another number, by name."""
    found = {}

    def profile(artifact, function, tensors):
        results, text = artifact.profile(function, tensors)
        if function == direction:
            launches = [e for e in json.loads(text) if e["kind"] == "launch"]
            found.update({e["name"]: e[what] for e in launches})
        return results

    with mock.patch.object(backend.Artifact, "run", profile):
        attention_contract.run(case.uses, inputs, TARGET)
    return found


def hold(case, seed, direction="forward", dtype=torch.bfloat16):
    inputs = make_inputs(case, seed, dtype)
    assert multiplies_on_tensor_cores(case.uses, inputs.cast(dtype), TARGET, direction)
    compare(case, TARGET, dtype, seed)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s["label"])
@pytest.mark.parametrize("name", ["causal", "alibi", "t5_bias", "kerple_log", "rope", "fire"])
def test_it_matches_the_reference(name, shape, seed):
    direction = "forward" if name in BACKWARD_AS_WARPS else "backward"
    hold(Case(name, **(ONE | shape)), seed, direction)


@pytest.mark.parametrize(
    "name, shape",
    [
        ("t5_bias", SHAPES[3]),
        ("rope", SHAPES[1]),
        ("fire", SHAPES[2]),
        (every_form, SHAPES[3]),
        ("forgetting", SPLIT[1]),
        ("kerple_log", dict(query=70, key=150, head_dim=128, value_dim=128)),
        ("causal", dict(query=40, key=70, head_dim=9, value_dim=31)),
    ],
    ids=["table", "rows", "hinges", "every-form", "split", "wide", "odd"],
)
def test_f16(name, shape, seed):
    """The type of elements is a parameter of the kernels: what they do by it, and the
    launches around them. Every encoding in f16: test_warps.py."""
    hold(Case(name, **(ONE | shape)), seed, "backward", torch.float16)


def test_rows_beyond_the_range_of_f16(seed):
    """Mapped rows of some 10^6, which no f16 holds: kernels of warps keep them in f32."""
    case = Case("xpos(scale_base=16)", **ONE, query=350, key=350)
    inputs = make_inputs(case, seed, torch.float16)
    assert not multiplies_on_tensor_cores(case.uses, inputs.cast(torch.float16), TARGET)
    compare(case, TARGET, torch.float16, seed)


@pytest.mark.parametrize("shape", SPLIT, ids=lambda s: s["label"])
@pytest.mark.parametrize("name", ["causal", "forgetting"])
def test_split_keys(name, shape, seed):
    hold(Case(name, **(ONE | shape)), seed)


def grouped(group, query, key, kv_heads=2, **rest):
    return dict(heads=group * kv_heads, kv_heads=kv_heads, query=query, key=key, **rest)


@pytest.mark.parametrize(
    "name, shape",
    [
        ("causal", grouped(16, 1, 65, kv_heads=1)),
        ("alibi", grouped(8, 1, 77)),
        ("t5_bias", grouped(4, 16, 131, value_dim=40)),
        ("kerple_log", grouped(5, 3, 333)),
        ("rope", grouped(2, 7, 67)),
        ("fire", grouped(3, 16, 69, kv_heads=1)),
        ("forgetting", grouped(6, 2, 601, kv_heads=1)),
        ("swin", grouped(3, 5, 30, positions="batch")),
        ("t5_bias", grouped(3, 6, 71, positions="random")),
        (every_form, grouped(4, 9, 97, kv_heads=1)),
        ("alibi", grouped(7, 5, 35, head_dim=256, value_dim=256, kv_heads=1)),
        ("causal", grouped(3, 33, 70)),
        (near_by_head, grouped(3, 5, 300)),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_heads_that_share_keys(name, shape, seed):
    """Each warp has one where it has room for its queries, with tables, vectors, functions
    and positions of its own."""
    hold(Case(name, **({"batch": 2} | shape)), seed)


@pytest.mark.parametrize("group, blocks", [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (8, 2), (16, 4)])
@pytest.mark.parametrize("query", [1, 16, 32])
def test_keys_are_read_once_for_four_heads(group, blocks, query, seed):
    """A work item reads the keys and values of a head once: so many are there."""
    case = Case("alibi", batch=3, **grouped(group, query, 65))
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    items = launches_of(case, inputs, "forward", "items")
    assert items["attention_0_forward_fragments"] == 3 * 2 * blocks
    assert items["attention_0_forward_join"] == 0


def test_few_items_split_more_keys(seed):
    """Heads that share a block are fewer items, so more of them share the keys."""
    splits = []
    for heads, kv_heads in ((64, 64), (64, 16)):
        case = Case("causal", batch=1, heads=heads, kv_heads=kv_heads, query=1, key=2100)
        inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
        items = launches_of(case, inputs, "forward", "items")["attention_0_forward_fragments"]
        splits.append(items // kv_heads)
    assert splits == [4, 9]


@pytest.mark.parametrize(
    "mask, query, blocks", [("causal", 32, 1), ("causal", 33, 4), (near_by_head, 2, 4)]
)
def test_which_heads_share_a_block(mask, query, blocks, seed):
    case = Case(mask, batch=1, **grouped(4, query, 64, kv_heads=1))
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    items = launches_of(case, inputs, "forward", "items")
    assert items["attention_0_forward_fragments"] == blocks


@pytest.mark.parametrize("shape", SHAPES[2:], ids=lambda s: s["label"])
def test_trained_values_of_every_form(shape, seed):
    hold(Case(every_form, **(ONE | shape)), seed, "backward")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", SHAPES[2:], ids=lambda s: s["label"])
def test_a_large_payload(shape, dtype, seed):
    """It stands in a loop over columns, in both directions."""
    hold(Case(large, **(ONE | shape), before=("causal",)), seed, "backward", dtype)


@pytest.mark.parametrize("kind", ["batch", "random"])
def test_a_large_payload_under_positions(kind, seed):
    hold(Case(large, batch=2, heads=2, kv_heads=1, query=29, key=70, positions=kind), seed)


@pytest.mark.parametrize("dims", [(128, 128), (256, 256)], ids=str)
def test_gradients_of_tables_at_head_dims(dims, seed):
    """Blocks of eight warps, and of dV in a pass of its own."""
    head_dim, value_dim = dims
    shape = dict(batch=1, heads=1, kv_heads=1, query=70, key=150)
    hold(Case("t5_bias", **shape, head_dim=head_dim, value_dim=value_dim), seed, "backward")


@pytest.mark.parametrize("key", [64, 65, 66, 67])
@pytest.mark.parametrize("query", [32, 33, 34, 35])
def test_tables_at_lengths(query, key, seed):
    """A part of a table begins at a multiple of four entries whatever the lengths: four come
    by one copy, which the emulator refuses elsewhere."""
    hold(Case("t5_bias", batch=1, heads=2, kv_heads=1, query=query, key=key), seed, "backward")


@pytest.mark.parametrize("kind", ["batch", "random"])
@pytest.mark.parametrize("name", ["alibi", "t5_bias", "fire", "rope"])
def test_given_positions(name, kind, seed):
    """Offsets that tables hold, and too many for them."""
    hold(Case(name, batch=2, heads=2, kv_heads=1, query=29, key=70, positions=kind), seed)


def test_positions_on_a_grid(seed):
    hold(Case("swin", **ONE, query=40, key=40), seed)


def test_rows_without_keys(seed):
    hold(Case("causal", **(ONE | WITHOUT_KEYS)), seed)


def test_chunks_of_several_tiles(seed):
    hold(Case("kerple_log", **CHUNKS), seed, "backward")


@pytest.mark.parametrize(
    "name, shape",
    [
        ("kerple_log", CHUNKS),
        ("rope", SHAPES[3]),
        ("fire", SHAPES[2]),
        (every_form, dict(query=40, key=290, heads=4, kv_heads=2)),
        ("t5_bias", dict(query=70, key=150, head_dim=256, value_dim=256)),
        ("causal", dict(query=40, key=270, head_dim=9, value_dim=31)),
    ],
    ids=["chunks", "rows", "hinges", "every-form", "split-gradients", "odd"],
)
def test_in_any_order(name, shape, seed):
    """Chunks of keys add to the same gradients of queries, without a race."""
    case = Case(name, **(ONE | shape))
    inputs = replace(make_inputs(case, seed, torch.bfloat16), deterministic=False)
    narrow = inputs.cast(torch.bfloat16)
    assert multiplies_on_tensor_cores(case.uses, narrow, TARGET, "backward")
    attention_contract.compare(case.uses, inputs, TARGET, torch.bfloat16, case)


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
    want = attention_contract.run(case.uses, inputs, TARGET)
    free = replace(inputs, deterministic=False)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    for schedule, again in enumerate((inputs, free, inputs, free)):
        monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed + schedule))
        got = attention_contract.run(case.uses, again, TARGET)
        assert all(torch.equal(want[name], got[name]) for name in want)


@pytest.mark.parametrize("target", ["cpu", TARGET])
def test_what_keeps_its_order_all_the_same(target, seed):
    """CPUs, and kernels of warps, here of f32."""
    case = Case("rope", **ONE, query=20, key=40)
    inputs = make_inputs(case, seed, torch.float32).cast(torch.float32)
    want = attention_contract.run(case.uses, inputs, target)
    got = attention_contract.run(case.uses, replace(inputs, deterministic=False), target)
    assert all(torch.equal(want[name], got[name]) for name in want)


@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_head_dims(dims, seed):
    head_dim, value_dim = dims
    shape = dict(batch=1, heads=1, kv_heads=1, query=70, key=130)
    hold(Case("causal", **shape, head_dim=head_dim, value_dim=value_dim), seed, "backward")


@pytest.mark.parametrize("scale", [-0.5, 0.0, 1e-6])
def test_scales(scale, seed):
    """Below some scale, and where it is negative, scores are not kept in units of products."""
    hold(Case("alibi", **ONE, query=40, key=70, scale=scale), seed)


def test_several_values(seed):
    case = Case("causal", **ONE, query=40, key=70)
    inputs = make_inputs(case, seed, torch.bfloat16)
    other = make_inputs(Case("causal", **ONE, query=40, key=70, value_dim=24), seed + 1, torch.bfloat16)
    inputs.values += other.values
    inputs.output_grads += other.output_grads
    with launches_on_tensor_cores() as found:
        attention_contract.run(case.uses, inputs.cast(torch.bfloat16), TARGET)
    assert found == {"forward", "backward"}
    attention_contract.compare(case.uses, inputs, TARGET, torch.bfloat16, case)


COLUMNS = [
    dict(query=1, key=1),
    dict(query=70, key=131, heads=4, kv_heads=2, head_dim=24, value_dim=40),
    dict(query=37, key=150, heads=2, kv_heads=2, head_dim=64, value_dim=64),
    dict(query=33, key=65, heads=3, kv_heads=1, head_dim=120, value_dim=8),
]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", COLUMNS, ids=lambda s: f"{s['query']}x{s['key']}")
@pytest.mark.parametrize(
    "use, others",
    [
        (given_columns(), ()),
        (given_columns(width=33), ("causal", "rope", "t5_bias")),
        (waves(), ("causal",)),
        ("seqpe", ("causal",)),
    ],
    ids=["given", "with-maps", "trained", "seqpe"],
)
def test_columns(use, others, shape, dtype, seed):
    """Columns follow the lanes of queries and keys into the products, their gradients come
    with those of the rows. Columns that are made of positions stay with warps in f16."""
    case = Case(use, **({"batch": 2} | ONE | shape), before=others)
    inputs = make_inputs(case, seed, dtype)
    on_cores = dtype != torch.float16 or others != ("causal",) or use == "seqpe"
    for direction in ("forward", "backward"):
        found = multiplies_on_tensor_cores(case.uses, inputs.cast(dtype), TARGET, direction)
        assert found == on_cores
    attention_contract.compare(case.uses, inputs, TARGET, dtype, case, rounds_params=True)


def test_columns_that_find_no_room():
    """Rows of more than 256 elements, with their columns, stay with warps."""
    case = Case(given_columns(width=65), **ONE, query=5, key=9, head_dim=192)
    inputs = make_inputs(case, 0, torch.bfloat16).cast(torch.bfloat16)
    assert not multiplies_on_tensor_cores(case.uses, inputs, TARGET)


@pytest.mark.parametrize("tiles", [(20, 100), (20, 300), (90, 200)], ids=str)
def test_no_order_of_threads_changes_gradients_of_columns(tiles, seed, monkeypatch):
    query, key = tiles
    case = Case(waves(), batch=1, heads=2, kv_heads=1, query=query, key=key)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    assert multiplies_on_tensor_cores(case.uses, inputs, TARGET, "backward")
    want = attention_contract.run(case.uses, inputs, TARGET)
    for schedule in range(ORDERS):
        monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed + schedule))
        got = attention_contract.run(case.uses, inputs, TARGET)
        assert all(torch.equal(want[name], got[name]) for name in want)


@pytest.mark.parametrize("lengths", [(0, 5), (5, 0)], ids=str)
def test_empty_lengths(lengths, seed):
    query, key = lengths
    case = Case("causal", **ONE, query=query, key=key)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    got = attention_contract.run(case.uses, inputs, TARGET)
    assert got["output"].shape == (1, 2, query, 16)
    assert (got["output"] == 0).all() and (got["d key"] == 0).all()


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


def spread(tensor, step, first):
    """The same numbers, `step` elements apart, behind `first` others of each row."""
    size = step * tensor.shape[-1] + first
    wide = torch.empty(*tensor.shape[:-1], size, dtype=tensor.dtype)
    place = wide[..., first::step]
    return place.copy_(tensor)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rows_anyhow_in_memory(dtype, generator):
    """Rows that copies of 16 bytes cannot take are loaded element by element: the same
    bits in both directions, whatever the strides and the first address."""
    *rows, grad = torch.randn(4, 1, 2, 70, 24, generator=generator).to(dtype)

    def attend(query, key, value, grad):
        leaves = [query.requires_grad_(), key.requires_grad_(), value.requires_grad_()]
        output = sextant.attention(*leaves, ["causal"], target=TARGET)
        return [output.detach(), *torch.autograd.grad(output, leaves, grad)]

    def hold_rows(*tensors, most=0.0):
        got = attend(*(t.detach() for t in tensors))
        for a, b in zip(want, got, strict=True):
            off = (a.float() - b.float()).abs().max()
            assert off <= most * a.float().abs().max()

    with launches_on_tensor_cores() as found:
        want = attend(*rows, grad)
    assert found == {"forward", "backward"}
    for step, first in ((1, 1), (2, 0), (1, 4)):
        hold_rows(*(spread(t, step, first) for t in rows), grad)
        # Products of rows with the output are summed up in another order where elements of
        # the gradient are apart, which may round a score's gradient the other way.
        apart = torch.finfo(dtype).eps if step > 1 else 0.0
        hold_rows(*rows, spread(grad, step, first), most=apart)
    # One of them alone.
    hold_rows(rows[0], spread(rows[1], 1, 1), rows[2], grad)


@pytest.mark.parametrize("tiles", [(20, 100), (20, 300), (90, 200)], ids=str)
def test_no_order_of_threads_changes_gradients(tiles, seed, monkeypatch):
    """1 x 1, 1 x 3 and 3 x 2 tiles of a backward, with odd edges."""
    query, key = tiles
    case = Case(every_form, batch=1, heads=2, kv_heads=1, query=query, key=key)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    assert multiplies_on_tensor_cores(case.uses, inputs, TARGET, "backward")
    want = attention_contract.run(case.uses, inputs, TARGET)
    for schedule in range(ORDERS):
        monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed + schedule))
        got = attention_contract.run(case.uses, inputs, TARGET)
        assert all(torch.equal(want[name], got[name]) for name in want)


@pytest.mark.parametrize("name", ["t5_bias", "fire"])
def test_items_of_a_block_do_not_meet(name, seed, monkeypatch):
    """Without checks a block runs several items, one after the other: a warp that begins the
    next one must not change what another still reads of the last."""
    case = Case(name, batch=2, heads=4, kv_heads=4, query=70, key=100, before=("causal",))
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    assert multiplies_on_tensor_cores(case.uses, inputs, TARGET, "backward")
    want = attention_contract.run(case.uses, inputs, TARGET)
    monkeypatch.delenv("SEXTANT_CHECK", raising=False)
    for schedule in range(20):
        monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed + schedule))
        got = attention_contract.run(case.uses, inputs, TARGET)
        assert all(torch.equal(want[name], got[name]) for name in want), schedule


@pytest.mark.parametrize("tiles", [(100, 50), (100, 190), (300, 120)], ids=str)
def test_no_order_of_threads_is_wrong(tiles, seed, monkeypatch):
    """1 x 1, 1 x 3 and 3 x 2 tiles, with odd edges: the same bits, and no race."""
    query, key = tiles
    case = Case("alibi", batch=1, heads=1, kv_heads=1, query=query, key=key)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)

    def attend():
        with torch.no_grad():
            return sextant.attention(
                inputs.query, inputs.key, inputs.values[0], case.uses, inputs.params, target=TARGET
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
    forward, backward = stays_with_warps(encoding, "bf16")
    assert forward == (encoding in FORWARD_AS_WARPS)
    assert backward == (encoding in FORWARD_AS_WARPS | BACKWARD_AS_WARPS)


@pytest.mark.parametrize("name", ["xpos", "rope", "t5_bias", "dape"])
def test_which_encodings_stay_with_warps_in_f16(name):
    """Those that do in bf16, and one. The README's table has all, which test_readme checks."""
    as_warps = name in FORWARD_AS_WARPS or name == "xpos"
    assert stays_with_warps(name, "f16") == (as_warps, as_warps)
