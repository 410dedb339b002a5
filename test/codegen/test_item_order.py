"""Backwards on the CPU whose work items add to the same rows in turn (ItemOrder.h)."""

import pytest
import targets
import torch
from test_heads import compare

import sextant

pytest.importorskip("sextant._compiler")

# Of 16 heads of this dim an item keeps so few tiles that there are more items than sums
# over scores (BackwardLaunch::Order), and many more than copies of dQ. Queries are blocks
# of 16 or 32.
HEADS, QUERIES, KEYS, DIM = 16, 150, 1900, 64


@sextant.mask
def far_or_near(at):
    """What an item in the middle does not see, those before and behind it do."""
    return (at.key < 60) | (at.offset > -60)


@pytest.fixture
def set_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("target", targets.F32)
@pytest.mark.parametrize("mask", ["causal", "window"])
def test_values(target, mask, set_threads):
    """A window hides most blocks from an item, and so does the causal mask."""
    set_threads(4)
    dims = (DIM, DIM)
    compare(("leaky", HEADS, HEADS, 4, 1, QUERIES, KEYS, dims, (mask,)), target)
    compare(("leaky", HEADS, HEADS, 4, 1, 500, 500, dims, (mask,)), target)


@pytest.mark.parametrize("target", targets.CPU)
@pytest.mark.parametrize("use", ["talking_heads", "dape(kerple_log)"])
@pytest.mark.parametrize("lengths", [(QUERIES, KEYS), (1, KEYS), (700, 700)], ids=str)
def test_bits_do_not_depend_on_threads(use, target, lengths, set_threads, seed):
    """Also with more threads than processors, as many as there are items."""
    torch.manual_seed(seed)
    uses = ["causal", far_or_near, use]
    dtype = targets.DTYPES[target]
    rows = [torch.randn(2, HEADS, n, DIM, dtype=dtype) for n in (lengths[0], *2 * lengths[1:])]
    params = sextant.init_params(uses, heads=HEADS, head_dim=DIM, seed=seed)
    leaves = [t.requires_grad_() for t in (*rows, *params.values())]
    out = sextant.attention(*rows, uses, params, target=target)
    cotangent = torch.randn_like(out)
    results = []
    for threads in (1, 2, 3, 8, 40):
        set_threads(threads)
        results.append(torch.autograd.grad(out, leaves, cotangent, retain_graph=True))
    for name, *of_threads in zip(["query", "key", "value", *params], *results, strict=True):
        assert of_threads[0].isfinite().all() and of_threads[0].any(), name
        assert all(torch.equal(of_threads[0], other) for other in of_threads[1:]), name
