"""Forward and backward on tensor cores, in the emulator: which plans have them, and that
they are right at shapes that leave parts of tiles. Threads run in drawn orders, copies
that nobody has waited for are NaN, and exponentials are off by what a GPU may be off."""

import attention_contract
import pytest
import torch
from attention_contract import multiplies_on_tensor_cores
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
    "seqpe": "columns",
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


@pytest.fixture(autouse=True)
def checks(monkeypatch, seed):
    monkeypatch.setenv("SEXTANT_CHECK", "races,memory")
    monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed))
    monkeypatch.setenv("SEXTANT_ROUNDING", str(seed))


def hold(case, seed, direction="forward"):
    inputs = make_inputs(case, seed, torch.bfloat16)
    assert multiplies_on_tensor_cores(
        case.uses, inputs.cast(torch.bfloat16), TARGET, direction
    )
    compare(case, TARGET, torch.bfloat16, seed)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s["label"])
@pytest.mark.parametrize("name", ["causal", "alibi", "t5_bias", "kerple_log", "rope", "fire"])
def test_it_matches_the_reference(name, shape, seed):
    direction = "forward" if name in BACKWARD_AS_WARPS else "backward"
    hold(Case(name, **(ONE | shape)), seed, direction)


@pytest.mark.parametrize("shape", SPLIT, ids=lambda s: s["label"])
@pytest.mark.parametrize("name", ["causal", "forgetting"])
def test_split_keys(name, shape, seed):
    hold(Case(name, **(ONE | shape)), seed)


@pytest.mark.parametrize("shape", SHAPES[2:], ids=lambda s: s["label"])
def test_trained_values_of_every_form(shape, seed):
    hold(Case(every_form, **(ONE | shape)), seed, "backward")


@pytest.mark.parametrize("dims", [(128, 128), (256, 256)], ids=str)
def test_gradients_of_tables_at_head_dims(dims, seed):
    """Blocks of eight warps, and of dV in a pass of its own."""
    head_dim, value_dim = dims
    shape = dict(batch=1, heads=1, kv_heads=1, query=70, key=150)
    hold(Case("t5_bias", **shape, head_dim=head_dim, value_dim=value_dim), seed, "backward")


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


@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_head_dims(dims, seed):
    head_dim, value_dim = dims
    shape = dict(batch=1, heads=1, kv_heads=1, query=70, key=130)
    hold(Case("causal", **shape, head_dim=head_dim, value_dim=value_dim), seed)


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
    assert multiplies_on_tensor_cores(case.uses, inputs.cast(torch.bfloat16), TARGET)
    attention_contract.compare(case.uses, inputs, TARGET, torch.bfloat16, case)


@pytest.mark.parametrize("lengths", [(0, 5), (5, 0)], ids=str)
def test_empty_lengths(lengths, seed):
    query, key = lengths
    case = Case("causal", **ONE, query=query, key=key)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    got = attention_contract.run(case.uses, inputs, TARGET)
    assert got["output"].shape == (1, 2, query, 16)
    assert (got["output"] == 0).all() and (got["d key"] == 0).all()


def test_rows_anyhow_in_memory(generator):
    """Rows that copies of 16 bytes cannot take are loaded element by element: the same
    bits, whatever the strides and the first address."""
    rows = torch.randn(3, 1, 2, 70, 24, generator=generator).bfloat16()

    def attend(query, key, value):
        return sextant.attention(query, key, value, ["causal"], target=TARGET)

    def spread(tensor, step, first):
        wide = torch.empty(*tensor.shape[:-1], step * tensor.shape[-1] + first).bfloat16()
        place = wide[..., first::step]
        return place.copy_(tensor)

    want = attend(*rows)
    for step, first in ((1, 1), (2, 0), (1, 4)):
        assert torch.equal(want, attend(*(spread(t, step, first) for t in rows)))
    # One of them alone.
    assert torch.equal(want, attend(rows[0], spread(rows[1], 1, 1), rows[2]))


@pytest.mark.parametrize("tiles", [(20, 100), (20, 300), (90, 200)], ids=str)
def test_no_order_of_threads_changes_gradients(tiles, seed, monkeypatch):
    """1 x 1, 1 x 3 and 3 x 2 tiles of a backward in ten orders."""
    query, key = tiles
    case = Case(every_form, batch=1, heads=2, kv_heads=1, query=query, key=key)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)
    assert multiplies_on_tensor_cores(case.uses, inputs, TARGET, "backward")
    want = attention_contract.run(case.uses, inputs, TARGET)
    for schedule in range(10):
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
    """1 x 1, 1 x 3 and 3 x 2 tiles in ten orders: the same bits, and no race."""
    query, key = tiles
    case = Case("alibi", batch=1, heads=1, kv_heads=1, query=query, key=key)
    inputs = make_inputs(case, seed, torch.bfloat16).cast(torch.bfloat16)

    def attend():
        with torch.no_grad():
            return sextant.attention(
                inputs.query, inputs.key, inputs.values[0], case.uses, inputs.params, target=TARGET
            )

    want = attend()
    for schedule in range(10):
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


def test_which_encodings_stay_with_warps(encoding):
    """By the kernels of an attention that is given positions only where it needs them."""
    uses = [encoding]
    if definitions.signature(uses).requires_past:
        uses.insert(0, "past=causal")
    found = definitions.signature(uses)
    types = tuple(
        attention_text.ParamType(p.name, p.rank, p.element, p.trained) for p in found.params
    )
    axes = definitions.axes(uses)
    key = attention_text.AttentionKey(
        "bf16",
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

    assert as_warps(backward=False) == (encoding in FORWARD_AS_WARPS)
    backward = FORWARD_AS_WARPS | BACKWARD_AS_WARPS
    assert as_warps(forward=False, backward=True) == (encoding in backward)
