"""Sums of rectified units at every head of a score of all heads, as tables of
segments: of hosts, beside and inside such a score. Held to C7 against the sum run unit
by unit by the reference."""

import attention_contract
import pytest
import targets
import torch
from attention_contract import Inputs
from test_hinges import DEFINITION, KEPT, LAYERS

import sextant

# `units` has an argument per head, and knots that all heads share; here it is the
# other way round.
OWN = (
    DEFINITION.replace("@units", "@own")
    .replace('"a" : tensor<?xf32> dims(%n)', '"a" : tensor<?x?xf32> dims(%heads, %n)')
    .replace("pos.read %a[%k] : tensor<?xf32>", "pos.read %a[%h, %k] : tensor<?x?xf32>")
    .replace("pos.read %c[%h]", "pos.read %c[%none]")
)
assert OWN.count("%heads, %n") == 2 and "%a[%h, %k]" in OWN and "%c[%none]" in OWN

# Sums inside the score of all heads itself, at an argument from outside of them: two
# of the same function, one at another head than the other, in a product with scores.
INSIDE = """\
pos.encoding @inside {
  %heads = pos.extent heads
  %n = arith.constant 5 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %a = pos.param "a" : tensor<?xf32> dims(%n) init normal(%zero, %one)
  %b = pos.param "b" : tensor<?xf32> dims(%n) init normal(%zero, %one)
  %w = pos.param "w" : tensor<?x?xf32> dims(%heads, %heads) init normal(%zero, %one)
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %i = pos.index query
    %j = pos.index key
    %if = arith.sitofp %i : i32 to f32
    %jf = arith.sitofp %j : i32 to f32
    %i1 = arith.addf %if, %one : f32
    %j1 = arith.addf %jf, %one : f32
    %x = arith.divf %j1, %i1 : f32
    %f = pos.for_heads () {
      %y = pos.sum to %n {
      ^bb0(%k: i32):
        %ak = pos.read %a[%k] : tensor<?xf32>
        %bk = pos.read %b[%k] : tensor<?xf32>
        %ax = arith.mulf %ak, %x : f32
        %z = arith.addf %ax, %bk : f32
        %r = arith.maximumf %z, %zero : f32
        pos.yield %r : f32
      } : f32
      pos.yield %y : f32
    } : () -> tensor<?xf32>
    %fs = pos.for_heads (%s, %f) {
    ^bb0(%sh: f32, %fh: f32):
      %h = pos.head
      %hf = arith.sitofp %h : i32 to f32
      %xh = arith.subf %x, %hf : f32
      %y = pos.sum to %n {
      ^bb0(%k: i32):
        %ak = pos.read %a[%k] : tensor<?xf32>
        %bk = pos.read %b[%k] : tensor<?xf32>
        %ax = arith.mulf %ak, %xh : f32
        %z = arith.addf %ax, %bk : f32
        %r = arith.maximumf %zero, %z : f32
        pos.yield %r : f32
      } : f32
      %g = math.tanh %y : f32
      %p = arith.mulf %sh, %g : f32
      %q = arith.addf %p, %fh : f32
      pos.yield %q : f32
    } : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    %t = pos.contract %w, %fs : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    %u = arith.addf %s, %t : tensor<?xf32>
    pos.yield %u : tensor<?xf32>
  }
}
"""

# A sum that is only compared has no gradient.
COMPARED = DEFINITION.replace("@units", "@compared").replace(
    "%u = arith.addf %s, %y : f32",
    "%is = arith.cmpf ogt, %y, %zero : f32\n    %m = arith.negf %s : f32\n"
    "    %u = arith.select %is, %s, %m : f32",
)
assert "arith.negf" in COMPARED

HOSTS = ["fire", "fire(hidden=3, activation=leaky_relu, threshold=8.0)",
         "units(hidden=17, leaks=1)", "own", "layers"]  # fmt: skip


@pytest.fixture(autouse=True)
def definitions(search_path):
    search_path({"units": DEFINITION, "kept": KEPT, "layers": LAYERS, "own": OWN,
                 "inside": INSIDE, "compared": COMPARED})  # fmt: skip


def draw(uses, shape, dtype=torch.float32, value_dim=None, positions=None):
    batch, heads, kv_heads, lq, lk, dim = shape
    params = sextant.init_params(uses, heads=heads, head_dim=dim)
    for name in params:
        if name.endswith("layers.a"):  # of each element of the batch
            params[name] = params[name].repeat(batch, 1)
    return Inputs.drawn(
        torch.randn(batch, heads, lq, dim).to(dtype),
        torch.randn(batch, kv_heads, lk, dim).to(dtype),
        torch.randn(batch, kv_heads, lk, value_dim or dim).to(dtype),
        {n: t + 0.2 * torch.randn(t.shape) for n, t in params.items()},
        positions,
    )


def compare(target, uses, shape, **more):
    targets.require(target)
    dtype = targets.DTYPES[target]
    inputs = draw(uses, shape, dtype, **more)
    attention_contract.compare(uses, inputs, target, dtype, uses)


@pytest.mark.parametrize("target, host", targets.in_turn(HOSTS))
def test_hosts(target, host):
    compare(target, ["causal", f"dape({host}, hidden=6)"], (2, 3, 3, 37, 50, 16))


@pytest.mark.parametrize("variant", ["concat", "add_residual"])
def test_other_places_of_hosts(variant):
    uses = [f"dape(fire, hidden=4, variant={variant})"]
    compare("cpu:avx2", uses, (1, 4, 2, 33, 40, 24))


@pytest.mark.parametrize("target, shape", targets.in_turn([
    (1, 2, 2, 1, 1, 16), (2, 4, 2, 1, 129, 32), (2, 1, 1, 65, 65, 16), (1, 3, 1, 63, 65, 40),
    (1, 2, 2, 129, 65, 64),
]), ids=str)  # fmt: skip
def test_shapes(target, shape):
    compare(target, ["causal", "dape(fire, hidden=5)"], shape, value_dim=24)


@pytest.mark.parametrize("target, uses", targets.in_turn([
    ["talking_heads", "fire"], ["fire", "talking_heads"], ["units", "talking_heads", "own"],
    ["softcap(cap=3.0)", "units", "dape(fire, hidden=4)"],
    ["inside"], ["inside", "layers", "window(size=20)"],
]), ids=str)  # fmt: skip
def test_beside_and_inside(target, uses):
    compare(target, ["causal", *uses], (1, 4, 2, 40, 50, 16))


@sextant.mask
def staggered(at):
    """Each head sees one key more than the head before it."""
    return at.key - at.query <= at.head


@pytest.mark.parametrize("target", targets.DTYPES)
def test_masks_that_differ_between_heads(target):
    compare(target, ["dape(units, hidden=5)", staggered], (2, 3, 3, 40, 65, 16))


@pytest.mark.parametrize("target, host", targets.in_turn(["fire", "layers", "units"]))
def test_under_given_positions(target, host):
    steps = torch.randint(1, 5, (2, 60, 1)).cumsum(1).to(torch.int32)
    given = {"query_positions": steps[:, -33:].contiguous(), "key_positions": steps}
    compare(target, ["causal", f"dape({host}, hidden=4)"], (2, 2, 2, 33, 60, 16), positions=given)


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("use", ["dape({}, hidden=6)", "dape({}(leaks=1), hidden=6)"])
def test_rewritten_is_not_rewritten(target, use):
    """By the same kernels, on the same input, both as near to float64."""
    inputs = draw([use.format("units")], (1, 4, 2, 129, 129, 32))
    # Units of the network, which the rewrite leaves alone, on one side of their kinks.
    inputs.params["dape.b1"] += 30.0 * inputs.params["dape.b1"].sign()
    for host in ("units", "kept"):
        inputs.params = {n.replace("units", host): t for n, t in inputs.params.items()}
        uses = ["causal", use.format(host)]
        attention_contract.compare(uses, inputs, target, torch.float32)


def test_a_weight_that_is_not_finite_shows():
    """As in the sum, where 0 times NaN is NaN."""
    uses = ["units", "talking_heads"]
    inputs = draw(uses, (1, 2, 2, 20, 20, 16)).cast(torch.float32)
    inputs.params["units.w"][0, 3] = torch.nan
    values = (inputs.query, inputs.key, inputs.values[0])
    assert sextant.attention(*values, uses, inputs.params, enable_gqa=True).isnan().all()


@pytest.mark.parametrize("uses", [["compared"], ["compared", "talking_heads"]], ids=str)
def test_a_sum_that_is_compared_has_no_gradient(uses):
    inputs = draw(uses, (1, 2, 2, 40, 40, 16)).cast(torch.float32)
    results = attention_contract.run(uses, inputs, "cpu:avx2")
    assert results["d query"].abs().max() > 0
    for name in ("a", "b", "w", "c"):
        gradient = results[f"d compared.{name}"]
        assert torch.equal(gradient, torch.zeros_like(gradient)), name


def test_same_bits_for_any_number_of_threads():
    uses = ["causal", "dape(fire, hidden=5)"]
    inputs = draw(uses, (2, 4, 2, 200, 200, 16)).cast(torch.float32)
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(attention_contract.run(uses, inputs, "cpu"))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(value, other[name]) for name, value in results[0].items())
