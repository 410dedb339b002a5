"""Products of bf16 on a matrix unit (AMX): the unit and what stands for it elsewhere, and
what the caller finds afterwards. That results are right is held by tests of all targets,
such as conformance/test_encodings.py::test_bf16_in_tiles."""

import pytest
import targets
import torch
from threads import threads

import sextant

pytest.importorskip("sextant._compiler")

BF16 = torch.bfloat16
# batch, heads, kv heads, queries, keys, head dim, value dim
SHAPES = [
    (1, 1, 1, 1, 1, 16, 16),
    (2, 2, 1, 63, 65, 40, 24),
    (1, 4, 2, 129, 129, 64, 64),
    (1, 2, 1, 300, 300, 128, 80),
    (1, 1, 1, 70, 70, 256, 20),
]


def results(shape, uses, target, seed):
    """Log-sum-exp, output, gradients of rows and of parameters."""
    draw = torch.Generator().manual_seed(seed)
    batch, heads, kv_heads, queries, keys, dim, value_dim = shape
    extents = [(heads, queries, dim), (kv_heads, keys, dim), (kv_heads, keys, value_dim)]
    rows = [torch.randn(batch, *e, generator=draw).to(BF16).requires_grad_() for e in extents]
    params = sextant.init_params(uses, heads=heads, head_dim=dim, seed=1, requires_grad=True)
    output, lse = sextant.attention(
        *rows, uses, params, return_lse=True, enable_gqa=True, target=target
    )
    gradient = torch.randn(output.shape, generator=draw).to(BF16)
    trained = [p for p in params.values() if p.requires_grad]
    return [lse, output, *torch.autograd.grad(output, [*rows, *trained], gradient)]


@pytest.mark.parametrize("uses", [[], ["causal", "alibi"], ["causal", "t5_bias"]], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_emulated_unit_does_what_the_real_one_does(shape, uses, seed):
    """Products have the same bits. LLVM fuses other terms of what is around them for other
    vectors: a logarithm is off by its last bit, and one number in some ten thousand is
    rounded to the bf16 beside it (in 2250 draws 32 of 76800 at most)."""
    targets.require(targets.AMX)
    got, want = (results(shape, uses, t, seed) for t in (targets.AMX, targets.EMULATED_AMX))
    torch.testing.assert_close(got[0], want[0], rtol=4e-7, atol=1e-6)
    for a, b in zip(got[1:], want[1:]):
        assert a.dtype != BF16 or (a != b).float().mean() <= 0.005
        torch.testing.assert_close(a, b, rtol=0, atol=2.0**-7 * b.abs().max().item())


def test_threads_do_not_matter(seed):
    """C9."""
    target = targets.runnable(targets.AMX)
    shape = (2, 4, 2, 300, 300, 64, 48)
    first = results(shape, ["causal", "alibi"], target, seed)
    for count in (2, 3, 7):
        with threads(count):
            again = results(shape, ["causal", "alibi"], target, seed)
        assert all(torch.equal(a, b) for a, b in zip(first, again))


def test_tiles_of_the_caller(seed):
    """PyTorch multiplies bf16 on the same unit, in other shapes."""
    targets.require(targets.AMX)
    torch.manual_seed(seed)
    a, b = torch.randn(70, 200).to(BF16), torch.randn(200, 90).to(BF16)
    before = a @ b
    results((1, 2, 2, 100, 100, 64, 64), [], targets.AMX, seed)
    assert torch.equal(a @ b, before)
