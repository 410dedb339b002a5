"""What has a row per query of the call, read where queries are fewer or more than keys.

Indices of queries count from the first key, rows of such a parameter from the first
query (`at.query_row`, `pos.tensor_row`): in scores, masks, maps of rows and turns, on
every target, against PyTorch in float64.
"""

import pytest
import targets
import torch
from attention_contract import Inputs, compare

import sextant
from sextant import CompileError

# Queries, keys.
LENGTHS = [(3, 9), (9, 4), (70, 131), (1, 40), (6, 6)]


@sextant.encoding
def gated(score, at, gate: sextant.Param("batch", "query", given=True)):
    return score + gate[at.batch, at.query_row] * at.offset * 0.1


@sextant.mask
def until(at, last: sextant.Param("batch", "query", integer=True)):
    return at.key <= last[at.batch, at.query_row]


@sextant.rows(of="query", group="single")
def scaled(x, at, size: sextant.Param("query", given=True)):
    return x * size[at.tensor_row]


@sextant.turn_rows(of="query", block=2)
def turned(block, row, column, at, angle: sextant.Param("query", given=True)):
    return angle[at.tensor_row] * sextant.to_float(column - row)


def plain(q, k, v, gate, last, size, angle):
    queries, keys = q.shape[2], k.shape[2]
    sine, cosine = angle.sin()[:, None], angle.cos()[:, None]
    x, y = q[..., 0::2], q[..., 1::2]
    q = torch.stack([x * cosine + y * sine, y * cosine - x * sine], -1).flatten(-2)
    scores = (q * size[:, None]) @ k.mT / q.shape[-1] ** 0.5
    index = torch.arange(queries)[:, None] + keys - queries
    offset = torch.arange(keys)[None] - index
    scores = scores + (gate[:, :, None] * offset * 0.1)[:, None]
    seen = torch.arange(keys)[None, None] <= last[:, :, None]
    return torch.softmax(scores.masked_fill(~seen[:, None], -torch.inf), -1) @ v


NAMES = ["gated.gate", "scaled.size", "turned.angle"]
USES = [turned, scaled, gated, until]


def drawn(queries, keys, dtype):
    """Query, key and value, what has a row per query, and the last keys they see."""
    shapes = [(2, 2, queries, 16), (2, 2, keys, 16), (2, 2, keys, 16)]
    operands = [torch.randn(s).to(dtype).double() for s in shapes]
    given = [torch.randn(2, queries), torch.rand(queries) + 0.5, torch.randn(queries)]
    # Every query sees a key, and some see all.
    last = torch.randint(0, keys, (2, queries), dtype=torch.int32)
    return operands, [t.double() for t in given], last


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_rows_of_queries(lengths):
    """Outputs of the reference and the gradients of all that is trained or given in
    floats are those of PyTorch."""
    operands, given, last = drawn(*lengths, torch.float64)

    def call(run):
        leaves = [t.clone().requires_grad_() for t in operands + given]
        out = run(leaves)
        seed = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
        return [out, *torch.autograd.grad(out, leaves, seed)]

    def sextants(leaves):
        params = dict(zip(NAMES, leaves[3:])) | {"until.last": last}
        return sextant.attention(*leaves[:3], USES, params, target="reference")

    def pytorchs(leaves):
        q, k, v, gate, size, angle = leaves
        return plain(q, k, v, gate, last, size, angle)

    for a, b in zip(call(sextants), call(pytorchs)):
        # Sums of a few thousand terms in float64.
        scale = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("target", targets.DTYPES)
def test_kernels(target):
    """Kernels of every target agree with the reference, by the rule of C7."""
    dtype = targets.DTYPES[target]
    for lengths in LENGTHS:
        operands, given, last = drawn(*lengths, dtype)
        params = dict(zip(NAMES, given)) | {"until.last": last}
        inputs = Inputs.drawn(*(t.to(dtype) for t in operands), params)
        compare(USES, inputs, target, dtype, lengths, rounds_params=True)


def test_the_index_of_a_query_is_refused():
    """A dim "query" at the query's index is an error at the line that reads."""
    with pytest.raises(CompileError, match=r"index it with at\.query_row") as info:

        @sextant.mask
        def wrong(at, last: sextant.Param("query", integer=True)):
            return at.key <= last[at.query]

    assert info.value.file == __file__ and info.value.line > 0

    @sextant.rows(of="query", group="single")
    def far(x, at, size: sextant.Param("query", given=True)):
        return x * size[at.row]

    with pytest.raises(CompileError, match=r"pos\.tensor_row self' \(E1\)"):
        sextant.attention(*torch.randn(3, 1, 1, 4, 16), [far], {"far.size": torch.ones(4)})
