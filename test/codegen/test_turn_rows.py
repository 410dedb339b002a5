"""Rows turned by matrices that a traced function gives, forward and in every gradient.

Against the installed `liere` written again in Python, against PyTorch's matrix
exponential in float64, and kernels against the reference by C7 (numeric_contract.py).
"""

import attention_contract
import pytest
import targets
import torch

import sextant


@sextant.turn_rows(block="block")
def lie(
    n,
    row,
    column,
    at,
    gen: sextant.Param("axes", "heads", "head_dim // block", "block", "block"),
    *,
    axes=2,
    block=4,
    unit=0.05,
):
    """`liere(per_head=true)` of one or two axes."""
    least, most = sextant.minimum(row, column), sextant.maximum(row, column)
    first = at.coord() * gen[0, at.head, n, least, most]
    # Of one axis this reads what is there, and counts nothing.
    second = at.coord(axis=1) * gen[sextant.minimum(axes - 1, 1), at.head, n, least, most]
    angle = (first + sextant.where(axes > 1, second, 0.0)) * unit
    return sextant.where(column > row, angle, sextant.where(column < row, -angle, 0.0))


@sextant.turn_rows(block="size")
def dense(block, row, column, at, gen: sextant.Param("head_dim // size", "size", "size"), *, size=8):
    """exp(p (G - G^T)) for each block of lanes."""
    return at.coord() * (gen[block, row, column] - gen[block, column, row])


@sextant.turn_rows
def whole(block, row, column, at, speed: sextant.Param("head_dim")):
    """The whole head: neighbouring lanes turn into each other."""
    angle = at.coord() * speed[sextant.minimum(row, column)]
    apart = column - row
    return sextant.where(apart == 1, angle, sextant.where(apart == -1, -angle, 0.0))


@sextant.turn_rows(of="query", block=3)
def shear(block, row, column, at, pull: sextant.Param("batch", "heads", 3, given=True)):
    """Queries alone, by no rotation, another for each element of the batch and head."""
    at_row = sextant.where(row < column, pull[at.batch, at.head, row], 0.1)
    return sextant.where(at.row < 40, at_row, -0.1)


def plain_dense(rows, positions, gen):
    """``rows`` [B, H, L, d] turned at ``positions`` [L]."""
    count, size = gen.shape[:2]
    turns = torch.linalg.matrix_exp(positions[:, None, None, None] * (gen - gen.mT))
    blocks = rows[..., : count * size].unflatten(-1, (count, size, 1))
    return torch.cat([(turns @ blocks).flatten(-3), rows[..., count * size :]], -1)


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("axes, block", [(1, 4), (2, 4), (2, 10), (1, 1)])
def test_the_installed_encoding_written_in_python(target, axes, block):
    dtype = torch.float64 if target == "reference" else torch.float32
    gen = 6 * torch.rand(axes, 3, 10 // block, block, block, dtype=dtype)
    rows = [torch.randn(2, 3, n, 10, dtype=dtype) for n in (7, 11, 11)]
    given = {
        f"{side}_positions": torch.randint(0, 9, (2, n, 2), dtype=torch.int32)
        for side, n in (("query", 7), ("key", 11))
    }
    seed = torch.randn(2, 3, 7, 10, dtype=dtype)
    results = []
    for use, name in (
        (lie(axes=axes, block=block), "lie.gen"),
        (f"liere(axes={axes}, block={block}, per_head=true, unit=0.05)", "liere.gen"),
    ):
        leaves = [t.clone().requires_grad_() for t in (*rows, gen)]
        out = sextant.attention(*leaves[:3], ["causal", use], {name: leaves[3]}, target=target, **given)
        results.append([out, *torch.autograd.grad(out, leaves, seed)])
    # Equal but for the order of two sums of two terms.
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for mine, installed in zip(*results):
        size = max(1.0, float(installed.detach().abs().max()))
        torch.testing.assert_close(mine, installed, rtol=0, atol=tolerance * size)


@pytest.mark.parametrize("size, dim", [(8, 16), (5, 12), (1, 4), (7, 7)])
def test_the_reference_is_a_matrix_exponential(size, dim):
    queries, keys = 5, 9
    shapes = [(2, 3, queries, dim), (2, 3, keys, dim), (2, 3, keys, 4), (dim // size, size, size)]
    scales = [1.0, 1.0, 1.0, 0.1]
    leaves = [
        (s * torch.randn(shape, dtype=torch.float64)).requires_grad_()
        for s, shape in zip(scales, shapes)
    ]
    q, k, v, gen = leaves
    got = sextant.attention(
        q, k, v, [dense(size=size)], {"dense.gen": gen}, return_lse=True, target="reference"
    )
    index = torch.arange(keys, dtype=torch.float64)
    turned = plain_dense(q, index[keys - queries :], gen), plain_dense(k, index, gen)
    scores = turned[0] @ turned[1].mT / dim**0.5
    want = torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)
    seeds = [torch.randn_like(t) for t in want]
    for mine, theirs in zip(got, want):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)
    mine, theirs = (torch.autograd.grad(r, leaves, seeds) for r in (got, want))
    for name, a, b in zip(("query", "key", "value", "gen"), mine, theirs):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11, msg=lambda m: f"{name}: {m}")


def params_of(encoding, shape):
    batch, heads, _, _, _, dim, _ = shape
    return {
        "dense": lambda: {"dense.gen": 0.02 * torch.randn(dim // 8, 8, 8)},
        "whole": lambda: {"whole.speed": 0.1 * torch.rand(dim)},
        "shear": lambda: {"shear.pull": 0.3 * torch.randn(batch, heads, 3)},
    }[encoding.name]()


def compare(target, uses, shape, params, positions=None, draws=1.0):
    inputs = targets.drawn(target, shape, params, positions, draws)
    # The matrices are operands of products: plain code in bf16 rounds what they are made
    # of, as it does q and k.
    attention_contract.compare(
        uses,
        inputs,
        target,
        targets.DTYPES[target],
        (list(map(str, uses)), shape),
        rounds_params=True,
    )


CASES = [
    ((1, 1, 1, 1, 1, 16, 16), []),
    ((2, 2, 1, 63, 65, 20, 40), ["causal"]),
    ((1, 4, 2, 129, 150, 16, 24), ["causal", "window(size=90)"]),
]
NEAR = ((1, 2, 2, 65, 40, 24, 16), ["causal", "alibi"])


TURNS = [dense, whole, shear]
# Every encoding with every case, each of either on every target.
OF_TARGETS = [
    (targets.CPU[(i + j) % len(targets.CPU)], turn, *case)
    for i, turn in enumerate(TURNS)
    for j, case in enumerate(CASES)
]


def named(value):
    return getattr(value, "name", None) or str(value)


@pytest.mark.parametrize("target, encoding, shape, others", OF_TARGETS, ids=named)
def test_matches_the_reference(target, encoding, shape, others):
    compare(target, [*others, encoding], shape, params_of(encoding, shape), draws=0.5)


@pytest.mark.parametrize("target, encoding", targets.in_turn(TURNS, targets.F32), ids=named)
def test_near_keys_alone(target, encoding):
    shape, others = NEAR
    params = params_of(encoding, shape) | {"alibi.slopes": torch.rand(shape[1])}
    compare(target, [*others, encoding], shape, params, draws=0.5)


def test_near_keys_alone_in_bf16():
    """C7 against plain PyTorch itself: what queries and keys pull on the matrix nearly
    cancels, so the rounding of turned rows is most of the error, which the model of
    plain code in attention_contract.py leaves out."""
    target = "cpu:avx512bf16"
    targets.require(target)
    (_, heads, _, queries, keys, dim, value_dim), others = NEAR
    slopes = torch.rand(heads)
    gen = params_of(dense, NEAR[0])["dense.gen"]
    errors = {"kernel": [], "plain": []}
    for _ in range(4):
        sizes = [(queries, dim), (keys, dim), (keys, value_dim), (queries, value_dim)]
        *rows, seed = (torch.randn(1, heads, *size).bfloat16() for size in sizes)

        def gradient(run, dtype):
            compute = torch.promote_types(dtype, torch.float32)
            leaves = [t.detach().to(dtype).requires_grad_() for t in rows]
            leaves.append(gen.to(compute).requires_grad_())
            return torch.autograd.grad(run(*leaves), leaves[3], seed.to(dtype))[0].double()

        def ours(name):
            return lambda q, k, v, g: sextant.attention(
                q, k, v, [*others, dense],
                {"dense.gen": g, "alibi.slopes": slopes.to(g.dtype)}, target=name,
            )  # fmt: skip

        def plain(q, k, v, g):
            at = torch.arange(keys - queries, keys).float(), torch.arange(keys).float()
            q, k = (plain_dense(t.float(), p, g).bfloat16() for t, p in zip((q, k), at))
            offset = at[1] - at[0][:, None]
            score = (q @ k.mT).float() / dim**0.5 + slopes[:, None, None] * offset
            score = score.masked_fill(offset > 0, float("-inf"))
            return torch.softmax(score, -1).nan_to_num().bfloat16() @ v

        want = gradient(ours("reference"), torch.float64)
        errors["kernel"].append((gradient(ours(target), torch.bfloat16) - want).abs().max())
        errors["plain"].append((gradient(plain, torch.bfloat16) - want).abs().max())
    assert max(errors["kernel"]) <= 2 * max(errors["plain"]) + 1e-3 * float(want.abs().max())


def test_given_positions_and_a_later_map_of_rows():
    shape = (2, 2, 2, 33, 33, 16, 16)
    positions = {
        f"{side}_positions": torch.randint(0, 60, (2, 33, 1), dtype=torch.int32)
        for side in ("query", "key")
    }
    compare("cpu:avx2", ["causal", dense, "rope"], shape, params_of(dense, shape), positions)


def test_a_turn_by_the_position_is_relative():
    """exp(p A)^T exp(q A) = exp((q - p) A)."""
    rows = [torch.randn(1, 2, 50, 20) for _ in range(3)]
    params = {"dense.gen": 0.05 * torch.randn(2, 8, 8)}
    moved = torch.arange(50) + 300
    here = sextant.attention(*rows, ["causal", dense], params)
    there = sextant.attention(
        *rows, ["causal", dense], params, query_positions=moved, key_positions=moved
    )
    # Rows are rounded once to f32 after they have turned, by angles in double.
    torch.testing.assert_close(here, there, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "element, message",
    [
        (lambda r, c, at, g: at.offset, r"at.offset has no meaning in the matrix of a turn.*at.coord\(\)"),
        (lambda r, c, at, g: at.query - at.key, "at.query has no meaning in the matrix of a turn"),
        (lambda r, c, at, g: at.coord("key"), r'at.coord\("key"\) has no meaning'),
        (lambda r, c, at, g: at.lane, "block, row and column say which"),
        (lambda r, c, at, g: at.host, "in a score only"),
        (lambda r, c, at, g: (1.0, -1.0), r"one number, the matrix's element at \(row, column\), got 2"),
        (lambda r, c, at, g: None, "returns nothing"),
        (lambda r, c, at, g: r < c, "a condition is not a number"),
        (lambda r, c, at, g: g, r"parameter \"g\" is a table; index it"),
        (lambda r, c, at, g: sextant.where(r < c, 1.0, 0.0) if r < c else 0.0, "sextant.where"),
    ],
)
def test_errors_teach(element, message):
    with pytest.raises(sextant.CompileError, match=message) as info:

        @sextant.turn_rows
        def bad(block, row, column, at, g: sextant.Param("head_dim", "head_dim")):
            return element(row, column, at, g)

    assert info.value.file == __file__ and info.value.line > 0


def test_arguments_of_the_decorator():
    for of, message in (
        ("value", "turns rows of query and key, not of value"),
        (["query", "kee"], 'unknown operand "kee"; did you mean "key"'),
        ([], "names no operand"),
        (["key", "key"], "names key twice"),
    ):
        with pytest.raises(sextant.CompileError, match=message):
            sextant.turn_rows(of=of)
    for block, message in (
        (2.0, "got float"),
        ("sise", 'unknown dim "sise"; did you mean "size"'),
        ("reach", 'a dim is an integer, option "reach" is a number'),
    ):
        with pytest.raises(sextant.CompileError, match=message):

            @sextant.turn_rows(block=block)
            def bad(block, row, column, at, *, size=4, reach=0.5):
                return 0.0


def test_arguments_of_the_function():
    want = r"its first arguments are \(block, row, column, at\), got"
    with pytest.raises(sextant.CompileError, match=want + r" \(score, at\)"):

        @sextant.turn_rows
        def scored(score, at):
            return score

    with pytest.raises(sextant.CompileError, match=want + r" \(at, a, b, c\)"):

        @sextant.turn_rows
        def early(at, a: sextant.PerHead, b: sextant.PerHead, c: sextant.PerHead):
            return 0.0

    with pytest.raises(sextant.CompileError, match=want + r" \(at, block, row, column\)"):

        @sextant.turn_rows
        def swapped(at, block, row, column):
            return 0.0


def test_what_a_call_refuses():
    q, k = torch.randn(1, 4, 5, 16), torch.randn(1, 2, 5, 16)

    def call(uses, at=None, **params):
        named = {n.replace("_", "."): p for n, p in params.items()}
        places = dict(query_positions=at, key_positions=at)
        return sextant.attention(q, k, k, uses, named, enable_gqa=True, **places)

    with pytest.raises(ValueError, match=r"shape \(0, 17, 17\): an option is too small or too large"):
        call([dense(size=17)], dense_gen=torch.zeros(0, 17, 17))
    with pytest.raises(sextant.CompileError, match="blocks of 17 lanes do not fit rows of 16"):

        @sextant.turn_rows(block=17)
        def wide(block, row, column, at):
            return 0.0

        call([wide])
    with pytest.raises(sextant.CompileError, match="comes before other row maps"):
        call(["rope", dense], dense_gen=torch.zeros(2, 8, 8))
    with pytest.raises(sextant.RuntimeError, match="grouped queries"):
        call([lie], torch.zeros(1, 5, 2, dtype=torch.int32), lie_gen=torch.zeros(2, 4, 4, 4, 4))
