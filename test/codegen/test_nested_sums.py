"""A sum in a sum whose terms use the outer index, as loops and written out."""

import pytest
import torch

import sextant
from sextant import definitions
from sextant.attention_text import AttentionKey, attention_module
from sextant.plans import param_types

DEFINITION = """\
pos.encoding @waves_of_waves {
  %n = pos.option "terms" : i32 = 9 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %w = pos.param "w" : tensor<?x?xf32> dims(%n, %n) init normal(%zero, %one)
  pos.score {
  ^bb0(%s: f32):
    %y = pos.sum to %n {
    ^bb0(%a: i32):
      %af = arith.sitofp %a : i32 to f32
      %x = arith.mulf %s, %af : f32
      %z = pos.sum to %n {
      ^bb0(%b: i32):
        %c = pos.read %w[%a, %b] : tensor<?x?xf32>
        %t = math.tanh %x : f32
        %ct = arith.mulf %c, %t : f32
        pos.yield %ct : f32
      } : f32
      pos.yield %z : f32
    } : f32
    %t = arith.addf %s, %y : f32
    pos.yield %t : f32
  }
}
"""


# Both sums written out, the inner one, none.
@pytest.mark.parametrize("terms", [2, 3, 9])
@pytest.mark.parametrize("target", ["reference", "cpu:avx2", "cpu:avx512"])
def test_matches_plain_torch(target, terms, search_path):
    search_path({"waves_of_waves": DEFINITION})
    dtype = torch.float64 if target == "reference" else torch.float32
    q, k, v = (torch.randn(1, 2, 21, 16, dtype=dtype).requires_grad_() for _ in range(3))
    w = (0.1 * torch.randn(terms, terms, dtype=dtype)).requires_grad_()
    got = sextant.attention(
        q, k, v, [f"waves_of_waves(terms={terms})"], {"waves_of_waves.w": w}, target=target
    )
    exact = [t.detach().double().requires_grad_() for t in (q, k, v, w)]
    s = exact[0] @ exact[1].transpose(-1, -2) / 4
    a = torch.arange(terms, dtype=torch.float64)
    waves = torch.tanh(s[..., None] * a) @ exact[3].sum(1)
    want = torch.softmax(s + waves, -1) @ exact[2]
    seed = torch.randn(want.shape, dtype=torch.float64)
    gradients = torch.autograd.grad(got, (q, k, v, w), seed.to(dtype))
    wanted = torch.autograd.grad(want, exact, seed)
    # Some 100 terms of size 1, rounded in f32; float64 rounding in the reference.
    tolerance = 1e-10 if target == "reference" else 1e-4
    for a, b in zip([got, *gradients], [want, *wanted]):
        assert (a.double() - b).abs().max() <= tolerance * max(1.0, float(b.detach().abs().max()))


@pytest.mark.parametrize("target", ["cpu:avx2", "cuda-emulated:sm_80"])
def test_terms_of_all_sums_together_are_few(target, search_path):
    """A pullback writes the terms for each point of a tile: 8 times 8 of them would take
    minutes to compile."""
    search_path({"waves_of_waves": DEFINITION})

    def count_lines(terms):
        signature = definitions.signature([f"waves_of_waves(terms={terms})"])
        types = param_types(signature, ("waves_of_waves.w",))
        key = AttentionKey("f32", 16, (16,), signature.uses, types, signature.definitions)
        text = attention_module(key, forward=False, backward=True)
        return sextant.emit(text, "kernel", target=target).count("\n")

    assert count_lines(8) < 2 * count_lines(9)
