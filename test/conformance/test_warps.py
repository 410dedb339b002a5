"""Kernels as warps of a GPU: each lane of a vector is a thread, which an emulator runs as
a fiber. It draws the order of threads between two instructions of the whole warp, and
ends a launch whose threads do not meet at the same one, or that accesses what another
thread or work item stores with no barrier between them, what no operand holds, or what
nobody has stored."""

import pytest
import torch
from attention_contract import Inputs, run
from cases import Case, compare, compare_row_map, make_inputs
from test_encodings import AMONG, LONG, REPRESENTATIVES, hold_empty_lengths, hold_masked_rows
from test_encodings import SHAPES as SHAPES_OF_CPU
from threads import threads

import sextant
from sextant import definitions

TARGET = "cuda-emulated:sm_80"
# All shapes of the CPU's tests, in their three groups, each of which runs the same compiled
# kernels, and more than a tile, which is 70 or 130 rows; of several tiles it is 300 keys.
TILES = dict(query=70, key=130, batch=1, heads=2, kv_heads=1, label="tiles")
SEVERAL_TILES = dict(query=70, key=300, batch=1, heads=2, kv_heads=1, label="several-tiles")
SHAPES = [TILES, *(s for s in SHAPES_OF_CPU if s is not LONG)]


@sextant.encoding
def heads_both_ways(score, at, table: sextant.Param("heads", "heads")):
    """What one head reads as its own, each other one reads at that head."""
    slope = sextant.sum(lambda n: table[at.head, n] - 0.5 * table[n, at.head], 4)
    return score + slope * sextant.exp(-0.1 * abs(at.offset))


@sextant.encoding
def keys_both_ways(score, at, table: sextant.Param(300, 300)):
    return score + table[at.key, 299] - 0.5 * sextant.sum(lambda n: table[n, at.key], 2)


@sextant.encoding
def row_and_place(score, at, table: sextant.Param(270)):
    """The row of one query is the place of another one."""
    return score + sextant.exp(table[at.query]) * sextant.sin(table[at.query_row]) * at.key


@pytest.fixture(autouse=True)
def checks(monkeypatch, seed):
    monkeypatch.setenv("SEXTANT_CHECK", "races,scratch,memory")
    monkeypatch.setenv("SEXTANT_SCHEDULE", str(seed))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s["label"])
def test_warps_match_the_reference(encoding, shape, seed):
    compare(Case(encoding, **shape), TARGET, torch.float32, seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_long_texts_match_the_reference(encoding, dtype, seed, monkeypatch):
    """Checks of memory take most of the time: the shapes above have them."""
    monkeypatch.delenv("SEXTANT_CHECK")
    compare(Case(encoding, **LONG), TARGET, dtype, seed)


@pytest.mark.parametrize("name", REPRESENTATIVES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_several_tiles_match_the_reference(name, dtype, seed):
    compare(Case(name, **SEVERAL_TILES), TARGET, dtype, seed)


@pytest.mark.parametrize("name", REPRESENTATIVES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dims", [(64, 64), (128, 72)], ids=["64", "128-72"])
def test_rows_that_fill_shared_memory(name, dtype, dims, seed):
    """Of rows of 64 a block's working set fills what a warp has of shared memory; with
    longer ones some of it is elsewhere."""
    shape = dict(query=70, key=50, batch=1, heads=2, kv_heads=1)
    case = Case(name, head_dim=dims[0], value_dim=dims[1], **shape)
    compare(case, TARGET, dtype, seed)


def test_rows_too_long_for_tensor_cores(seed):
    """Of more than 256 elements."""
    shape = dict(query=19, key=40, batch=1, heads=2, kv_heads=1)
    case = Case("alibi", **shape, head_dim=264, value_dim=24)
    assert not compare(case, TARGET, torch.bfloat16, seed)


def test_f16_matches_the_reference(encoding, seed):
    compare(Case(encoding, **TILES), TARGET, torch.float16, seed)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s["label"])
def test_bf16_matches_the_reference(encoding, shape, seed):
    found = definitions.signature([encoding])
    # Of one query and one key at one place, turns that are trained change nothing.
    trains_maps = {"query", "key"} <= set(found.operands) and any(p.trained for p in found.params)
    cancels = shape["label"] == "single" and trains_maps
    compare(Case(encoding, **shape), TARGET, torch.bfloat16, seed, cancels=cancels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_row_maps_match_the_reference(row_encoding, dtype, seed):
    compare_row_map(row_encoding, TARGET, seed, dtype)


def test_empty_lengths(encoding, seed):
    hold_empty_lengths(encoding, TARGET, seed)


def test_masked_rows_are_zeros(encoding, seed):
    hold_masked_rows(encoding, TARGET, seed)


@pytest.mark.parametrize("name", REPRESENTATIVES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_results_do_not_depend_on_the_order_of_threads(name, dtype, seed, monkeypatch):
    """C9: the same bits for any number of resident warps, and in any order of threads.
    Without checks a warp runs many work items, with them one."""
    case = Case(name, query=70, key=100, batch=1, **AMONG)
    inputs = make_inputs(case, seed, dtype).cast(dtype)
    want = run(case.uses, inputs, TARGET)
    monkeypatch.delenv("SEXTANT_CHECK")
    for count, schedule in ((1, seed), (2, seed), (3, seed + 1), (1, seed + 2)):
        monkeypatch.setenv("SEXTANT_SCHEDULE", str(schedule))
        with threads(count):
            got = run(case.uses, inputs, TARGET)
        for result, tensor in want.items():
            assert torch.equal(tensor, got[result]), (result, count, schedule)


def lie_at(tensor, kind):
    """The same numbers in memory that no copy of whole words reads as it is, or that all rows
    share."""
    batch, heads, length, dim = tensor.shape
    if kind == "between-words":
        room = tensor.new_empty(tensor.numel() + 1)[1:].view_as(tensor)
    elif kind == "among-others":
        room = tensor.new_empty(batch, 2 * heads, length + 3, dim + 2)[:, ::2, 3:, 1 : dim + 1]
    else:
        room = tensor.new_empty(dim, length, heads, batch).permute(3, 2, 1, 0)
    return room.copy_(tensor)


@pytest.mark.parametrize(
    "name, dtype, kind",
    [
        ("causal", torch.float32, "between-words"),
        ("causal", torch.bfloat16, "between-words"),
        ("rope", torch.bfloat16, "turned"),
        ("rope", torch.float32, "among-others"),
    ],
)
def test_rows_may_lie_anywhere(name, dtype, kind, seed, monkeypatch):
    """A GPU takes words at their multiples only, to which the emulator holds kernels: rows,
    and gradients of outputs, are copied by what fits them."""
    monkeypatch.delenv("SEXTANT_CHECK")  # of which this needs none
    case = Case(name, query=9, key=70, batch=2, heads=2, kv_heads=1)
    inputs = make_inputs(case, seed, dtype).cast(dtype)
    results = []
    for arrange in (lambda t: t, lambda t: lie_at(t, kind)):
        rows = [arrange(t).requires_grad_() for t in (inputs.query, inputs.key, inputs.values[0])]
        output = sextant.attention(*rows, case.uses, inputs.params, enable_gqa=True, target=TARGET)
        ones = arrange(torch.ones_like(output))
        gradients = torch.autograd.grad(output, rows, ones, retain_graph=True)
        spread = torch.autograd.grad(output.sum(), rows)  # of one number
        results.append([output, *gradients, *spread])
    # Sums of words are in another order than those of elements.
    close = {torch.float32: 1e-5, torch.bfloat16: 1e-2}[dtype]
    for got, want in zip(*results):
        torch.testing.assert_close(got, want, atol=close, rtol=close)


@pytest.mark.parametrize("name", REPRESENTATIVES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_forward_alone_gives_the_same(name, dtype, seed):
    """A call that wants no gradient has a kernel of its own, which keeps no statistics."""
    case = Case(name, **TILES)
    inputs = make_inputs(case, seed, dtype).cast(dtype)
    want = run(case.uses, inputs, TARGET)
    rows = inputs.query, inputs.key, inputs.values[0]
    options = dict(return_lse=True, enable_gqa=True, target=TARGET)
    with torch.no_grad():
        output, lse = sextant.attention(*rows, case.uses, inputs.params, **options)
    assert torch.equal(output, want["output"]) and torch.equal(lse, want["lse"])


@pytest.mark.quick_code  # which those of sm_80 are not
@pytest.mark.parametrize("name", ["rope", "t5_bias", "fire", "dape", "cope"])
def test_both_architectures(name, seed):
    """Kernels of both are the same as long as a warp is all that they are written for: a map of
    rows, a table with a gradient, a function of hinges, scores of all heads, and a scan."""
    shape = TILES if name == "rope" else dict(query=9, key=40, batch=1, heads=2, kv_heads=1)
    compare(Case(name, **shape), "cuda-emulated:sm_90a", torch.float32, seed)


@pytest.mark.parametrize(
    "use, lengths, sizes",
    [
        (heads_both_ways, (9, 9), (4, 4)),
        (keys_both_ways, (2, 300), (300, 300)),
        (row_and_place, (260, 270), (270,)),
    ],
    ids=str,
)
def test_items_that_read_one_element(use, lengths, sizes, monkeypatch):
    """Items of a pullback that reach elements of each other have sums of their own."""
    monkeypatch.setenv("SEXTANT_CHECK", "races")
    queries, keys = lengths
    heads = 4 if use is heads_both_ways else 1
    rows = [torch.randn(1, heads, length, 8) for length in (queries, keys, keys)]
    inputs = Inputs.drawn(*rows, {f"{use}.table": 0.1 * torch.randn(sizes)})
    inputs = inputs.cast(torch.float32)
    got, want = (run([use], inputs, target)[f"d {use}.table"] for target in (TARGET, "reference"))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4 * want.abs().max())
