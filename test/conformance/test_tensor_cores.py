"""Forward and backward on tensor cores, in the emulator: that they are right at shapes that
leave parts of tiles. Threads run in drawn orders, copies that nobody has waited for are NaN,
and exponentials are off by what a GPU may be off. Which plans have them is in
test_tensor_core_plans.py, what no order of threads changes in test_tensor_core_orders.py."""

from dataclasses import replace

import attention_contract
import pytest
import torch
from attention_contract import launches_on_tensor_cores
from cases import Case, compare, make_inputs
from tensor_core_cases import (
    CHUNKS,
    HOPPER,
    ONE,
    SHAPES,
    TARGET,
    added_forms,
    every_form,
    given_columns,
    grouped,
    hold,
    launches_of,
    near_by_head,
    scaled,
    waves,
)

import sextant

pytestmark = pytest.mark.usefixtures("drawn_threads")
WITHOUT_KEYS = dict(query=129, key=65, label="rows-without-keys")
# Few queries: the keys of a head are split, 4 tiles or more each.
SPLIT = [
    dict(query=1, key=700, label="three-splits"),
    dict(query=3, key=260, heads=4, kv_heads=2, value_dim=40, label="two-splits"),
    dict(query=300, key=290, batch=1, heads=1, kv_heads=1, label="rows-without-keys"),
]
# A row of each has other fragments, tiles or stages.
DIMS = [(64, 48), (128, 128), (256, 256), (80, 192), (9, 31)]


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


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s["label"])
@pytest.mark.parametrize("name", ["causal", "alibi", "t5_bias", "kerple_log", "rope", "fire"])
def test_it_matches_the_reference(name, shape, seed):
    hold(Case(name, **(ONE | shape)), seed, "backward")


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


@sextant.encoding
def of_the_past(
    score,
    at,
    rate: sextant.Param(init=sextant.constant_init(0.5)),
    weights: sextant.Param(32, init=sextant.uniform(-1.0, 1.0)),
    biases: sextant.Param(32, init=sextant.uniform(-1.0, 1.0)),
    units: sextant.Param("heads", 32, init=sextant.uniform(-0.2, 0.2)),
):
    """Units of a logarithm that only the past has: at other keys it is -inf or NaN."""
    near = sextant.log(1.0 - rate * 2.0 * at.offset) / (1.0 + rate * at.query)
    return score + sextant.sum(
        lambda n: units[at.head, n] * sextant.relu(weights[n] * near + biases[n]), 32
    )


@pytest.mark.parametrize("query", [70, 300])
def test_hinges_of_factors_that_hidden_keys_have_not(query, seed):
    """No tile on the diagonal has a finite range, and no hidden score reaches a gradient."""
    case = Case(of_the_past, **ONE, query=query, key=query, before=("causal",))
    hold(case, seed, "backward")


def test_rows_beyond_the_range_of_f16(seed):
    """Mapped rows of some 10^6, which no f16 holds: kernels of warps keep them in f32."""
    case = Case("xpos(scale_base=16)", **ONE, query=350, key=350)
    assert not compare(case, TARGET, torch.float16, seed)


@pytest.mark.parametrize("shape", SPLIT, ids=lambda s: s["label"])
@pytest.mark.parametrize("name", ["causal", "forgetting"])
def test_split_keys(name, shape, seed):
    hold(Case(name, **(ONE | shape)), seed)


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
    """Each warp, or each row of a warp, has one where it has room for its queries, with
    tables, vectors, functions and positions of its own."""
    hold(Case(name, **({"batch": 2} | shape)), seed)


@pytest.mark.parametrize(
    "name, shape, dtype",
    [
        ("causal", grouped(8, 1, 333, head_dim=64, value_dim=48), torch.bfloat16),
        ("window(size=150)", grouped(8, 1, 390, kv_heads=1), torch.float16),
        ("padding", grouped(16, 1, 150, kv_heads=1, head_dim=9, value_dim=31), torch.bfloat16),
        ("t5_bias", grouped(9, 1, 131, kv_heads=1, head_dim=128, value_dim=80), torch.float16),
        (every_form, grouped(4, 2, 97, kv_heads=1, head_dim=24), torch.bfloat16),
        (every_form, grouped(2, 3, 67, head_dim=256, value_dim=256), torch.float16),
        (given_columns, grouped(3, 2, 190), torch.bfloat16),
        ("swin", grouped(8, 1, 30, positions="batch"), torch.bfloat16),
        (large, grouped(5, 1, 35, kv_heads=1), torch.bfloat16),
        ("fire", grouped(1, 2, 290), torch.bfloat16),
        (near_by_head, grouped(1, 8, 300, head_dim=80, value_dim=192), torch.float16),
        ("kerple_log", grouped(1, 9, 160), torch.bfloat16),
        ("rope", grouped(1, 16, 65), torch.float16),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_few_queries(name, shape, dtype, seed):
    """A warp's rows are the queries of heads that share keys, or those of one head, and the
    warps of a block have keys of their own."""
    case = Case(name, **({"batch": 2} | shape))
    inputs = make_inputs(case, seed, dtype).cast(dtype)
    items = launches_of(case, inputs, "forward", "items")
    assert items["attention_0_forward_fragments_of_few"] and not items["attention_0_forward_fragments"]
    hold(case, seed, dtype=dtype)


@pytest.mark.parametrize("batch, joins", [(2, True), (64, False), (65, True)])
def test_heads_that_fill_a_gpu_need_no_splits(batch, joins, seed):
    """128 blocks, of which each fills a multiprocessor, are enough; a few more would keep a
    few multiprocessors busy for as long again, so that they have splits."""
    case = Case("causal", batch=batch, heads=2, kv_heads=2, query=1, key=140, head_dim=64, value_dim=64)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    items = launches_of(case, inputs, "forward", "items")
    assert items["attention_0_forward_fragments_of_few"]
    assert (items["attention_0_forward_join"] > 0) == joins


@pytest.mark.parametrize("key", [33, 333, 1000])
@pytest.mark.parametrize("dim, target", [(64, HOPPER), (80, TARGET), (96, HOPPER), (128, HOPPER)], ids=str)
def test_any_number_of_warps_join(dim, target, key, seed):
    """Eleven, six, seven and five of a block, of which one may find no other to join with."""
    case = Case("alibi", batch=1, heads=4, kv_heads=2, query=1, key=key, head_dim=dim, value_dim=dim)
    inputs = make_inputs(case, seed, torch.bfloat16)
    attention_contract.compare(case.uses, inputs, target, torch.bfloat16, case)


@pytest.mark.parametrize("key", [1, 33, 97, 300, 1000])
def test_warps_that_see_no_key(key, seed):
    """Of few keys, and of a window, most warps of a block have none to see: what they sum up
    is no part of the result, nor are the keys that the mask hides from them."""
    case = Case("window(size=20)", batch=1, heads=2, kv_heads=2, query=1, key=key)
    inputs = make_inputs(case, seed, torch.bfloat16)
    inputs.values[0][..., : max(key - 20, 0), :] = 1e4
    attention_contract.compare(case.uses, inputs, TARGET, torch.bfloat16, case)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("query", [1, 40])
def test_scores_that_rise_along_the_keys(query, dtype, seed):
    """By less than 2^8 in a tile, so that a row's maximum follows them after some tiles only,
    and in another head by more."""
    case = Case("causal", batch=1, heads=2, kv_heads=2, query=query, key=300)
    inputs = make_inputs(case, seed, dtype)
    step = torch.tensor([0.03, 0.9])[:, None, None] * torch.arange(case.key)[:, None]
    key = inputs.key / 8
    key[..., :1] = step / case.head_dim**-0.5 / 8
    inputs.query[..., 0] = 8.0
    inputs = replace(inputs, key=key.to(dtype).double())
    attention_contract.compare(case.uses, inputs, TARGET, dtype, case)


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


@pytest.mark.parametrize(
    "use, shape, target, dtype",
    [
        (added_forms, grouped(2, 70, 150, kv_heads=1, head_dim=64, value_dim=64), TARGET, torch.bfloat16),
        (scaled, dict(query=33, key=131, head_dim=50, value_dim=64), TARGET, torch.float16),
        ("t5_bias", dict(query=70, key=150, head_dim=128, value_dim=128), HOPPER, torch.bfloat16),
        ("rope", grouped(2, 37, 70, kv_heads=1, head_dim=96, value_dim=89), HOPPER, torch.float16),
        ("forgetting", dict(query=90, key=30, head_dim=90, value_dim=96, before=()), HOPPER, torch.bfloat16),
    ],
    ids=["added", "scaled", "table", "rows", "keys"],
)
def test_warps_that_share_columns(use, shape, target, dtype, seed):
    """Of a backward: each has half of a tile's queries, and dV or dK of half of the keys and
    lanes, of P and dS in shared memory."""
    one = dict(batch=1, heads=1, kv_heads=1, before=("causal",))
    case = Case(use, **(one | shape))
    assert "backward" in compare(case, target, dtype, seed)


@pytest.mark.parametrize("key", [64, 65, 66, 67])
@pytest.mark.parametrize("query", [32, 33, 34, 35])
def test_tables_at_lengths(query, key, seed):
    """A part of a table begins at a multiple of four entries whatever the lengths: four come
    by one copy, which the emulator refuses elsewhere."""
    hold(Case("t5_bias", batch=1, heads=2, kv_heads=1, query=query, key=key), seed, "backward")


@pytest.mark.parametrize("kind", ["batch", "repeated", "random"])
@pytest.mark.parametrize("use", ["alibi", "t5_bias", "fire", "rope", "kerple_log", every_form], ids=str)
def test_given_positions(use, kind, seed):
    """Offsets that tables hold, of a row each or of several, and too many for them."""
    case = Case(use, batch=2, heads=2, kv_heads=1, query=29, key=70, positions=kind)
    hold(case, seed, "backward")


@pytest.mark.parametrize(
    "use, shape, target, dtype",
    [
        ("swin", dict(query=40, key=40), TARGET, torch.bfloat16),
        ("swin", grouped(2, 70, 290, kv_heads=1, positions="repeated"), TARGET, torch.float16),
        ("t5_bias", dict(query=70, key=150, head_dim=128, value_dim=128, positions="batch"), HOPPER, torch.bfloat16),
        ("t5_bias", dict(query=70, key=140, head_dim=256, value_dim=256, positions="batch"), TARGET, torch.bfloat16),
        ("kerple_log", dict(query=70, key=140, head_dim=96, value_dim=80, positions="random"), TARGET, torch.bfloat16),
        (added_forms, dict(query=70, key=150, head_dim=64, value_dim=64, positions="batch"), HOPPER, torch.float16),
        ("fire", CHUNKS | dict(positions="repeated"), TARGET, torch.bfloat16),
    ],
    ids=["grid", "tiles", "shared-columns", "split-gradients", "wide", "added", "chunks"],
)
def test_sums_over_given_positions(use, shape, target, dtype, seed):
    """A backward in tiles of other shapes, warps of which have 16 or 32 keys."""
    assert "backward" in compare(Case(use, **(ONE | shape)), target, dtype, seed)


def test_rows_without_keys(seed):
    hold(Case("causal", **(ONE | WITHOUT_KEYS)), seed)


def test_chunks_of_several_tiles(seed):
    hold(Case("kerple_log", **CHUNKS), seed, "backward")


@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_head_dims(dims, seed):
    head_dim, value_dim = dims
    shape = dict(batch=1, heads=1, kv_heads=1, query=70, key=130)
    hold(Case("causal", **shape, head_dim=head_dim, value_dim=value_dim), seed, "backward")


def test_blocks_of_less_shared_memory(seed):
    """A GPU of workstations takes tiles of half as many keys in the backward of these rows."""
    case = Case("t5_bias", **ONE, query=70, key=130, head_dim=128, value_dim=128)
    assert "backward" in compare(case, "cuda-emulated:sm_86", torch.bfloat16, seed)


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
    found = attention_contract.compare(case.uses, inputs, TARGET, torch.bfloat16, case)
    assert found == {"forward", "backward"}
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
    found = attention_contract.compare(case.uses, inputs, TARGET, dtype, case, rounds_params=True)
    assert found == ({"forward", "backward"} if on_cores else set())


@pytest.mark.parametrize("lengths", [(0, 5), (5, 0)], ids=str)
def test_empty_lengths(lengths, seed):
    query, key = lengths
    case = Case("causal", **ONE, query=query, key=key)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    got = attention_contract.run(case.uses, inputs, TARGET)
    assert got["output"].shape == (1, 2, query, 16)
    assert (got["output"] == 0).all() and (got["d key"] == 0).all()


def spread(tensor, step, first):
    """The same numbers, `step` elements apart, behind `first` others of each row."""
    size = step * tensor.shape[-1] + first
    wide = torch.empty(*tensor.shape[:-1], size, dtype=tensor.dtype)
    place = wide[..., first::step]
    return place.copy_(tensor)


@pytest.mark.parametrize("length", [70, 9])  # many queries, and few
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rows_anyhow_in_memory(dtype, length, generator):
    """Rows that copies of 16 bytes cannot take are loaded element by element: the same
    bits in both directions, whatever the strides and the first address, but for those of
    the gradient of the output."""
    *rows, grad = torch.randn(4, 1, 2, length, 24, generator=generator).to(dtype)

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
        # Its products with the output are summed up in another order where loads of 16 bytes
        # cannot take it, which may round a score's gradient the other way.
        hold_rows(*rows, spread(grad, step, first), most=torch.finfo(dtype).eps)
    # One of them alone.
    hold_rows(rows[0], spread(rows[1], 1, 1), rows[2], grad)
