"""Literals of a definition in the float64 reference: the number that is written, to
1e-12, in scores, masks, columns, turns, sums and options, installed and traced."""

import math

import pytest
import torch

import sextant

# No number of f32, each off by about 1e-9 in it.
TENTH, THIRD = 0.1, 1 / 3


@sextant.encoding
def traced(score, at, *, slope=0.1, terms=3):
    low = sextant.sum(lambda k: sextant.cos(sextant.to_float(k) * 0.3), terms)
    return score * 1.1 - slope * abs(at.offset) + low * 0.7


WRITTEN = """\
pos.encoding @written {
  %slope = pos.option "slope" : f32 = 0.1 : f32
  pos.score {
  ^bb0(%s: f32):
    %o = pos.offset
    %n = math.absi %o : i32
    %d = arith.sitofp %n : i32 to f32
    %b = arith.mulf %slope, %d : f32
    %three = "arith.constant"() <{value = 3.0e0 : f32}> : () -> f32
    %tenth = "arith.constant"() <{value = 0.1 : f32}> : () -> f32
    %c = arith.divf %tenth, %three : f32
    %m = arith.mulf %c, %d : f32
    %u = arith.subf %s, %b : f32
    %t = arith.subf %u, %m : f32
    pos.yield %t : f32
  }
}
"""

ALL_HEADS = """\
pos.encoding @vectors {
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %n = pos.extent heads
    %c = arith.constant 0.1 : f32
    %e = arith.index_cast %n : i32 to index
    %v = tensor.splat %c[%e] : tensor<?xf32>
    %t = arith.mulf %s, %v : tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
"""


def drawn():
    return [torch.randn(1, 2, n, 8, dtype=torch.float64) for n in (5, 9, 9)]


def offsets():
    return (torch.arange(9)[None] - torch.arange(5)[:, None] - 4).double()


def compare(uses, change, **settings):
    """The log-sum-exp and the output against the formula in float64."""
    q, k, v = drawn()
    out, lse = sextant.attention(q, k, v, uses, target="reference", return_lse=True, **settings)
    scores = change(q @ k.mT / 8**0.5)
    torch.testing.assert_close(lse, torch.logsumexp(scores, -1), rtol=0, atol=1e-12)
    torch.testing.assert_close(out, torch.softmax(scores, -1) @ v, rtol=0, atol=1e-12)


@pytest.mark.parametrize("slope", [0.1, 0.7, 1e-3])
def test_traced_literals_and_options(slope):
    low = sum(math.cos(k * 0.3) for k in range(3))

    def change(scores):
        return scores * 1.1 - slope * offsets().abs() + low * 0.7

    compare([traced(slope=slope) if slope != 0.1 else traced], change)


@pytest.mark.parametrize("use", ["written", "written(slope=0.1)", "written(slope=0.7)"])
def test_written_literals_and_options(use, tmp_path, monkeypatch):
    """A file: in the pretty and in the generic form."""
    (tmp_path / "written.mlir").write_text(WRITTEN)
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    slope = 0.7 if "0.7" in use else 0.1
    compare([use], lambda s: s - slope * offsets().abs() - 0.1 / 3.0 * offsets().abs())


def test_literals_of_vectors(tmp_path, monkeypatch):
    (tmp_path / "vectors.mlir").write_text(ALL_HEADS)
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    compare(["vectors"], lambda s: s * 0.1)


def test_installed():
    """Soft caps and angles: a literal of rope's base and of its temperature."""
    compare(["softcap(cap=0.3)"], lambda s: 0.3 * torch.tanh(s / 0.3))
    q, k, v = drawn()
    for scaling, factor in (("linear", 1.7), ("none", 1.0)):
        use = f"rope(base=1234.1, scaling={scaling}, factor={factor})" if factor > 1 else "rope(base=1234.1)"
        got = sextant.attention(q, k, v, [use], target="reference")

        def turn(x, first):
            at = (torch.arange(x.shape[2]).double() + first) / factor
            angle = at[:, None] * 1234.1 ** (-2 * torch.arange(4).double() / 8)
            a, b = x[..., :4], x[..., 4:]
            return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

        want = torch.softmax(turn(q, 4) @ turn(k, 0).mT / 8**0.5, -1) @ v
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def test_buckets_do_not_jump():
    """floor(log2(n + 1)) at every n = 2^e - 1, computed with a literal of 1 / log(2)."""

    @sextant.encoding
    def bucketed(score, at, table: sextant.Param(16)):
        inverse = 1.0 / math.log(2.0)
        n = sextant.to_float(abs(at.offset))
        # An ulp of float64 above the power.
        bucket = sextant.floor(sextant.log(n + 1.0) * inverse + 1e-12)
        return score + table[sextant.to_int(bucket)]

    q = torch.zeros(1, 1, 1, 8, dtype=torch.float64)
    table = torch.arange(16).double()
    for exponent in range(1, 12):
        keys = 2**exponent
        k = torch.zeros(1, 1, keys, 8, dtype=torch.float64)
        _, lse = sextant.attention(q, k, k, [bucketed], {"bucketed.table": table}, target="reference", return_lse=True)
        want = torch.logsumexp(torch.log2(torch.arange(keys).double() + 1).add(1e-9).floor(), 0)
        torch.testing.assert_close(lse.flatten()[0], want, rtol=0, atol=1e-12)
