"""Sums of products with query rows whose factors vary with the offset: as products
with one row per offset, and term by term where they are none.

Tolerance: C7, see numeric_contract.py.
"""

import attention_contract
import pytest
import targets
import torch
from threads import threads

import sextant

SHAPES = [*targets.SHAPES, (2, 2, 2, 200, 131, 128, 32, [])]

# One table for all heads and no addend; factors on three levels of a term, one of
# which divides. At a key's own place they vary with the key, so that the sum stays
# one of terms.
TEXT = """\
pos.encoding @shared {
  %n = pos.option "count" : i32 = 5 : i32
  %d = pos.extent head_dim
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %w = pos.param "w" : tensor<?x?xf32> dims(%d, %n) init normal(%zero, %one)
  pos.score {
  ^bb0(%s: f32):
    %o = pos.PLACE
    %of = arith.sitofp %o : i32 to f32
    %y = pos.sum to %n {
    ^bb0(%c: i32):
      %step = arith.constant 0.01 : f32
      %first = arith.constant 1 : i32
      %c1 = arith.addi %c, %first : i32
      %cf = arith.sitofp %c1 : i32 to f32
      %speed = arith.mulf %cf, %step : f32
      %angle = arith.mulf %of, %speed : f32
      %f = math.sin %angle : f32
      %z = pos.query_dot %w columns[%c] : tensor<?x?xf32>
      %p = arith.mulf %speed, %z : f32
      %g = arith.mulf %p, %f : f32
      %t = arith.divf %g, %step : f32
      pos.yield %t : f32
    } : f32
    %t = arith.addf %s, %y : f32
    pos.yield %t : f32
  }
}
"""


def compare(target, uses, shape, params, scale=1.0):
    targets.require(target)
    batch, heads, kv_heads, queries, keys, dim, value_dim, masks = shape
    dtype = targets.DTYPES[target]
    tensors = [
        scale * torch.randn(batch, heads, queries, dim),
        torch.randn(batch, kv_heads, keys, dim),
        torch.randn(batch, kv_heads, keys, value_dim),
    ]
    inputs = attention_contract.Inputs.drawn(*(t.to(dtype) for t in tensors), params)
    attention_contract.compare([*masks, *uses], inputs, target, dtype, (uses, shape))


def params_of(shape, width):
    heads, dim = shape[1], shape[5]
    return {
        "transformer_xl.u": torch.randn(heads, dim),
        "transformer_xl.v": torch.randn(heads, dim),
        "transformer_xl.wr": torch.randn(heads * dim, width or heads * dim) / 8,
    }


@pytest.mark.parametrize("target, shape", targets.in_turn(SHAPES, targets.F32), ids=str)
def test_matches_the_reference(target, shape):
    compare(target, ["transformer_xl(width=10)"], shape, params_of(shape, 10))


@pytest.mark.parametrize("target", targets.DTYPES)
def test_a_wide_table(target):
    shape = (1, 2, 2, 70, 70, 48, 40, ["causal"])
    compare(target, ["transformer_xl"], shape, params_of(shape, 0), scale=0.25)


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_beside_a_scan(target):
    """Tiles from the last key to the first."""
    shape = (1, 2, 1, 150, 200, 16, 16, ["causal"])
    params = params_of(shape, 6) | {"cope.table": torch.randn(16, 30)}
    compare(target, ["transformer_xl(width=6)", "cope(positions=30)"], shape, params)


def test_hidden_tiles_between_seen_ones():
    """Documents hide panels and groups anywhere in a tile."""
    shape = (2, 2, 2, 300, 300, 16, 16, ["causal"])
    ids = torch.randint(0, 3, (2, 300), dtype=torch.int32).sort(1).values
    ids[:, 200:] = ids[:, :100]
    params = params_of(shape, 6) | {"document.ids": ids}
    compare("cpu:avx512", ["document", "transformer_xl(width=6)"], shape, params)


# Queries for sums of terms that weigh up to their number: with those of deviation 1 scores
# have deviations up to 60, and what few keys are left in a row turns on the last bits of f32.
SMALL = 1 / 16


# With factors of the offset, and of the key, whose sum is one of terms; unrolled, and
# a loop.
@pytest.mark.parametrize("target, place, count", [
    ("cpu:avx2", "offset", 5), ("cpu:avx512", "offset", 12),
    ("cpu:avx2", "coord key", 12), ("cpu:avx512", "coord key", 5),
])  # fmt: skip
def test_one_table_for_all_heads(target, place, count, search_path):
    search_path({"shared": TEXT.replace("PLACE", place)})
    shape = (2, 4, 2, 90, 100, 24, 16, ["causal"])
    params = {"shared.w": torch.randn(24, count)}
    compare(target, [f"shared(count={count})"], shape, params, scale=SMALL)


@pytest.mark.parametrize("target, place", [("cpu:avx2", "coord key"), ("cpu:avx512", "offset")])
def test_two_tables_for_all_heads(target, place, search_path):
    search_path({"shared": TEXT.replace("PLACE", place)})
    shape = (2, 4, 2, 90, 100, 24, 16, ["causal"])
    params = {"a.w": torch.randn(24, 5), "b.w": torch.randn(24, 9)}
    compare(target, ["a=shared", "b=shared(count=9)"], shape, params, scale=SMALL)


def test_far_offsets():
    """Angles are exact: output of the last rows of a long sequence."""
    shape = (1, 1, 1, 40, 9000, 16, 16, ["causal"])
    with threads(2):
        compare("cpu:avx512", ["transformer_xl(width=8)"], shape, params_of(shape, 8))


def test_addends_of_other_sizes_are_refused():
    q = torch.randn(1, 2, 12, 16)
    params = params_of((1, 2, 2, 12, 12, 16, 16, []), 6)
    for name in params:
        for wrong in (params[name][:1], params[name][:, :5]):
            with pytest.raises((ValueError, sextant.CompileError, RuntimeError), match=name):
                sextant.attention(q, q, q, ["transformer_xl(width=6)"], {**params, name: wrong})


# A row of a table per offset: those before the token, either side of it, one
# matrix of columns per head, with what is added to the query.
TAKEN = """\
pos.encoding @taken {
  %rows = pos.option "rows" : i32 = 4 : i32
  %d = pos.extent head_dim
  %model = pos.extent model
  %heads = pos.extent heads
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = pos.param "e" : tensor<?x?xf32> DIMS init normal(%zero, %one)
  %v = pos.param "v" : tensor<?x?xf32> dims(%heads, %d) init normal(%zero, %one)
  pos.score {
  ^bb0(%s: f32):
    %o = pos.offset
    %none = arith.constant 0 : i32
    %first = arith.constant 1 : i32
    INDEX
    %z = pos.query_dot %e FORM
    %scale = pos.scale
    %y = arith.mulf %z, %scale : f32
    %t = arith.addf %s, %y : f32
    pos.yield %t : f32
  }
}
"""
BACK = "%i = arith.subi %none, %o : i32"
# Of keys less one, which the last query is from the first key.
BOTH = (
    "%k = pos.extent key\n    %most = arith.subi %k, %first : i32\n"
    "    %i = arith.addi %o, %most : i32"
)
DISTANCE = "%i = math.absi %o : i32"
ROWS = ("dims(%rows, %d)", "[%i] : tensor<?x?xf32>")
COLUMNS = ("dims(%d, %rows)", "columns[%i] : tensor<?x?xf32>")
PER_HEAD = ("dims(%model, %rows)", "columns[%i] plus %v : tensor<?x?xf32>, tensor<?x?xf32>")


@pytest.fixture
def taken(search_path):
    def write(index, dims, form):
        text = TAKEN.replace("INDEX", index).replace("DIMS", dims).replace("FORM", form)
        search_path({"taken": text})

    return write


def taken_params(shape, dims, rows):
    heads, dim = shape[1], shape[5]
    sizes = {"%rows": rows, "%d": dim, "%model": heads * dim}
    names = dims.removeprefix("dims(").removesuffix(")").split(", ")
    table = torch.randn(*(sizes[n] for n in names))
    return {"taken.e": table, "taken.v": torch.randn(heads, dim)}


FORMS = {"rows": ROWS, "columns": COLUMNS, "per-head": PER_HEAD}
INDICES = {
    "back": (BACK, (1, 2, 1, 129, 300, 64, 64, ["causal", "window(size=90)"])),
    "both": (BOTH, (2, 4, 2, 63, 65, 24, 40, ["causal"])),
    "distance": (DISTANCE, (1, 2, 2, 65, 40, 16, 16, [])),
}


# Every index with every form, each of either on every target.
OF_TARGETS = [
    (targets.CPU[(i + j) % len(targets.CPU)], index, form)
    for i, index in enumerate(INDICES)
    for j, form in enumerate(FORMS)
]


@pytest.mark.parametrize("target, index, form", OF_TARGETS)
def test_rows_of_a_table(target, index, form, taken):
    text, shape = INDICES[index]
    dims, read = FORMS[form]
    taken(text, dims, read)
    rows = shape[3] + shape[4]
    params = taken_params(shape, dims, rows)
    compare(target, [f"taken(rows={rows})"], shape, params, scale=0.25)


@pytest.mark.parametrize("index", INDICES)
def test_one_row_of_a_table(index, taken):
    taken(INDICES[index][0], *PER_HEAD)
    shape = (1, 1, 1, 1, 1, 16, 16, [])
    params = taken_params(shape, PER_HEAD[0], 1)
    compare("cpu:avx512", ["taken(rows=1)"], shape, params)


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_rows_of_a_table_without_a_mask(target, taken):
    taken(BOTH, *ROWS)
    shape = (1, 2, 2, 200, 131, 40, 32, [])
    # Offsets of queries before the keys begin at 1 - keys; 199 lie beyond 0.
    compare(target, ["taken(rows=330)"], shape, taken_params(shape, ROWS[0], 330), scale=0.25)


def test_beyond_the_table_there_are_no_numbers(taken):
    """Rows of the table end at distance 9: later queries see none, as on the reference;
    with a window that long there is no such offset, and gradients are numbers."""
    taken(BACK, *ROWS)
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 40, 16) for _ in range(3))
    params = taken_params((1, 2, 2, 40, 40, 16), ROWS[0], 10)
    uses = ["causal", "taken(rows=10)"]
    for target in ("reference", "cpu"):
        out = sextant.attention(q, k, v, uses, params, target=target)
        assert out[:, :, :10].isfinite().all()
        assert out[:, :, 10:].isnan().all()
    uses = ["causal", "window(size=10)", "taken(rows=10)"]
    shape = (1, 2, 2, 40, 40, 16, 16, uses[:2])
    compare("cpu:avx512", uses[2:], shape, params)


# Of keys, with every index, one form each.
KEY_FORMS = dict(zip(INDICES, FORMS))


@pytest.mark.parametrize("target, index", targets.in_turn(INDICES), ids=str)
def test_rows_of_a_table_times_keys(target, index, search_path):
    text, shape = INDICES[index]
    dims, read = FORMS[KEY_FORMS[index]]
    text = TAKEN.replace("INDEX", text).replace("DIMS", dims).replace("FORM", read)
    text = text.replace("query_dot", "key_dot").replace("extent heads", "extent kv_heads")
    text = text.replace("%model = pos.extent model\n", "")
    text = text.replace("  %zero", "  %model = arith.muli %heads, %d : i32\n  %zero", 1)
    search_path({"taken": text})
    rows, kv_heads, dim = shape[3] + shape[4], shape[2], shape[5]
    of_keys = (shape[0], kv_heads, *shape[2:])
    params = taken_params(of_keys, dims, rows)
    assert params["taken.v"].shape == (kv_heads, dim)
    compare(target, [f"taken(rows={rows})"], shape, params, scale=0.25)


# Clipped distances of queries and of keys: tiles within the reach, beyond it on one
# side and on both, lengths beside those of tiles, and chunks of several tiles.
CLIPPED_SHAPES = [
    *targets.SHAPES,
    (1, 4, 2, 600, 700, 16, 24, []),
    (2, 2, 2, 300, 331, 40, 16, ["window(size=200)"]),
]


def deberta_params(shape, reach):
    heads, kv_heads, dim = shape[1], shape[2], shape[5]
    tables = (torch.randn(count * dim, 2 * reach) / 2 for count in (heads, kv_heads))
    return dict(zip(("deberta.kr", "deberta.qr"), tables))


@pytest.mark.parametrize("target, shape", targets.in_turn(CLIPPED_SHAPES), ids=str)
def test_clipped_distances(target, shape):
    compare(target, ["deberta(reach=70)"], shape, deberta_params(shape, 70))


@pytest.mark.parametrize("target", targets.F32)
def test_clipped_distances_beside_a_scan(target):
    shape = (1, 2, 1, 200, 200, 16, 16, ["causal"])
    params = deberta_params(shape, 66) | {"cope.table": torch.randn(16, 30)}
    compare(target, ["deberta(reach=66)", "cope(positions=30)"], shape, params)


def test_turned_queries_have_no_rows_of_offsets(taken):
    taken(BACK, *ROWS)
    q = torch.randn(1, 2, 4, 16)
    params = taken_params((1, 2, 2, 4, 4, 16), ROWS[0], 8)
    uses = ["causal", "liere(axes=1)", "taken(rows=8)"]
    params |= sextant.init_params(["liere(axes=1)"], heads=2, head_dim=16)
    with pytest.raises(sextant.CompileError, match=r"query row that turns \(T2\)"):
        sextant.attention(q, q, q, uses, params)
    del params["taken.e"], params["taken.v"]
    uses = ["causal", "liere(axes=1)", "transformer_xl(width=6)"]
    params |= params_of((1, 2, 2, 4, 4, 16), 6)
    with pytest.raises(sextant.CompileError, match=r"query row that turns \(T2\)"):
        sextant.attention(q, q, q, uses, params)
