"""Sums of rectified units as tables of segments: values and every gradient, held to
C7 against the sum run unit by unit by the reference."""

import attention_contract
import pytest
import targets
import torch
from attention_contract import Inputs
from threads import threads

import sextant

# One scalar of query and key (a ratio, so that no table over offsets holds it), units
# whose coefficients are read in different ways, a factor per head, and two sums.
DEFINITION = """\
pos.encoding @units {
  %n = pos.option "hidden" : i32 = 32 : i32
  %leaks = pos.option "leaks" : i32 = 0 : i32
  %heads = pos.extent heads
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %leak = arith.constant 0.25 : f32
  %none = arith.constant 0 : i32
  %scaled = arith.cmpi ne, %leaks, %none : i32
  %a = pos.param "a" : tensor<?xf32> dims(%n) init normal(%zero, %one)
  %b = pos.param "b" : tensor<?xf32> dims(%n) init normal(%zero, %one)
  %w = pos.param "w" : tensor<?x?xf32> dims(%heads, %n) init normal(%zero, %one)
  %c = pos.param "c" : tensor<?xf32> dims(%heads) init constant(%one)
  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %i = pos.index query
    %d = pos.offset
    %df = arith.sitofp %d : i32 to f32
    %if = arith.sitofp %i : i32 to f32
    %far = arith.addf %if, %one : f32
    %ch = pos.read %c[%h] : tensor<?xf32>
    %dc = arith.mulf %ch, %df : f32
    %x = arith.divf %dc, %far : f32
    %y = pos.sum to %n {
    ^bb0(%k: i32):
      %ak = pos.read %a[%k] : tensor<?xf32>
      %bk = pos.read %b[%k] : tensor<?xf32>
      %wk = pos.read %w[%h, %k] : tensor<?x?xf32>
      %ax = arith.mulf %ak, %x : f32
      %z = arith.addf %ax, %bk : f32
      %lz = arith.mulf %leak, %z : f32
      %floor = arith.select %scaled, %lz, %zero : f32
      %r = arith.maximumf %z, %floor : f32
      %t = arith.mulf %wk, %r : f32
      pos.yield %t : f32
    } : f32
    %u = arith.addf %s, %y : f32
    pos.yield %u : f32
  }
}
"""

# The same, but of another op than a maximum, so that it stays a sum.
KEPT = DEFINITION.replace("@units", "@kept").replace(
    "%r = arith.maximumf %z, %floor : f32",
    "%is = arith.cmpf ogt, %z, %floor : f32\n      %r = arith.select %is, %z, %floor : f32",
)
assert KEPT.count("select") == 2

# A layer of a layer. Coefficients vary with the batch and with what is known per call.
LAYERS = """\
pos.encoding @layers {
  %n = pos.option "hidden" : i32 = 9 : i32
  %heads = pos.extent heads
  %batch = pos.extent batch
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %a = pos.param "a" : tensor<?x?xf32> dims(%batch, %n) init normal(%zero, %one)
  %b = pos.param "b" : tensor<?xf32> dims(%n) init normal(%zero, %one)
  %c = pos.param "c" : tensor<?x?xf32> dims(%n, %heads) init normal(%zero, %one)
  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %t = pos.batch
    %last = pos.bound greatest key
    %lastf = arith.sitofp %last : i32 to f32
    %far = arith.addf %lastf, %one : f32
    %i = pos.coord query
    %j = pos.coord key
    %if = arith.sitofp %i : i32 to f32
    %jf = arith.sitofp %j : i32 to f32
    %ir = arith.divf %if, %far : f32
    %p = arith.mulf %ir, %jf : f32
    %x = pos.sum to %n {
    ^bb0(%k: i32):
      %ak = pos.read %a[%t, %k] : tensor<?x?xf32>
      %bk = pos.read %b[%k] : tensor<?xf32>
      %slope = arith.divf %ak, %far : f32
      %px = arith.mulf %slope, %p : f32
      %r = arith.maximumf %bk, %px : f32
      pos.yield %r : f32
    } : f32
    %y = pos.sum to %n {
    ^bb0(%k: i32):
      %bk = pos.read %b[%k] : tensor<?xf32>
      %ck = pos.read %c[%k, %h] : tensor<?x?xf32>
      %cx = arith.mulf %ck, %x : f32
      %z = arith.subf %bk, %cx : f32
      %r = arith.maximumf %zero, %z : f32
      pos.yield %r : f32
    } : f32
    %u = arith.addf %s, %y : f32
    pos.yield %u : f32
  }
}
"""

# What the parameters are: breakpoints outside of x, units without one, equal ones,
# descending units, a breakpoint that points lie on.
KINDS = ["random", "outside", "no_slope", "equal", "falling", "on_points", "large"]


def parameters(kind, heads, hidden):
    a, b = torch.randn(hidden), torch.randn(hidden)
    w, c = torch.randn(heads, hidden) / hidden**0.5, 0.5 + torch.rand(heads)
    if kind == "outside":
        b = torch.sign(b) * (5 + b.abs())
    elif kind == "no_slope":
        a[::2] = 0
    elif kind == "equal":
        a, b = a.sign(), 0.5 * torch.ones(hidden)
    elif kind == "falling":
        a = -a.abs()
    elif kind == "on_points":
        b[::2] = 0  # x is 0 on the diagonal
    elif kind == "large":
        w *= 20
    return {"units.a": a, "units.b": b, "units.w": w, "units.c": c}


@pytest.fixture(autouse=True)
def definition(search_path):
    search_path({"units": DEFINITION, "kept": KEPT, "layers": LAYERS})


def draw(params, shape, dtype=torch.float32, value_dim=None, **more):
    batch, heads, kv_heads, lq, lk, dim = shape
    return Inputs.drawn(
        torch.randn(batch, heads, lq, dim).to(dtype),
        torch.randn(batch, kv_heads, lk, dim).to(dtype),
        torch.randn(batch, kv_heads, lk, value_dim or dim).to(dtype),
        params,
        **more,
    )


def compare(target, params, use="units", before=(), after=(), shape=(1, 2, 2, 65, 65, 16), **more):
    dtype = targets.DTYPES[target]
    uses = [*before, use, *after]
    inputs = draw(params, shape, dtype, **more)
    attention_contract.compare(uses, inputs, target, dtype, uses)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", targets.CPU)
def test_equals_the_sum(target, kind):
    compare(target, parameters(kind, 2, 32), before=["causal"])


@pytest.mark.parametrize(
    "target, units", targets.in_turn([(1, 0), (3, 1), (16, 0), (17, 1), (100, 0), (9, 1)])
)
def test_any_number_of_units(target, units):
    hidden, leaks = units
    use = f"units(hidden={hidden}, leaks={leaks})"
    compare(target, parameters("random", 2, hidden), use, shape=(2, 2, 2, 37, 50, 16))


@pytest.mark.parametrize("target", targets.DTYPES)
def test_among_others(target):
    """Grouped queries, a window, a soft cap before and after, a second table."""
    params = parameters("random", 4, 32)
    compare(target, params, before=["causal"], after=["window(size=20)"],
            shape=(2, 4, 2, 50, 70, 24))  # fmt: skip
    compare(target, params, before=["softcap(cap=3.0)"], after=["cap2=softcap(cap=5.0)"],
            shape=(1, 4, 2, 33, 40, 16))  # fmt: skip


@pytest.mark.parametrize("target", targets.DTYPES)
def test_among_documents(target):
    params = parameters("random", 2, 32)
    params["document.ids"] = torch.randint(0, 2, (2, 70)).cumsum(1).div(20, rounding_mode="floor").int()
    compare(target, params, before=["causal", "document"], shape=(2, 2, 2, 70, 70, 16),
            value_dim=40)  # fmt: skip


@pytest.mark.parametrize("target", targets.DTYPES)
def test_before_a_scan(target):
    """The backward goes over the tiles twice."""
    params = parameters("random", 2, 32)
    params["cope.table"] = torch.randn(16, 8)
    compare(target, params, before=["causal"], after=["cope(positions=8)"],
            shape=(1, 2, 1, 70, 70, 16))  # fmt: skip


@pytest.mark.parametrize("target", targets.DTYPES)
@pytest.mark.parametrize("given", [False, True], ids=["index", "positions"])
def test_a_layer_of_a_layer(target, given):
    steps = torch.randint(1, 5, (2, 80, 1)).cumsum(1).to(torch.int32)
    positions = {"query_positions": steps[:, -65:].contiguous(), "key_positions": steps}
    params = {"a": torch.randn(2, 9), "b": torch.randn(9), "c": torch.randn(9, 2) / 3}
    compare(target, {f"layers.{n}": t for n, t in params.items()}, "layers",
            shape=(2, 2, 2, 65, 80, 16), positions=positions if given else None)  # fmt: skip


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("leaks", [0, 1])
def test_rewritten_is_not_rewritten(target, leaks):
    """By the same kernels, on the same input, both as near to float64."""
    params = parameters("random", 4, 32)
    inputs = draw(params, (1, 4, 2, 129, 129, 32))
    for name in ("units", "kept"):
        inputs.params = {f"{name}.{n.partition('.')[2]}": t for n, t in inputs.params.items()}
        uses = ["causal", f"{name}(leaks={leaks})"]
        attention_contract.compare(uses, inputs, target, torch.float32)


@pytest.mark.parametrize("target", targets.DTYPES)
def test_under_given_positions(target):
    steps = torch.randint(1, 5, (2, 60, 1)).cumsum(1).to(torch.int32)
    given = {"query_positions": steps[:, -33:].contiguous(), "key_positions": steps}
    compare(target, parameters("random", 2, 32), shape=(2, 2, 2, 33, 60, 16), positions=given)


def test_a_weight_that_is_not_finite_shows():
    """As in the sum, where 0 times NaN is NaN."""
    params = parameters("random", 2, 32)
    params["units.w"][0, 3] = torch.nan
    q = torch.randn(1, 2, 20, 16)
    output = sextant.attention(q, q, q, ["units"], params)
    assert output[:, 0].isnan().all() and not output[:, 1].isnan().any()


def test_same_bits_from_run_to_run():
    q = torch.randn(1, 4, 200, 16)
    params = parameters("random", 4, 32)
    results = []
    for count in (1, 2, 3):
        leaves = [t.clone().requires_grad_() for t in (q, *params.values())]
        named = dict(zip(params, leaves[1:]))
        with threads(count):
            output = sextant.attention(leaves[0], q, q, ["causal", "units"], named)
            results.append(torch.autograd.grad(output.square().sum(), leaves))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other))
