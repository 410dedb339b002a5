"""Several value operands: the same probabilities applied to each, in one pass."""

import pytest
import sextant
import torch

# f32 and bf16 sums of up to 129 terms of size 1, relative to the largest element.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6, torch.bfloat16: 2e-2}
TARGETS = {
    "reference": torch.float64,
    "cpu:avx2": torch.float32,
    "cpu:avx512": torch.float32,
    "cpu:avx512bf16": torch.bfloat16,
}
SHAPES = [
    # batch, heads, kv heads, queries, keys, head dim, value dims, encodings
    (1, 2, 1, 65, 65, 32, (32, 16), ["causal"]),
    (2, 2, 2, 33, 70, 24, (24, 40, 8), []),
    (1, 4, 2, 129, 129, 64, (64, 64), ["causal", "rope"]),
    (1, 1, 1, 1, 5, 16, (7, 7), ["alibi"]),
]


def _separately(q, k, values, encodings):
    """One attention per value, in float64."""
    return [sextant.attention(q, k, v, encodings, target="reference") for v in values]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s[6])))
@pytest.mark.parametrize("target", TARGETS)
def test_equals_one_attention_per_value(target, shape):
    dtype = TARGETS[target]
    batch, heads, kv_heads, queries, keys, dim, value_dims, encodings = shape
    tensors = [torch.randn(batch, heads, queries, dim), torch.randn(batch, kv_heads, keys, dim)]
    tensors += [torch.randn(batch, kv_heads, keys, d) for d in value_dims]
    given = [t.to(dtype).requires_grad_() for t in tensors]
    exact = [t.detach().double().requires_grad_() for t in given]
    outputs = sextant.attention(given[0], given[1], given[2:], encodings, target=target)
    assert isinstance(outputs, tuple) and len(outputs) == len(value_dims)
    wanted = _separately(exact[0], exact[1], exact[2:], encodings)
    seeds = [torch.randn(o.shape).to(dtype) for o in outputs]
    gradients = torch.autograd.grad(outputs, given, seeds)
    exact_gradients = torch.autograd.grad(wanted, exact, [s.double() for s in seeds])
    for got, want in zip([*outputs, *gradients], [*wanted, *exact_gradients]):
        assert got.shape == want.shape and got.dtype == dtype
        error = (got.double() - want).abs().max() / want.abs().max()
        assert error <= TOLERANCE[dtype], error


def test_one_of_the_outputs_is_not_used():
    q, k, v, z = (torch.randn(1, 2, 9, 16).requires_grad_() for _ in range(4))
    (first, _), lse = sextant.attention(q, k, (v, z), ["causal"], return_lse=True)
    assert lse.shape == (1, 2, 9)
    dz = torch.autograd.grad(first.sum(), (v, z), allow_unused=True)[1]
    assert dz is None or not dz.any()


def test_strided_values_are_read_in_place_or_copied():
    q, k = torch.randn(1, 2, 40, 16), torch.randn(1, 2, 40, 16)
    both = torch.randn(1, 40, 2, 24).transpose(1, 2)
    v, z = both[..., :16], both[..., 16:]
    got = sextant.attention(q, k, (v, z), ["causal"])
    want = [sextant.attention(q, k, t.contiguous(), ["causal"]) for t in (v, z)]
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_torch_compile_sees_one_graph():
    def model(q, k, v, z):
        o, y = sextant.attention(q, k, (v, z), ["causal"])
        return o.sum() + (y * y).sum()

    tensors = [torch.randn(1, 2, 17, 16).requires_grad_() for _ in range(4)]
    want = torch.autograd.grad(model(*tensors), tensors)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for a, b in zip(torch.autograd.grad(compiled(*tensors), tensors), want):
        torch.testing.assert_close(a, b)


def test_errors_name_the_value():
    q, k, v = (torch.randn(1, 2, 9, 16) for _ in range(3))
    with pytest.raises(ValueError, match=r"key has length 9, value\[1\] has length 8"):
        sextant.attention(q, k, (v, v[:, :, :8]))
    with pytest.raises(ValueError, match="at least one tensor"):
        sextant.attention(q, k, ())
    with pytest.raises(TypeError, match=r"value\[1\] must be a tensor, got int"):
        sextant.attention(q, k, (v, 3))
    with pytest.raises(TypeError, match=r"value\[1\] is torch.float64"):
        sextant.attention(q, k, (v, v.double()))
