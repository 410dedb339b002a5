"""`sextant.nn.Attention` by hand, and the bounds of parameters."""

import numpy as np
import pytest
import torch

import sextant


def test_module_is_attention_of_its_projections():
    """Queries, keys and values are those of their own projections, heads side by side."""
    layer = sextant.nn.Attention(24, 4, ["causal", "kerple_log"], kv_heads=2, head_dim=6)
    x = torch.randn(3, 11, 24, requires_grad=True)

    def rows(projection, heads):
        y = torch.nn.functional.linear(x, projection.weight, projection.bias)
        return y.unflatten(-1, (heads, 6)).transpose(1, 2)

    query, key, value = rows(layer.query, 4), rows(layer.key, 2), rows(layer.value, 2)
    key, value = (t.repeat_interleave(2, 1) for t in (key, value))
    distance = torch.arange(11)[:, None] - torch.arange(11)
    r1, r2 = (layer.encoding_params()[f"kerple_log.{n}"][:, None, None] for n in ("r1", "r2"))
    bias = (r1 * torch.log1p(r2 * distance.abs())).masked_fill(distance < 0, torch.inf)
    weights = torch.softmax(query @ key.transpose(-1, -2) / 6**0.5 - bias, -1)
    want = layer.output((weights @ value).transpose(1, 2).flatten(2))
    got = layer(x)
    # Sums of 24 products of order 1, and of probabilities.
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    leaves = [x, *layer.parameters()]
    seed = torch.randn_like(want)
    for a, b in zip(torch.autograd.grad(got, leaves, seed), torch.autograd.grad(want, leaves, seed)):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("shape", [(0, 5, 16), (2, 0, 16)])
def test_no_rows_give_no_rows(shape):
    """As of an empty part of a batch; gradients are zeros."""
    layer = sextant.nn.Attention(16, 4, ["causal", "kerple_log"])
    out = layer(torch.randn(shape))
    assert out.shape == shape
    out.sum().backward()
    assert all(not p.grad.any() for p in (layer.query.weight, layer.kerple_log_r1))


def test_projections_may_be_wrapped():
    """As by an adapter of low rank, which has no sizes of its own."""

    class Adapted(torch.nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base, self.by = base, torch.nn.Parameter(torch.zeros(base.out_features))

        def forward(self, x):
            return self.base(x) + self.by

    layer = sextant.nn.Attention(16, 2, ["causal", "rope"], target="reference")
    x = torch.randn(2, 5, 16)
    want = layer(x)
    for name in ("query", "key", "value", "output"):
        setattr(layer, name, Adapted(getattr(layer, name)))
    torch.testing.assert_close(layer(x), want)


def test_sizes_may_be_numbers_of_numpy():
    two = np.int64(2)
    layer = sextant.nn.Attention(8 * two, two, kv_heads=np.int32(1), target="reference")
    assert layer(torch.randn(1, 3, 16)).shape == (1, 3, 16)
    assert type(layer.head_dim) is int and repr(layer).startswith("Attention(\n  heads=2, kv_heads=1")


@pytest.mark.parametrize(
    ("positions", "kind", "message"),
    [
        (torch.arange(10), ValueError,
         r"^positions must be \(length\), .* with length 11 of x, got \(10,\)"),
        (torch.zeros(3, 11, dtype=torch.int32), ValueError, "^the batch of positions must be 1, 2 or"),
        (torch.rand(11), TypeError, "^positions must hold integers"),
        (list(range(11)), TypeError, "^positions must be a tensor, got list"),
        (torch.arange(11, device="meta"), ValueError, "^positions is on meta, x is on cpu"),
    ],
)  # fmt: skip
def test_positions_that_do_not_fit(positions, kind, message):
    layer = sextant.nn.Attention(32, 4, ["causal", "rope"])
    with pytest.raises(kind, match=message):
        layer(torch.randn(2, 11, 32), positions=positions)


def test_the_default_dtype_is_that_of_all_parameters():
    torch.set_default_dtype(torch.float64)
    try:
        layer = sextant.nn.Attention(16, 4, ["causal", "kerple_log"], target="reference")
        assert layer(torch.randn(1, 3, 16)).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_bounds_are_applied_on_both_sides():
    layer = sextant.nn.Attention(16, 4, ["causal", "kerple_power"])
    r1, r2 = layer.kerple_power_r1, layer.kerple_power_r2
    with torch.no_grad():
        r1.copy_(torch.tensor([-1.0, 0.005, 0.5, 7.0]))
        r2.copy_(torch.tensor([-1.0, 1.9, 2.0, 7.0]))
    layer.project_()
    assert torch.equal(r1.data, torch.tensor([0.01, 0.01, 0.5, 7.0]))
    assert torch.equal(r2.data, torch.tensor([0.01, 1.9, 2.0, 2.0]))
