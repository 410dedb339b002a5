"""Sums of products with query rows whose factors vary with the offset: as products
with one row per offset, and term by term where they are none.

Tolerance: C7, see numeric_contract.py.
"""

import attention_contract
import pytest
import sextant
import targets
import torch

SHAPES = [*targets.SHAPES, (2, 2, 2, 200, 131, 128, 32, [])]

# One table for all heads and no addend. `reach` of a factor beyond the offset:
# that of %far varies with the key as well, so its sum stays one of terms.
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
      %t = arith.mulf %f, %z : f32
      pos.yield %t : f32
    } : f32
    %t = arith.addf %s, %y : f32
    pos.yield %t : f32
  }
}
"""


def compare(target, uses, shape, params, scale=1.0):
    if not targets.available(target):
        pytest.skip(f"this machine has no {target}")
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


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s[3:7])))
@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
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


@pytest.mark.parametrize("place", ["offset", "coord key"])
@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_one_table_for_all_heads(target, place, tmp_path, monkeypatch):
    """With factors of the offset, and of the key, whose sum is one of terms."""
    (tmp_path / "shared.mlir").write_text(TEXT.replace("PLACE", place))
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    shape = (2, 4, 2, 90, 100, 24, 16, ["causal"])
    for count in (5, 12):  # unrolled, and a loop
        params = {"shared.w": torch.randn(24, count)}
        compare(target, [f"shared(count={count})"], shape, params)
    two = {"a.w": torch.randn(24, 5), "b.w": torch.randn(24, 9)}
    compare(target, ["a=shared", "b=shared(count=9)"], shape, two)


@pytest.mark.parametrize("threads", [1, 2])
def test_far_offsets(threads):
    """Angles are exact: output of the last rows of a long sequence."""
    torch.set_num_threads(threads)
    shape = (1, 1, 1, 40, 9000, 16, 16, ["causal"])
    compare("cpu:avx512", ["transformer_xl(width=8)"], shape, params_of(shape, 8))


def test_addends_of_other_sizes_are_refused():
    q = torch.randn(1, 2, 12, 16)
    params = params_of((1, 2, 2, 12, 12, 16, 16, []), 6)
    for name in params:
        for wrong in (params[name][:1], params[name][:, :5]):
            with pytest.raises((ValueError, sextant.CompileError, RuntimeError), match=name):
                sextant.attention(q, q, q, ["transformer_xl(width=6)"], {**params, name: wrong})
