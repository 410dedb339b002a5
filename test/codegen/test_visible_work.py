"""A profile counts the work of what a mask shows: never more than a kernel does."""

import pytest
import torch

import sextant
from sextant import definitions
from sextant.attention_text import AttentionKey, ParamType, attention_module

BATCH, HEADS, LENGTH, DIM = 2, 2, 301, 16


def launches(uses, params=()):
    """FLOP of the forward's and of the backward's kernel of attention."""
    signature = definitions.signature(uses)
    types = tuple(ParamType(p.name, p.rank, p.element, p.trained) for p in signature.params)
    key = AttentionKey("f32", DIM, (DIM,), signature.uses, types)
    program = sextant.compile(attention_module(key, backward=True))
    x = torch.randn(BATCH, HEADS, LENGTH, DIM)
    (out, lse, statistics), forward = program.profile("forward", [x, x, x, *params])
    inputs = [x, x, x, out, statistics, torch.randn_like(out), torch.zeros_like(lse), *params]
    _, backward = program.profile("backward", inputs)
    found = []
    for events in (forward, backward):
        found.append(max(e["flops"] for e in events if e["flops"] is not None))
    return found


def check(found, visible, tolerance):
    """``visible``: how many pairs of a query and a key, over batch and heads."""
    forward, backward = found
    assert forward == pytest.approx(4 * DIM * visible, rel=tolerance)
    assert backward == pytest.approx(10 * DIM * visible, rel=tolerance)


def test_all_pairs_without_a_mask():
    check(launches([]), BATCH * HEADS * LENGTH**2, 0)


@pytest.mark.parametrize(
    "uses, width",
    [(["causal"], LENGTH), (["causal", "window(size=40)"], 40)],
    ids=["causal", "window"],
)
def test_pairs_along_the_diagonal(uses, width):
    # A tile of 8 x 8 on an edge counts 32 where it has 28 to 36: up to 1/8 of a
    # band of 40 keys, which both edges share in opposite directions.
    rows = torch.arange(LENGTH)
    visible = torch.clamp(rows + 1, max=width).sum().item()
    check(launches(uses), BATCH * HEADS * visible, 0.04)


def test_pairs_that_contents_decide():
    # Documents of whole tiles: the count is exact.
    lengths = torch.tensor([[160, 120, 16, 5], [8, 280, 8, 5]])
    ids = torch.stack(
        [torch.repeat_interleave(torch.arange(4, dtype=torch.int32), n) for n in lengths]
    )
    visible = HEADS * (lengths**2).sum().item()
    check(launches(["document"], [ids]), visible, 0)
