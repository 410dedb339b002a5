"""Decoding with the keys and values of the tokens before."""

import pytest
import torch

import sextant
from sextant.nn import Attention, KeyValueCache


def decode(layer, x, cuts, cache=None, **more):
    """Outputs of x in chunks, which begin at ``cuts``."""
    cache = cache or KeyValueCache(capacity=2)
    parts = []
    with torch.no_grad():
        for first, last in zip((0, *cuts), (*cuts, x.shape[1])):
            here = {name: tensor[..., first:last] for name, tensor in more.items()}
            parts.append(layer(x[:, first:last], cache=cache, **here))
    assert len(cache) == x.shape[1]
    return torch.cat(parts, 1)


@pytest.mark.parametrize("uses", [["rope"], ["alibi", "window(size=5)"], ["t5_bias"], ["cope"]], ids=str)
@pytest.mark.parametrize("cuts", [range(1, 13), (5, 6), ()], ids=["tokens", "chunks", "whole"])
def test_chunks_give_what_the_whole_gives(uses, cuts):
    layer = Attention(24, 4, ["causal", *uses], kv_heads=2)
    x = torch.randn(3, 13, 24)
    with torch.no_grad():
        want = layer(x)
    # Sums over a few keys in another order.
    torch.testing.assert_close(decode(layer, x, cuts), want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", [(13,), (3, 13)], ids=["of all", "of each"])
def test_coordinates_are_kept(shape):
    layer = Attention(24, 4, ["causal", "rope"])
    x = torch.randn(3, 13, 24)
    positions = torch.randint(3, (shape)).cumsum(-1)
    with torch.no_grad():
        want, of_indices = layer(x, positions=positions), layer(x)
    assert not torch.allclose(want, of_indices, atol=1e-3)
    got = decode(layer, x, (4, 5, 9), positions=positions)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_what_is_cropped_is_forgotten():
    layer = Attention(24, 4, ["causal", "rope"])
    x, other = torch.randn(2, 1, 9, 24)
    cache = KeyValueCache()
    with torch.no_grad():
        want = layer(x)
        layer(torch.cat([x[:, :4], other], 1), cache=cache)
        cache.crop(4)
        got = layer(x[:, 4:], cache=cache)
    torch.testing.assert_close(got, want[:, 4:], atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="at most the 9 tokens held, got 10"):
        cache.crop(10)


def test_what_does_not_fit_a_cache():
    layer = Attention(24, 4, ["causal", "rope"])
    cache = KeyValueCache()
    with pytest.raises(RuntimeError, match=r"under torch.no_grad\(\)"):
        layer(torch.randn(2, 3, 24), cache=cache)
    assert len(cache) == 0
    with torch.no_grad():
        layer(torch.randn(2, 3, 24), cache=cache)
        held = r"it holds keys \(2, 4, tokens, 6\) of torch.float32 on cpu, got "
        with pytest.raises(ValueError, match=held + r"\(5, 4, tokens, 6\) of torch.float32"):
            layer(torch.randn(5, 3, 24), cache=cache)
        with pytest.raises(ValueError, match=held + r"\(2, 4, tokens, 6\) of torch.bfloat16"):
            layer.bfloat16()(torch.randn(2, 3, 24, dtype=torch.bfloat16), cache=cache)
        with pytest.raises(ValueError, match="or of none: the cache holds tokens without"):
            layer.float()(torch.randn(2, 3, 24), cache=cache, positions=torch.arange(3))
        with pytest.raises(ValueError, match="nothing"):
            layer(torch.randn(2, 3, 24), cache=cache, given={"nothing": torch.ones(1)})
        with pytest.raises(TypeError, match="cache must be a KeyValueCache, got tuple"):
            layer(torch.randn(2, 3, 24), cache=(cache,))
    assert len(cache) == 3
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        KeyValueCache(capacity=0)


def test_a_cache_without_tokens_serves_any_batch():
    """After a first call that failed, and where all tokens are forgotten."""
    layer = Attention(24, 4, ["causal", "padding"])
    cache = KeyValueCache()
    with torch.no_grad():
        with pytest.raises(ValueError, match="padding.visible"):
            layer(torch.randn(2, 3, 24), cache=cache, positions=torch.arange(3))
        for batch in (5, 1):
            x = torch.randn(batch, 3, 24)
            given = {"padding.visible": torch.ones(batch, 3, dtype=torch.bool)}
            want = layer(x, given=given)
            torch.testing.assert_close(layer(x, given=given, cache=cache), want)
            cache.crop(0)


def test_an_attention_of_one_token_is_its_value():
    layer = sextant.nn.Attention(8, 2, ["causal"])
    x = torch.randn(1, 1, 8)
    with torch.no_grad():
        want = layer.output(layer.value(x))
        torch.testing.assert_close(layer(x, cache=KeyValueCache()), want)
