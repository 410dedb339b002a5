"""Tiles that a mask hides are skipped, also where it reads values of rows.

A NaN in a row of K or V makes every score tile that holds it NaN or zero times
NaN, so it stays away from the results of other rows only if the tile is never
computed. Tiles on the border of a hidden range are computed: rows near it are
left alone. That tensor cores compute whole tiles without the mask: SeededFaultsOfFragmentsTest.cpp.
"""

from dataclasses import dataclass

import pytest
import torch
from attention_contract import launches_on_tensor_cores
from targets import AMX, runnable
from test_backward import compare

import sextant

pytest.importorskip("sextant._compiler")

F32, BF16 = torch.float32, torch.bfloat16
KERNELS = [
    ("cpu:avx2", F32),
    ("cpu:avx512", F32),
    ("cpu:avx512", BF16),
    ("cpu:avx512bf16", BF16),
    (runnable(AMX), BF16),
    (runnable(AMX), F32),
]
TENSOR_CORES = ("cuda-emulated:sm_80", BF16)
LENGTH = 1000


@dataclass
class Parts:
    """Rows before and after `split` do not see each other. It stands between tiles: one on
    the border would pass the NaN of the first part's rows on to the gradients of all its
    keys. No tile has more than `border` rows."""

    heads: int  # of queries; keys have half of them
    length: int
    split: int
    border: int


# Register tiles of CPUs have any size up to 192. Blocks of a GPU have 128 queries, of a
# backward 128 keys.
PARTS = {"cpu": Parts(4, LENGTH, 480, 192), "cuda-emulated": Parts(2, 450, 256, 128)}
PARTS["cpu-emulated"] = PARTS["cpu"]


def of(*kernels):
    return pytest.mark.parametrize(
        "kernel", kernels, ids=lambda kernel: f"{kernel[0]}-{kernel[1]}"
    )


@sextant.mask
def near(at):
    return abs(at.offset) < 900


@sextant.mask
def same_page(at):
    return at.coord("query", axis=1) == at.coord("key", axis=1)


@sextant.mask
def recent(at, time: sextant.Param("batch", "key", given=True)):
    return abs(time[at.batch, at.query] - time[at.batch, at.key]) < 0.5


@sextant.mask
def listed(at, allowed: sextant.Param("batch", "heads", "key", integer=True, given=True)):
    return allowed[at.batch, at.head, at.key] > 3


def two_parts(encoding, split, length=LENGTH):
    """Uses, parameters and positions under which rows before and after `split` do
    not see each other; order and gaps inside the parts are anyhow."""
    part = (torch.arange(length) >= split).int()
    rows = torch.randint(0, 400, (2, length, 1), dtype=torch.int32)
    if encoding == "document":
        # The ids of the second element differ.
        ids = torch.stack([part, 7 - 9 * part]).int()
        return ["document"], {"document.ids": ids}, {}
    if encoding == "near":
        place = (rows + 2_000_000_000 * part[:, None] - 1_000_000_000).int()
        return [near], {}, dict(query_positions=place, key_positions=place)
    if encoding == "same_page":
        place = torch.cat([rows, rows, part.expand(2, length)[..., None]], 2)
        place = place[..., [0, 2]].contiguous()
        return [same_page], {}, dict(query_positions=place, key_positions=place)
    time = torch.rand(2, length) * 0.5 + 3 * part
    return [recent], {"recent.time": time}, {}


@of(*KERNELS, TENSOR_CORES)
@pytest.mark.parametrize("encoding", ["document", "near", "same_page", "recent"])
def test_rows_of_the_other_part_do_not_matter(kernel, encoding):
    target, dtype = kernel
    parts = PARTS[target.partition(":")[0]]
    length = parts.length
    uses, params, positions = two_parts(encoding, parts.split, length)
    spoiled = slice(0, parts.split - parts.border)
    seen = slice(parts.split + parts.border, length)
    q, grad = (torch.randn(2, parts.heads, length, 32, dtype=dtype) for _ in range(2))
    k, v = (torch.randn(2, parts.heads // 2, length, 32, dtype=dtype) for _ in range(2))

    def run():
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        out = sextant.attention(
            *leaves, uses, params, enable_gqa=True, target=target, **positions
        )
        return [out, *torch.autograd.grad(out, leaves, grad)]

    with launches_on_tensor_cores() as found:
        want = run()
    assert found == ({"forward", "backward"} if kernel == TENSOR_CORES else set())
    assert all(t.isfinite().all() for t in want)
    k[:, :, spoiled] = float("nan")
    v[:, :, spoiled] = float("nan")
    got = run()
    assert got[0][:, :, spoiled].isnan().all()
    # The same tiles in the same order: the same bits.
    for a, b in zip(got, want):
        assert torch.equal(a[:, :, seen], b[:, :, seen])


@of(*KERNELS)
def test_hidden_keys_do_not_matter(kernel):
    """Of one head, from some key on."""
    target, dtype = kernel
    hidden, border = 450, PARTS["cpu"].border
    allowed = torch.randint(4, 9, (2, 2, LENGTH), dtype=torch.int32)
    allowed[:, 1, hidden:] = 3
    params = {"listed.allowed": allowed}
    q, k, v = (torch.randn(2, 2, LENGTH, 16, dtype=dtype) for _ in range(3))
    want = sextant.attention(q, k, v, [listed], params, target=target)
    k[:, 1, hidden + border :] = float("nan")
    v[:, 1, hidden + border :] = float("nan")
    got = sextant.attention(q, k, v, [listed], params, target=target)
    assert torch.equal(got, want)
    v[:, 0, -1] = float("nan")
    got = sextant.attention(q, k, v, [listed], params, target=target)
    assert got[:, 0].isnan().any() and torch.equal(got[:, 1], want[:, 1])


@of(*KERNELS)
@pytest.mark.parametrize("encoding", ["document", "near", "same_page", "recent"])
def test_values_are_those_of_the_mask(kernel, encoding):
    """Tiles of every class, parts of odd sizes, held to C7 (numeric_contract.py)."""
    target, dtype = kernel
    split = int(torch.randint(300, 700, ()))
    uses, params, positions = two_parts(encoding, split)
    rows = [torch.randn(2, 2, LENGTH, 16, dtype=dtype) for _ in range(3)]
    grads = [torch.randn(2, 2, LENGTH, 16, dtype=dtype), torch.randn(2, 2, LENGTH)]

    def sees(i, j):
        return ((i < split) == (j < split)) & (j <= i)

    compare(rows, grads, target, [*uses, "causal"], given=positions, fixed=params, mask=sees)
