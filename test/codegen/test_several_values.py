"""Several value operands: the same probabilities applied to each, in one pass."""

import attention_contract
import pytest
import torch
from targets import DTYPES, require

import sextant

SHAPES = [
    # batch, heads, kv heads, queries, keys, head dim, value dims, encodings
    (1, 2, 1, 65, 65, 32, (32, 16), ["causal"]),
    (2, 2, 2, 33, 70, 24, (24, 40, 8), []),
    (1, 4, 2, 129, 129, 64, (64, 64), ["causal", "rope"]),
    (1, 1, 1, 1, 5, 16, (7, 7), ["alibi"]),
]


def drawn(shape, dtype):
    batch, heads, kv_heads, queries, keys, dim, value_dims, _ = shape
    q, k = torch.randn(batch, heads, queries, dim), torch.randn(batch, kv_heads, keys, dim)
    values = [torch.randn(batch, kv_heads, keys, d) for d in value_dims]
    return attention_contract.Inputs.drawn(*(t.to(dtype) for t in (q, k)), [v.to(dtype) for v in values])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s[6])))
def test_equals_one_attention_per_value(shape):
    """The reference: outputs side by side, dq and dk summed, in float64."""
    inputs, encodings = drawn(shape, torch.float64), shape[7]
    got = attention_contract.run(encodings, inputs, "reference")
    q, k, *values = (t.requires_grad_() for t in (inputs.query, inputs.key, *inputs.values))
    how = dict(enable_gqa=True, target="reference")
    wanted = [sextant.attention(q, k, v, encodings, **how) for v in values]
    lse = sextant.attention(q, k, values[0], encodings, return_lse=True, **how)[1]
    gradients = torch.autograd.grad(
        [*wanted, lse], (q, k, *values), [*inputs.output_grads, inputs.lse_grad]
    )
    numbers = range(len(values))
    names = [*(f"output[{i}]" for i in numbers), "lse", "d query", "d key"]
    names += [f"d value[{i}]" for i in numbers]
    assert list(got) == names
    for name, want in zip(names, [*wanted, lse, *gradients]):
        torch.testing.assert_close(got[name], want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s[6])))
@pytest.mark.parametrize("target", DTYPES)
def test_matches_the_reference(target, shape):
    """Tolerance: C7, see numeric_contract.py."""
    require(target)
    dtype = DTYPES[target]
    attention_contract.compare(shape[7], drawn(shape, dtype), target, dtype)


def test_as_warps():
    """On a GPU in f32; narrower types are multiplied on tensor cores."""
    inputs = drawn((1, 2, 1, 33, 40, 24, (24, 40, 8), []), torch.float32)
    attention_contract.compare(["causal"], inputs, "cuda-emulated:sm_80", torch.float32)


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
