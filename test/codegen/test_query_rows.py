"""What has a row per query of the call, read where queries are fewer or more than keys.

Indices of queries count from the first key, rows of such a parameter from the first
query (`at.query_row`, `pos.tensor_row`): in scores, masks, maps of rows and turns, on
every target, against PyTorch in float64.
"""

import pytest
import targets
import torch
from numeric_contract import FLOOR

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


@pytest.mark.parametrize("target", ["reference", *targets.DTYPES])
def test_rows_of_queries(target):
    """Outputs and the gradients of all that is trained or given in floats."""
    if not targets.available(target):
        pytest.skip(f"this machine has no {target}")
    dtype = targets.DTYPES.get(target, torch.float64)
    for queries, keys in LENGTHS:
        shapes = [(2, 2, queries, 16), (2, 2, keys, 16), (2, 2, keys, 16)]
        operands = [torch.randn(s).to(dtype) for s in shapes]
        real = torch.float64 if dtype == torch.float64 else torch.float32
        given = [torch.randn(2, queries), torch.rand(queries) + 0.5, torch.randn(queries)]
        given = [t.to(real) for t in given]
        # Every query sees a key, and some see all.
        last = torch.randint(0, keys, (2, queries), dtype=torch.int32)
        names = ["gated.gate", "scaled.size", "turned.angle"]

        def call(run, kind):
            leaves = [t.detach().to(kind(t)).requires_grad_() for t in operands + given]
            out = run(leaves)
            seed = torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(out.dtype)
            return [out, *torch.autograd.grad(out, leaves, seed)]

        def sextants(leaves):
            params = dict(zip(names, leaves[3:])) | {"until.last": last}
            uses = [turned, scaled, gated, until]
            return sextant.attention(*leaves[:3], uses, params, target=target)

        def pytorchs(leaves):
            q, k, v, gate, size, angle = leaves
            return plain(q, k, v, gate, last, size, angle)

        got = call(sextants, lambda t: t.dtype)
        want = call(pytorchs, lambda t: torch.float64)
        # bf16 rounds operands of products to 2^-9; offsets make scores of up to 13.
        size = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 6e-2}[dtype]
        for a, b in zip(got, want):
            scale = b.abs().max().item()
            torch.testing.assert_close(a.double(), b, rtol=0, atol=size * scale + FLOOR)


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
