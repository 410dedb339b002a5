"""Parameters with a row per row of the query or of the key, [batch, heads, rows, lanes],
that row maps and columns read in place: they need no tables, forward or backward."""

import pytest
import targets
import torch
from attention_contract import Inputs, compare

import sextant

P = sextant.Param


@sextant.rows(of="query", group="single")
def scaled(x, at, size: P("batch", "heads", "query", "head_dim", given=True)):
    return x * size[at.batch, at.head, at.tensor_row, at.lane]


@sextant.rows(of="key", group="half")
def turned(x, y, at, real: P("batch", "heads", "key", "head_dim", given=True),
           imaginary: P("batch", "heads", "key", "head_dim", given=True)):  # fmt: skip
    c = real[at.batch, at.head, at.tensor_row, at.lane]
    s = imaginary[at.batch, at.head, at.tensor_row, at.lane]
    return x * c - y * s, y * c + x * s


@sextant.rows(of="value", group="single")
def shared(x, at, move: P(1, 1, "key", "head_dim", given=True)):
    return x + move[0, 0, at.tensor_row, at.lane]


NAMES = {"scaled.size": "query", "turned.real": "key", "turned.imaginary": "key"}


def drawn(batches, lanes, shape):
    """Parameters of `batches` elements; those of a half-split map have more lanes than
    the map reads, as many as the row."""
    _, heads, kv_heads, queries, keys, *_ = shape
    lengths = {"query": (heads, queries), "key": (kv_heads, keys)}
    params = {n: torch.randn(batches, *lengths[side], lanes) for n, side in NAMES.items()}
    return params | {"shared.move": torch.randn(1, 1, keys, lanes)}


SHAPES = [
    (2, 3, 3, 1, 1, 16),
    (4, 2, 2, 63, 65, 40),
    (2, 2, 2, 129, 300, 24),
    (1, 1, 1, 70, 70, 64),
]


@pytest.mark.parametrize("target", targets.DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_agrees_with_the_reference(target, shape):
    """Of every batch that divides the call's: outputs and all gradients."""
    dtype = targets.DTYPES[target]
    batch, heads, kv_heads, queries, keys, dim = shape
    for batches in {1, batch // 2 or 1, batch}:
        rows = [
            torch.randn(batch, h, n, dim).to(dtype)
            for h, n in ((heads, queries), (kv_heads, keys), (kv_heads, keys))
        ]
        inputs = Inputs.drawn(*rows, drawn(batches, dim, shape))
        uses = ["causal", scaled, turned, shared]
        compare(uses, inputs, target, dtype, (shape, batches), rounds_params=True)


@pytest.mark.parametrize("target", targets.F32)
def test_lanes_anyhow_in_memory(target):
    """A parameter that is a view, of which neighbouring lanes are no neighbours in memory,
    gives the bits of its copy."""
    shape = (2, 2, 2, 33, 40, 24)
    q, k, v = (torch.randn(2, 2, n, 24) for n in (33, 40, 40))
    params = drawn(2, 24, shape)

    def call(arrange):
        leaves = {n: arrange(t).detach().requires_grad_() for n, t in params.items()}
        uses = [scaled, turned, shared]
        out = sextant.attention(q, k, v, uses, leaves, target=target)
        return [out, *torch.autograd.grad(out.square().sum(), leaves.values())]

    dense = call(torch.clone)
    for arrange in (
        lambda t: t.mT.contiguous().mT,
        lambda t: torch.cat([t, t], -1)[..., ::2].copy_(t),
        lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    ):
        assert all(torch.equal(a, b) for a, b in zip(dense, call(arrange)))


@sextant.rows(of=["query", "key"], group="single")
def placed(x, at, size: P("batch", "heads", "key", "head_dim", given=True)):
    """Rows of the keys, which queries read at their index."""
    return x * size[at.batch, at.head, sextant.maximum(at.row, 0), at.lane]


@pytest.mark.parametrize("target", targets.DTYPES)
@pytest.mark.parametrize("lengths", [(1, 1), (63, 65), (33, 300), (300, 33), (140, 1)], ids=str)
def test_queries_read_rows_at_their_index(target, lengths):
    """Queries end with the keys; those before the first key share its row, whose gradient
    is then a sum over items of work (64 queries each)."""
    dtype = targets.DTYPES[target]
    queries, keys = lengths
    rows = [torch.randn(4, 2, n, 24).to(dtype) for n in (queries, keys, keys)]
    for batches in (1, 2, 4):
        inputs = Inputs.drawn(*rows, {"placed.size": torch.randn(batches, 2, keys, 24)})
        compare([placed], inputs, target, dtype, (lengths, batches), rounds_params=True)


def test_a_query_without_keys_has_no_row_to_read():
    """There is no row 0 then: an error, and no read of memory that is not there."""
    query, nothing = torch.randn(1, 2, 3, 24), torch.randn(1, 2, 0, 24)
    with pytest.raises(RuntimeError, match="fewer rows than indices of its query"):
        sextant.attention(query, nothing, nothing, [placed], {"placed.size": nothing})
