"""Rows turned by exponentials: which rows share a matrix, and matrices of every size.

The reference is compared in float64 with torch.linalg.matrix_exp, kernels with the
reference by C7 (numeric_contract.py).
"""

import attention_contract
import pytest
import targets
import torch

import sextant

# batch, heads, kv heads, queries, keys
SHAPES = [(2, 2, 2, 6, 6), (1, 4, 2, 3, 9), (2, 2, 1, 9, 4), (1, 3, 3, 1, 20), (1, 1, 1, 5, 1)]
# A unit that f32 has exactly, as options are f32.
UNIT = 0.125
# Sizes around those of vectors and of tiles of them.
SIZES = [2, 3, 8, 9, 17, 64, 65, 100]


def positions_of(kind, shape):
    """Given positions: the same where the two sides meet, at every other place, of one
    side only, or each element of the batch its own."""
    batch, _, _, queries, keys = shape
    longest = max(queries, keys)
    if kind == "index":
        return {}
    if kind == "query":
        place = torch.randint(-5, 9, (1, queries, 1), dtype=torch.int32)
        return {"query_positions": place}
    count = batch if kind == "batch" else 1
    both = [torch.randint(-5, 9, (count, longest, 2), dtype=torch.int32) for _ in range(2)]
    if kind in ("same", "batch"):
        both[1] = both[0].clone()
    if kind == "mixed":
        both[1][:, ::2] = both[0][:, ::2]
        both[1][:, 1::2, 0] = both[0][:, 1::2, 0]  # apart on one axis only
    if kind == "wider":  # the positions of one side have a batch
        both[1] = both[1].repeat(batch, 1, 1)
    if kind == "divisors":  # of a batch of 6
        both = [torch.randint(-5, 9, (n, longest, 2), dtype=torch.int32) for n in (2, 3)]
    return {
        "query_positions": both[0][:, longest - queries :].contiguous(),
        "key_positions": both[1][:, longest - keys :].contiguous(),
    }


def axes_of(kind):
    """Of positions, where an index, which has one axis, stands for them or not."""
    return 1 if kind in ("index", "query") else 2


def turn(rows, at, gen, unit):
    """`at`: float64 (batch or 1, length, 2)."""
    skew = gen.triu(1) - gen.triu(1).mT
    sums = torch.einsum("bla,ahnrc->bhlnrc", at, skew) * unit
    matrices = torch.linalg.matrix_exp(sums.contiguous())
    size, blocks = gen.shape[-1], gen.shape[2]
    head = rows[..., : size * blocks].unflatten(-1, (blocks, size))
    turned = (matrices @ head[..., None])[..., 0].flatten(-2)
    return torch.cat([turned, rows[..., size * blocks :]], -1)


def attention(query, key, value, given, gen, unit):
    def place(name, length, last):
        if name in given:
            times = query.shape[0] // given[name].shape[0]
            return given[name].double().repeat(times, 1, 1)
        return (torch.arange(length) + last - length).double()[None, :, None]

    queries, keys = query.shape[2], key.shape[2]
    query = turn(query, place("query_positions", queries, keys), gen, unit)
    key = turn(key, place("key_positions", keys, keys), gen, unit)
    group = query.shape[1] // key.shape[1]
    key, value = (t.repeat_interleave(group, 1) for t in (key, value))
    scores = query @ key.mT / key.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ value, torch.logsumexp(scores, -1)


def against_plain(shape, kind, use, gen, dim):
    batch, heads, kv_heads, queries, keys = shape
    given = positions_of(kind, shape)
    leaves = [
        torch.randn(batch, h, n, dim, dtype=torch.float64, requires_grad=True)
        for h, n in ((heads, queries), (kv_heads, keys), (kv_heads, keys))
    ]
    tensors = [*leaves, gen.requires_grad_()]
    want = attention(*leaves, given, gen, UNIT)
    got = sextant.attention(
        *leaves, [use], {"liere.gen": gen}, return_lse=True, enable_gqa=True,
        target="reference", **given,
    )
    seeds = [torch.randn_like(t) for t in want]
    for mine, theirs in zip(got, want):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-11)
    mine, theirs = (torch.autograd.grad(r, tensors, seeds) for r in (got, want))
    for name, a, b in zip(["query", "key", "value", "gen"], mine, theirs):
        atol = 1e-10 * max(1.0, float(b.abs().max()))
        torch.testing.assert_close(
            a, b, rtol=1e-9, atol=atol, msg=lambda m, name=name: f"{name}: {m}"
        )


def generator(heads, blocks, size):
    return 6.28 * torch.rand(2, heads, blocks, size, size, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["index", "same", "mixed", "batch", "wider", "query"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_of_one_place_share_a_matrix(shape, kind):
    use = f"liere(block=4, unit={UNIT}, axes={axes_of(kind)})"
    against_plain(shape, kind, use, generator(1, 2, 4)[: axes_of(kind)], 9)


def test_positions_of_two_and_of_three_elements():
    use = f"liere(block=4, unit={UNIT})"
    against_plain((6, 1, 1, 5, 7), "divisors", use, generator(1, 2, 4), 8)


@pytest.mark.parametrize("kind", ["index", "same", "mixed"])
@pytest.mark.parametrize("shape", [(2, 2, 2, 6, 6), (1, 3, 3, 4, 9)], ids=str)
def test_every_head_has_its_own(shape, kind):
    use = f"liere(block=3, per_head=true, unit={UNIT}, axes={axes_of(kind)})"
    against_plain(shape, kind, use, generator(shape[1], 2, 3)[: axes_of(kind)], 7)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 9, 17, 33])
def test_matrices_of_every_size(size):
    use = f"liere(unit={UNIT})"
    against_plain((1, 5, 1, 4, 7), "mixed", use, generator(1, 1, size), size)


def compare(target, size, shape, kind="mixed", dim=None):
    if target != WARPS:
        targets.require(target)
    batch, heads, kv_heads, queries, keys = shape
    dim = dim or size
    dtype = targets.DTYPES.get(target, torch.float32)
    inputs = attention_contract.Inputs.drawn(
        torch.randn(batch, heads, queries, dim).to(dtype),
        torch.randn(batch, kv_heads, keys, dim).to(dtype),
        torch.randn(batch, kv_heads, keys, 16).to(dtype),
        {"liere.gen": generator(1, dim // size, size)[: axes_of(kind)].float()},
        positions_of(kind, shape),
    )
    use = f"liere(block={size}, unit={UNIT}, axes={axes_of(kind)})"
    attention_contract.compare([use], inputs, target, dtype, (use, shape))


# Whose vectors of f64 have as many lanes as those of f32.
WARPS = "cuda-emulated:sm_80"
# In bf16 the rows alone are other ones.
OF_TARGETS = [(t, n) for t in targets.F32 for n in SIZES] + [(t, 17) for t in targets.DOT]
OF_TARGETS += [(WARPS, n) for n in (3, 17, 33, 65)]


@pytest.mark.parametrize("target, size", OF_TARGETS)
def test_kernels_multiply_matrices_of_every_size(target, size):
    compare(target, size, (1, 5, 1, 3, 4))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_threads_read_no_more_of_a_chunk_than_is_written(size, monkeypatch):
    """Rows are stored by vectors, of which rows of few lanes fill less than one."""
    monkeypatch.setenv("SEXTANT_CHECK", "races,scratch,memory")
    compare(WARPS, size, (1, 2, 2, 3, 4), dim=10)


@pytest.mark.parametrize("target", targets.DTYPES)
def test_kernels_take_rows_in_chunks(target):
    """More rows than a chunk share a matrix, blocks leave lanes over."""
    compare(target, 12, (2, 18, 9, 7, 5), "batch", dim=40)
    compare(target, 12, (3, 6, 6, 7, 7), "index", dim=40)


def test_gradients_do_not_depend_on_threads():
    """Sums run over a fixed number of ranges."""
    q, k, v = (torch.randn(1, 2, 40, 16).requires_grad_() for _ in range(3))
    gen = generator(1, 1, 16)[:1].float().requires_grad_()
    threads, found = torch.get_num_threads(), []
    for count in (1, 2):
        torch.set_num_threads(count)
        try:
            out = sextant.attention(q, k, v, ["liere(unit=0.1, axes=1)"], {"liere.gen": gen})
            found.append(torch.autograd.grad(out.square().sum(), (q, k, v, gen)))
        finally:
            torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*found))
