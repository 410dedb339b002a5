"""Elements of a parameter, and positions, may lie anywhere in memory: kernels count how far
lanes read apart in 32 bits, so what lies farther apart is read from a copy."""

import pytest
import targets
import torch

import sextant

LENGTH = 70
# Elements apart: all of them lie farther than 32 bits count.
STEP = 2**31 // (LENGTH - 1) + 5


@sextant.encoding
def far(
    score,
    at,
    lift: sextant.Param("key", given=True),
    pair: sextant.Param("query", "key", given=True),
):
    return score + lift[at.key] + sextant.abs(score) * pair[at.query_row, at.key]


def apart(values, *strides):
    """The values, at such strides of memory that is mostly never touched."""
    reach = sum((size - 1) * stride for size, stride in zip(values.shape, strides))
    return reserve(reach + 1, values.dtype).as_strided(values.shape, strides).copy_(values)


def reserve(count, dtype):
    """So many elements, none of which is touched."""
    try:
        return torch.empty(count, dtype=dtype)
    except RuntimeError as error:
        pytest.skip(f"there is no room for {count} elements: {error}")


@pytest.mark.parametrize("target", [*targets.CPU, "reference"])
def test_elements_far_apart(target, seed):
    torch.manual_seed(seed)
    dtype = torch.float64 if target == "reference" else targets.DTYPES[target]
    rows = [torch.randn(1, 2, LENGTH, 16, dtype=dtype, requires_grad=True) for _ in range(3)]
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    lift = torch.randn(LENGTH, dtype=compute)
    pair = torch.randn(LENGTH, LENGTH, dtype=compute)

    def run(lift, pair):
        given = {
            "far.lift": lift.detach().requires_grad_(),
            "far.pair": pair.detach().requires_grad_(),
        }
        out = sextant.attention(*rows, [far], given, target=target)
        leaves = [*rows, *given.values()]
        return [out, *torch.autograd.grad(out, leaves, torch.ones_like(out))]

    expected = run(lift, pair)
    got = run(apart(lift, STEP), apart(pair, 1, STEP))
    for near, away in zip(expected, got, strict=True):
        assert torch.equal(near, away)


@pytest.mark.parametrize("target", ["cpu:avx2", "reference"])
def test_positions_far_apart(target, seed):
    torch.manual_seed(seed)
    rows = [torch.randn(1, 2, LENGTH, 16, dtype=torch.float64) for _ in range(3)]
    if target != "reference":
        rows = [row.float() for row in rows]
    places = torch.randint(0, 500, (1, LENGTH, 1), dtype=torch.int32)

    def run(places):
        return sextant.attention(
            *rows, ["rope", "alibi"], sextant.init_params(["rope", "alibi"], heads=2, head_dim=16, seed=0),
            query_positions=places, key_positions=places, target=target,
        )  # fmt: skip

    assert torch.equal(run(places), run(apart(places, 1, STEP, 1)))


def test_more_elements_than_kernels_count():
    length = 46341  # its square is more than 32 bits hold
    row = torch.empty(1, 1, 1, 16).expand(1, 1, length, 16)
    given = {
        "far.lift": torch.empty(1).expand(length),
        "far.pair": reserve(length * length, torch.float32).view(length, length),
    }
    message = r'parameter "far.pair" \[query, key\] of shape .* has elements 2147488280 apart for one head'
    with pytest.raises(ValueError, match=message):
        sextant.attention(row, row, row, [far], given, target="cpu:avx2")
