"""Every encoding, on every backend, against the reference."""

import pytest
import targets
import torch
from attention_contract import run
from cases import Case, compare, compare_row_map, make_inputs
from threads import threads

import sextant

# Shapes in three groups; those of a group run the same compiled kernel. 300 keys are
# several tiles and chunks of any target, and rescale what was summed before.
AMONG = dict(
    before=("past=causal",),
    after=("near=window(size=9)",),
    head_dim=24,
    value_dim=8,
    scale=0.3,
)
SQUARE = dict(label="square")
LONG = dict(query=300, key=300, batch=1, heads=2, kv_heads=2, label="long")
SHAPES = [
    SQUARE,
    LONG,
    dict(query=34, key=21, label="more-queries"),
    dict(query=1, key=1, batch=1, heads=1, kv_heads=1, label="single"),
    dict(query=1, key=65, label="decode"),
    dict(query=70, key=70, batch=1, heads=2, kv_heads=2, **AMONG, label="among"),
    dict(query=17, key=50, heads=6, kv_heads=2, **AMONG, label="grouped"),
    dict(query=40, key=40, transposed=True, **AMONG, label="transposed"),
    dict(query=21, key=34, positions="batch", label="positions"),
    dict(query=21, key=34, batch=4, positions="divisor", label="positions-of-half-the-batch"),
    dict(query=33, key=33, positions="shared", label="shared-positions"),
    dict(query=29, key=33, positions="random", label="random-positions"),
]
# In f32 units operands of bf16 are converted on the way and all else is the same code:
# these stand for the others there (a plain score, a row map, rows of tables, a network).
REPRESENTATIVES = ["t5_bias", "rope", "shaw", "fire", "dape"]
# Shapes of the first group run the machine code of users, in both directions; what other
# groups have beside it is IR of the same emitters, and compiles quickly.
FIRST_GROUP = 5


def each(shapes):
    """One test per shape."""
    marks = {s["label"]: [pytest.mark.quick_code] for s in SHAPES[FIRST_GROUP:]}
    params = [pytest.param(s, marks=marks.get(s["label"], []), id=s["label"]) for s in shapes]
    return pytest.mark.parametrize("shape", params)


@each(SHAPES)
def test_f32_matches_the_reference(encoding, f32_target, shape, seed):
    compare(Case(encoding, **shape), f32_target, torch.float32, seed)


@each([SQUARE, LONG, *SHAPES[5:8]])
@pytest.mark.parametrize("target", targets.DOT)
def test_bf16_matches_the_reference(encoding, target, shape, seed):
    compare(Case(encoding, **shape), target, torch.bfloat16, seed)


@each([SQUARE, LONG])
def test_bf16_in_tiles(encoding, shape, seed):
    compare(Case(encoding, **shape), targets.runnable(targets.AMX), torch.bfloat16, seed)


@each([LONG, *SHAPES[5:8]])
def test_f32_in_tiles(encoding, shape, seed):
    """Held to what kernels of f32 are, though products are of bf16: of three terms."""
    compare(Case(encoding, **shape), targets.runnable(targets.AMX), torch.float32, seed)


@each([SQUARE, LONG])
@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_bf16_in_f32_units(name, f32_target, shape, seed):
    compare(Case(name, **shape), f32_target, torch.bfloat16, seed)


def hold_masked_rows(encoding, target, seed):
    """C4: a row that sees no key gives zeros, lse of -inf and no gradient."""
    case = Case(encoding, batch=1, heads=2, kv_heads=2, query=9, key=4, **AMONG)
    inputs = make_inputs(case, seed)
    got = run(case.uses, inputs.cast(torch.float32), target)
    hidden = case.query - case.key
    assert (got["output"][:, :, :hidden] == 0).all()
    assert (got["lse"][:, :, :hidden] == -torch.inf).all()
    assert (got["d query"][:, :, :hidden] == 0).all()
    assert not any(t.isnan().any() for t in got.values())


@pytest.mark.quick_code
def test_masked_rows_are_zeros(encoding, f32_target, seed):
    hold_masked_rows(encoding, f32_target, seed)


def same_bits(case, target, dtype, seed, counts):
    inputs = make_inputs(case, seed, dtype).cast(dtype)
    results = []
    for count in counts:
        with threads(count):
            results.append(run(case.uses, inputs, target))
    for other in results[1:]:
        for name, tensor in results[0].items():
            assert torch.equal(tensor, other[name]), name


@pytest.mark.quick_code
def test_results_do_not_depend_on_threads(encoding, f32_target, seed):
    """C9: the same bits from run to run and for any number of threads."""
    case = Case(encoding, query=100, key=100, **AMONG)
    same_bits(case, f32_target, torch.float32, seed, (1, 2, 2, 3))


@pytest.mark.quick_code
@pytest.mark.parametrize("target", targets.DOT)
def test_bf16_does_not_depend_on_threads(encoding, target, seed):
    case = Case(encoding, query=100, key=100, **AMONG)
    same_bits(case, target, torch.bfloat16, seed, (1, 2, 3))


@pytest.mark.parametrize("target", targets.CPU)
@pytest.mark.parametrize("name", ["t5_bias", "shaw", "dape"])
def test_a_thousand_repetitions_give_the_same_bits(name, target, seed):
    """C9, where an order that depends on time would show once in a while."""
    case = Case(name, batch=1, query=100, key=100, **AMONG)
    same_bits(case, target, targets.DTYPES[target], seed, [2] * 1000)


def hold_empty_lengths(encoding, target, seed):
    """Lengths of 0 give empty or zero results, not errors, but where a query would read a
    row of the keys' tensors by its index. Without queries, gradients of keys are zeros."""
    for query, key in ((0, 5), (5, 0), (0, 0)):
        case = Case(encoding, query=query, key=key)
        inputs = make_inputs(case, seed).cast(torch.float32)
        if encoding == "tape" and query > key:
            with pytest.raises(sextant.RuntimeError, match="fewer rows than indices of its query"):
                run(case.uses, inputs, target)
            continue
        got = run(case.uses, inputs, target)
        assert got["output"].shape == (2, 4, query, 16)
        assert (got["output"] == 0).all() and (got["d key"] == 0).all()


def test_empty_lengths(encoding, f32_target, seed):
    hold_empty_lengths(encoding, f32_target, seed)


def test_row_maps_match_the_reference(row_encoding, f32_target, seed):
    compare_row_map(row_encoding, f32_target, seed)
