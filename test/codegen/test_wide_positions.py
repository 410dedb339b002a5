"""Values over offsets under given positions: tables, and spans that no table holds.

A table has 4 (Lq + Lk) entries. Where the offsets in use span more, a value is
computed in the tiles, and its gradient is pulled back there. Both are compared
with the reference. Tolerance: C7, see numeric_contract.py.
"""

import attention_contract
import pytest
import targets
import torch

import sextant

pytest.importorskip("sextant._compiler")

F32, BF16 = torch.float32, torch.bfloat16
KERNELS = [
    ("cpu:avx2", F32),
    ("cpu:avx512", F32),
    ("cpu:avx512", BF16),
    ("cpu:avx512bf16", BF16),
]


@pytest.fixture(params=KERNELS, ids=lambda kernel: f"{kernel[0]}-{kernel[1]}")
def kernel(request):
    target, dtype = request.param
    return target, dtype


@sextant.encoding
def steps(score, at, table: sextant.Param(16, "heads")):
    """Buckets by the last bits of the offset: a scatter, with a mixed score."""
    return sextant.tanh(score) + table[at.offset & 15, at.head] * 0.5


@sextant.mask
def even(at, allowed: sextant.Param(8, integer=True)):
    """Integers of a table over offsets, in a mask."""
    return allowed[(at.offset % 8 + 8) % 8] > 0


def drawn(kind, batch, lq, lk):
    """Coordinates of queries and keys; how far apart they lie."""
    def steps(length, most, low=1):
        return torch.randint(low, most + 1, (batch, length, 1)).cumsum(1)

    if kind == "near":  # gaps, below 0: a table
        return steps(lq, 2) - lq, steps(lk, 2) - lk // 2
    if kind == "apart":  # elements of the batch far from each other: a table
        shift = torch.arange(batch)[:, None, None] * 10**6
        return steps(lq, 2) + shift, steps(lk, 2) + shift
    if kind == "some":  # wider than a table, and no more
        return steps(lq, 60), steps(lk, 60) - 500
    if kind == "gaps":  # gaps of random width
        return steps(lq, 1000) - 3000, steps(lk, 1000)
    if kind == "shuffled":
        wide = torch.randint(-(10**6), 10**6, (batch, lq + lk, 1))
        return wide[:, :lq], wide[:, lq:]
    if kind == "outlier":  # one token far away
        key = steps(lk, 1)
        key[:, lk // 2] = 2**30
        return steps(lq, 1), key
    # Offsets are nearly all of i32.
    return steps(lq, 1) - 2**30, 2**30 - 1 - steps(lk, 1)


KINDS = ["near", "apart", "gaps", "shuffled", "outlier", "ends"]


def compare(kernel, uses, params, shape, positions, given=("query", "key")):
    target, dtype = kernel
    b, h, hk, lq, lk, d, dv = shape
    q, k, v = (
        torch.randn(b, n, length, dim).to(dtype)
        for n, length, dim in ((h, lq, d), (hk, lk, d), (hk, lk, dv))
    )
    named = dict(zip(("query", "key"), positions))
    positions = {f"{side}_positions": named[side].int() for side in given}
    inputs = attention_contract.Inputs.drawn(q, k, v, params, positions)
    attention_contract.compare(uses, inputs, target, dtype)


@pytest.mark.parametrize("target", ["reference", *targets.F32])
def test_offsets_that_do_not_fit(target):
    """What 32 bits do not hold would make the farthest positions neighbours."""
    q = torch.randn(1, 2, 3, 8, requires_grad=True)
    low, high = torch.tensor([-(2**31), 0, 1]), torch.tensor([-1, 0, 2**31 - 1])

    def attend(queries, keys, uses, params):
        return sextant.attention(
            q, q, q, uses, params, query_positions=queries, key_positions=keys, target=target
        )

    for queries, keys, which in ((low, high, "key minus query"), (high, low, "query minus key")):
        with pytest.raises(RuntimeError) as error:
            attend(queries, keys, ["kerple_log"], kerple(2))
        assert str(error.value) == (
            f"'forward': {which} positions do not fit 32 bits as a difference (axis 0) "
            "(4294967295 and 2147483647)"
        )
    # At the limit, and where nothing looks at an offset.
    near, far = torch.tensor([-(2**30), 0, 1]), torch.tensor([-1, 0, 2**30 - 1])
    attend(near, far, ["kerple_log"], kerple(2)).sum().backward()
    assert q.grad.isfinite().all()
    attend(low, high, ["rope"], {})


def kerple(heads):
    return {
        "kerple_log.r1": torch.rand(heads) + 0.5,
        "kerple_log.r2": torch.rand(heads) + 0.5,
    }


@pytest.mark.parametrize("positions", KINDS)
def test_values_and_gradients(kernel, positions):
    shape = (2, 4, 2, 65, 129, 16, 24)
    compare(kernel, ["kerple_log"], kerple(4), shape, drawn(positions, 2, 65, 129))


@pytest.mark.parametrize("farthest", [2**14, 2**20])
def test_angles_of_offsets_that_no_table_holds(farthest):
    """Each is off by at most 2^-22 of itself; the frequencies of sandwich add up to 7.5, and
    the sum of one head is divided by 8. The softmax of biases alone tells their differences."""
    queries, keys = torch.tensor([0, farthest]), torch.randint(0, farthest, (64,)).sort().values
    q, k, v = torch.zeros(1, 1, 2, 8), torch.zeros(1, 1, 64, 8), torch.eye(64)[None, None]

    def biases(dtype, target):
        weights = sextant.attention(
            q.to(dtype), k.to(dtype), v.to(dtype), ["sandwich"],
            query_positions=queries, key_positions=keys, target=target,
        ).double()  # fmt: skip
        return weights.log() - weights.log().mean(-1, keepdim=True)

    error = biases(torch.float32, "cpu") - biases(torch.float64, "reference")
    bound = farthest * 2**-22 * 7.5 / 8
    assert error.abs().max() < 2 * bound + 1e-5  # a bias, and the mean


@pytest.mark.parametrize("positions", ["near", "gaps", "shuffled"])
def test_buckets_and_masks(kernel, positions):
    """A score that is not additive, buckets, a table of integers in a mask."""
    shape = (2, 2, 2, 70, 70, 16, 16)
    params = {
        "steps.table": torch.randn(16, 2),
        "even.allowed": torch.randint(0, 2, (8,), dtype=torch.int32),
    }
    params["even.allowed"][0] = 1
    # One element's positions serve all of the batch.
    compare(kernel, [steps, even], params, shape, drawn(positions, 1, 70, 70))


@pytest.mark.parametrize("given", ["query", "key"])
@pytest.mark.parametrize("positions", ["near", "gaps"])
def test_positions_of_one_side(kernel, positions, given):
    """The other side's are its indices."""
    shape = (1, 2, 2, 33, 101, 16, 16)
    both = drawn(positions, 1, 33, 101)
    compare(kernel, ["kerple_log", "causal"], kerple(2), shape, both, (given,))


@pytest.mark.parametrize("uses", [["t5_bias"], ["alibi", "kerple_power"], ["sandwich"]])
def test_other_definitions(kernel, uses):
    """Sums inside a value, parts of a value with a table of their own."""
    made = sextant.init_params(uses, heads=2, head_dim=16)
    # Small exponents: a power of a distance is a bias with f32's rounding.
    params = {
        n: t.detach().float() * (0.3 if n.endswith("power.r2") else 1.0)
        for n, t in made.items()
    }
    shape = (1, 2, 1, 40, 40, 16, 16)
    compare(kernel, uses, params, shape, drawn("some", 1, 40, 40))


@pytest.mark.parametrize("more", [0, 1, 2])
@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_last_entry_of_a_table(target, more):
    """As many offsets as entries, and more by one or two, the outermost in use. An entry
    past the end would be the first one of the next head."""
    lq, lk = 20, 33
    query = torch.arange(lq)
    last = 4 * (lq + lk) + more - lq
    key = torch.randint(0, last + 1, (lk,))
    key[3], key[30] = 0, last
    positions = [t[None, :, None] for t in (query, key)]
    offsets = positions[1].flatten() - positions[0].flatten()[:, None]
    assert int(offsets.max() - offsets.min()) + 1 == 4 * (lq + lk) + more
    compare((target, F32), ["kerple_log"], kerple(3), (1, 3, 3, lq, lk, 16, 16), positions)


def grid(batch, extents, length):
    """Places of a grid, row by row, the first `length` of them (it starts again)."""
    index = torch.arange(length)
    axes = []
    for extent in reversed(extents):
        axes.append(index % extent)
        index = index // extent
    return torch.stack(axes[::-1], -1)[None].repeat(batch, 1, 1)


def on_grid(kind, batch, lq, lk):
    if kind == "wide":  # neighbouring lanes are neighbours of a row
        return grid(batch, (9, 64), lq), grid(batch, (9, 64), lk)
    if kind == "narrow":  # rows shorter than a vector
        return grid(batch, (40, 5), lq) - 3, grid(batch, (40, 5), lk)
    if kind == "columns":  # down the columns
        return grid(batch, (9, 17), lq).flip(-1), grid(batch, (9, 17), lk).flip(-1)
    if kind == "shuffled":
        places = grid(batch, (12, 12), lq + lk)[:, torch.randperm(lq + lk)]
        return places[:, :lq], places[:, lq:]
    if kind == "same":  # all lanes at one place
        return grid(batch, (1, 1), lq), grid(batch, (1, 1), lk) + 4
    # A table of one axis would hold this, one of both does not.
    return grid(batch, (2, 64), lq) * 31, grid(batch, (2, 64), lk) * 31


@sextant.encoding
def plane(score, at, table: sextant.Param(5, 7, "heads")):
    """Two axes, an entry per bits of each; scores are bounded, so not additive."""
    y, x = at.offset, at.offset(1)
    return sextant.tanh(score) + table[y & 3, x & 3, at.head]


GRIDS = ["wide", "narrow", "columns", "shuffled", "same", "sparse"]


@pytest.mark.parametrize("positions", GRIDS)
def test_two_axes(kernel, positions):
    shape = (2, 2, 1, 70, 129, 16, 16)
    use = "swin(rows=4, columns=6)"
    params = {"swin.table": torch.randn(7 * 11, 2)}
    compare(kernel, [use], params, shape, on_grid(positions, 1, 70, 129))


@pytest.mark.parametrize("positions", GRIDS)
def test_two_axes_of_a_bounded_score(kernel, positions):
    shape = (1, 2, 2, 33, 65, 16, 24)
    params = {"plane.table": torch.randn(5, 7, 2)}
    compare(kernel, [plane], params, shape, on_grid(positions, 1, 33, 65))


@pytest.mark.parametrize("positions", ["wide", "narrow", "sparse"])
def test_two_axes_of_each_element(kernel, positions):
    """Positions differ in the batch; one axis and two in one score, and a mask."""
    shape = (2, 2, 2, 65, 65, 16, 16)
    both = on_grid(positions, 2, 65, 65)
    both[0][1] += 1
    both[1][1] = both[1][1].flip(0)
    params = {"swin.table": torch.randn(13 * 13, 2)}
    uses = ["swin", "alibi", "causal"]
    params["alibi.slopes"] = torch.rand(2)
    compare(kernel, uses, params, shape, both)


@pytest.mark.parametrize("given", ["query", "key"])
def test_two_axes_of_one_side(kernel, given):
    """The other side has its index, which is one axis: none is made up."""
    shape = (1, 2, 2, 33, 101, 16, 16)
    both = on_grid("wide", 1, 33, 101)
    params = {"swin.table": torch.randn(13 * 13, 2)}
    other = "key" if given == "query" else "query"
    with pytest.raises(sextant.CompileError, match=f"no positions of {other} are given"):
        compare(kernel, ["swin"], params, shape, both, (given,))


def test_lengths_of_one_program():
    """Whether there are tables is decided by each call."""
    q, k, v = (torch.randn(1, 1, 6, 8) for _ in range(3))
    params = kerple(1)
    near = torch.arange(6, dtype=torch.int32)[None, :, None]
    for factor in (1, 10**6, 3, 10**8, 1):
        place = near * factor
        named = dict(query_positions=place, key_positions=place)
        got = sextant.attention(q, k, v, ["kerple_log"], params, **named)
        want = sextant.attention(
            q, k, v, ["kerple_log"], params, target="reference", **named
        )
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
