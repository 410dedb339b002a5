"""Elements of a parameter, and positions, may lie anywhere in memory: kernels count how far
lanes read apart in 32 bits, so what lies farther apart is read from a copy, and refused by a
program, which copies nothing."""

import pytest
import targets
import torch

import sextant
from sextant import definitions
from sextant.attention_text import AttentionKey, attention_module
from sextant.plans import param_types

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


@sextant.encoding
def of_heads(
    score,
    at,
    lift: sextant.Param("batch", "heads", "key", given=True),
    gate: sextant.Param("batch", "key", given=True),
):
    return score * gate[at.batch, at.key] + lift[at.batch, at.head, at.key]


def program_of(uses, target, dtype, axes=0):
    """The module of a call, whose tensors nobody has looked at."""
    signature = definitions.signature(uses)
    key = AttentionKey(
        dtype,
        16,
        (16,),
        signature.uses,
        param_types(signature, ()),
        signature.definitions,
        axes,
        axes,
    )
    return sextant.compile(attention_module(key), target=target)


@pytest.mark.parametrize("target", [*targets.CPU, "reference"])
def test_heads_far_apart_in_a_program(target, seed):
    torch.manual_seed(seed)
    dtype = torch.float64 if target == "reference" else targets.DTYPES[target]
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    rows = [torch.randn(2, 2, LENGTH, 16, dtype=dtype) for _ in range(3)]
    lift = torch.randn(2, 2, LENGTH, dtype=compute)
    gate = torch.randn(2, LENGTH, dtype=compute)
    names = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16"}
    program = program_of([of_heads], target, names[dtype])
    far = apart(lift, 2**31 - LENGTH, 2**31 // 2 + 3, 1), apart(gate, 2**31 + 7, 1)
    for near, away in zip(
        program.run("forward", [*rows, lift, gate]),
        program.run("forward", [*rows, *far]),
        strict=True,
    ):
        assert torch.equal(near, away)


@pytest.mark.parametrize("target", ["cpu:avx2", "reference"])
def test_lanes_too_far_apart_in_a_program(target):
    dtype = torch.float64 if target == "reference" else torch.float32
    name = "f64" if target == "reference" else "f32"
    rows = [torch.randn(1, 2, LENGTH, 16, dtype=dtype) for _ in range(3)]
    program = program_of([far], target, name)
    lift, pair = torch.randn(LENGTH, dtype=dtype), torch.randn(LENGTH, LENGTH, dtype=dtype)
    message = (
        r"parameter 0 of 'pos.attention' has elements farther from each other than kernels count "
        rf"\({(LENGTH - 1) * STEP} and 2147483647\)"
    )
    with pytest.raises(RuntimeError, match=message):
        program.run("forward", [*rows, apart(lift, STEP), pair])
    with pytest.raises(RuntimeError, match="parameter 1 of"):
        program.run("forward", [*rows, lift, apart(pair, 1, STEP)])
    program = program_of(["alibi"], target, name, axes=1)
    slopes = torch.ones(2, dtype=dtype)
    at = torch.arange(LENGTH, dtype=torch.int32).view(1, LENGTH, 1)
    with pytest.raises(RuntimeError, match="a tensor of key positions has elements farther from each other"):
        program.run("forward", [*rows, slopes, at, apart(at, 1, STEP, 1)])
