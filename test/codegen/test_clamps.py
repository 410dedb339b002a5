"""A score between trained bounds, as a traced function and with the op of the math
dialect, against autograd of the formula in float64."""

import pytest
import targets
import torch

import sextant


@sextant.encoding
def bounded(score, at, low: sextant.Param("heads"), high: sextant.Param("heads")):
    return sextant.clamp(score, low[at.head], high[at.head])


WRITTEN = """\
pos.encoding @written {
  %heads = pos.extent heads
  %low = pos.param "low" : tensor<?xf32> dims(%heads)
  %high = pos.param "high" : tensor<?xf32> dims(%heads)
  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %l = pos.read %low[%h] : tensor<?xf32>
    %u = pos.read %high[%h] : tensor<?xf32>
    %c = math.clampf %s to [%l, %u] : f32
    pos.yield %c : f32
  }
}
"""


@pytest.mark.parametrize("use", [bounded, "written"], ids=["traced", "written"])
@pytest.mark.parametrize("target", ["reference", *targets.F32])
def test_gradients_reach_the_bound_that_holds(target, use, search_path):
    search_path({"written": WRITTEN})
    if target != "reference":
        targets.require(target)
    dtype = torch.float64 if target == "reference" else torch.float32
    q, k, v = (torch.randn(2, 3, n, 8, dtype=dtype, requires_grad=True) for n in (9, 21, 21))
    low = torch.tensor([-0.5, -0.1, -2.0], dtype=dtype, requires_grad=True)
    high = torch.tensor([0.2, 0.6, 0.3], dtype=dtype, requires_grad=True)
    leaves = [q, k, v, low, high]
    name = getattr(use, "name", use)
    params = {f"{name}.low": low, f"{name}.high": high}
    out = sextant.attention(q, k, v, [use], params, target=target)
    grad = torch.randn_like(out)
    got = torch.autograd.grad(out, leaves, grad)

    exact = [t.detach().double().requires_grad_() for t in leaves]
    scores = exact[0] @ exact[1].mT / 8**0.5
    low, high = (t[:, None, None] for t in exact[3:])
    scores = torch.minimum(torch.maximum(scores, low), high)
    want = torch.autograd.grad(torch.softmax(scores, -1) @ exact[2], exact, grad.double())
    near = dict(rtol=1e-9, atol=1e-11) if dtype == torch.float64 else dict(rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(mine.double(), theirs, **near)
