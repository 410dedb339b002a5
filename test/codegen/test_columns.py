"""Columns appended to query and key rows, forward and in every gradient.

The reference is compared in float64 with attention written out in PyTorch, kernels
with the reference by C7 (numeric_contract.py).
"""

import attention_contract
import pytest
import targets
import torch
from numeric_contract import FLOOR

import sextant


@sextant.columns("width")
def shared(
    at,
    a: sextant.Param("query", "width", given=True),
    b: sextant.Param("key", "width", given=True),
    *,
    width=7,
):
    """One table for all elements of the batch and all heads."""
    return a[at.query_row, at.lane], b[at.key, at.lane]


@sextant.columns("width")
def own(
    at,
    a: sextant.Param("batch", "heads", "query", "width", given=True),
    b: sextant.Param("batch", "kv_heads", "key", "width", given=True),
    *,
    width=7,
):
    """Columns of each element of the batch and each head, after the scale."""
    query = a[at.batch, at.head, at.query_row, at.lane] / at.scale
    return query, b[at.batch, at.head, at.key, at.lane]


@sextant.columns("width")
def waves(
    at,
    speed: sextant.Param("width"),
    size: sextant.Param("heads"),
    *,
    width=7,
):
    """Computed from positions: what a head reads differs, keys are shared."""
    i, j = at.coord("query"), at.coord("key")
    return size[at.head] * sextant.cos(i * speed[at.lane]), sextant.sin(j * speed[at.lane])


@sextant.columns(2)
def slope(at, m: sextant.Param("heads")):
    """m (j - i): a value that varies with the lane only, and one with neither."""
    isfirst = at.lane == 0
    a = sextant.where(isfirst, -sextant.to_float(at.query), 1.0)
    b = sextant.where(isfirst, 1.0, sextant.to_float(at.key))
    return m[at.head] * a, b


class Plain:
    """The columns of a use as tensors that broadcast to [B, H, L, n]."""

    def __init__(self, params, qpos, kpos, scale, group):
        self.p, self.qpos, self.kpos = params, qpos[..., 0], kpos[..., 0]
        self.scale, self.group = scale, group

    def shared(self):
        return self.p["shared.a"], self.p["shared.b"]

    def own(self):
        b = self.p["own.b"]
        return self.p["own.a"] / self.scale, b.repeat_interleave(self.group, 1)

    def waves(self):
        i, j = self.qpos[:, None, :, None], self.kpos[:, None, :, None]
        size, speed = self.p["waves.size"], self.p["waves.speed"]
        return size[:, None, None] * torch.cos(i * speed), torch.sin(j * speed)

    def slope(self):
        i, j = self.qpos[:, None, :, None], self.kpos[:, None, :, None]
        m = self.p["slope.m"][:, None, None]
        return m * torch.cat([-i, 1 + 0 * i], -1), torch.cat([1 + 0 * j, j], -1)


DEFINITIONS = {e.name: e for e in (shared, own, waves, slope)}


def params_of(name, width, shape):
    batch, heads, kv_heads, queries, keys, *_ = shape
    draw = {
        "shared": {"a": (queries, width), "b": (keys, width)},
        "own": {"a": (batch, heads, queries, width), "b": (1, kv_heads, keys, width)},
        "waves": {"speed": (width,), "size": (heads,)},
        "slope": {"m": (heads,)},
    }[name]
    return {f"{name}.{n}": torch.randn(s) for n, s in draw.items()}


def use_of(name, width):
    return slope if name == "slope" else DEFINITIONS[name](width=width)


def positions_of(kind, shape):
    batch, _, _, queries, keys, *_ = shape
    if not kind:
        return {}
    count = batch if kind == "batch" else 1
    return {
        f"{side}_positions": torch.randint(-9, 30, (count, n, 1), dtype=torch.int32)
        for side, n in (("query", queries), ("key", keys))
    }


def attention(query, key, value, columns, hidden, scale):
    group = query.shape[1] // key.shape[1]
    key, value = (t.repeat_interleave(group, 1) for t in (key, value))
    scores = query @ key.transpose(-1, -2)
    for a, b in columns:
        scores = scores + a @ b.transpose(-1, -2)
    scores = (scores * scale).masked_fill(hidden, -torch.inf)
    return torch.softmax(scores, -1) @ value, torch.logsumexp(scores, -1)


# batch, heads, kv heads, queries, keys, head dim, value dim
SMALL = (2, 4, 2, 5, 7, 6, 3)


@pytest.mark.parametrize("positions", ["", "shared", "batch"])
@pytest.mark.parametrize(
    "names",
    [["shared"], ["own"], ["waves"], ["slope"], ["own", "waves", "shared"]],
    ids="+".join,
)
def test_the_reference_is_plain_attention(names, positions):
    if "slope" in names and positions:
        pytest.skip("reads indices")
    batch, heads, kv_heads, queries, keys, dim, value_dim = SMALL
    leaves = [
        torch.randn(batch, heads, queries, dim),
        torch.randn(batch, kv_heads, keys, dim),
        torch.randn(batch, kv_heads, keys, value_dim),
    ]
    params = {}
    for name in names:
        params |= params_of(name, 3, SMALL)
    tensors = [t.double().requires_grad_() for t in (*leaves, *params.values())]
    params = dict(zip(params, tensors[3:]))
    given = positions_of(positions, SMALL)
    qpos = given.get("query_positions", torch.arange(queries)[None, :, None] + keys - queries)
    kpos = given.get("key_positions", torch.arange(keys)[None, :, None])
    scale = 0.7
    plain = Plain(params, qpos.double(), kpos.double(), scale, heads // kv_heads)
    index = torch.arange(queries)[:, None] + keys - queries
    want = attention(
        *tensors[:3],
        [getattr(plain, name)() for name in names],
        torch.arange(keys) > index,
        scale,
    )
    uses = ["causal", *(use_of(name, 3) for name in names)]
    got = sextant.attention(
        *tensors[:3], uses, params, return_lse=True, scale=scale, enable_gqa=True,
        target="reference", **given,
    )  # fmt: skip
    seeds = [torch.randn_like(t) for t in want]
    for mine, theirs in zip(got, want):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)
    mine, theirs = (torch.autograd.grad(r, tensors, seeds) for r in (got, want))
    for name, a, b in zip(["query", "key", "value", *params], mine, theirs):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11, msg=lambda m: f"{name}: {m}")


def compare(target, uses, params, shape, positions=None, draws=1.0):
    inputs = targets.drawn(target, shape, params, positions, draws)
    # Columns are operands of products: plain code rounds them as it does q and k.
    what = (list(map(str, uses)), shape)
    attention_contract.compare(uses, inputs, target, targets.DTYPES[target], what, rounds_params=True)


CASES = [
    ((1, 1, 1, 1, 1, 16, 16), []),
    ((2, 2, 1, 63, 65, 24, 40), ["causal"]),
    ((2, 4, 2, 129, 300, 64, 48), ["causal", "window(size=90)"]),
    ((1, 2, 2, 65, 40, 17, 16), ["causal", "rope(lanes=8)", "alibi"]),
]


def with_alibi(masks, params, heads):
    return params | ({"alibi.slopes": torch.rand(heads)} if "alibi" in masks else {})


@pytest.mark.parametrize("target, case", targets.in_turn(CASES, targets.F32), ids=str)
@pytest.mark.parametrize("name", ["shared", "own", "waves"])
def test_matches_the_reference(target, name, case):
    shape, others = case
    width = {1: 1, 63: 7, 129: 64, 65: 16}[shape[3]]
    params = with_alibi(others, params_of(name, width, shape), shape[1])
    compare(target, [*others, use_of(name, width)], params, shape)


@pytest.mark.parametrize("width", [1, 7, 16, 64])
@pytest.mark.parametrize("name", ["shared", "own"])
def test_bf16_matches_the_reference(name, width):
    shape = (2, 2, 1, 70, 70, 48, 40)
    params = params_of(name, width, shape)
    compare("cpu:avx512bf16", ["causal", use_of(name, width)], params, shape, draws=0.25)


@pytest.mark.parametrize("positions", ["shared", "batch"])
def test_positions(positions):
    shape = (2, 2, 1, 66, 66, 16, 16)
    compare(
        "cpu:avx512", ["causal", use_of("waves", 9)], params_of("waves", 9, shape), shape,
        positions_of(positions, shape),
    )  # fmt: skip


@pytest.mark.parametrize("target", list(targets.DTYPES))
def test_several_sites(target):
    shape = (2, 2, 2, 40, 40, 20, 16)
    params = params_of("own", 5, shape) | params_of("waves", 18, shape)
    compare(target, ["causal", use_of("own", 5), use_of("waves", 18)], params, shape, draws=0.3)


@sextant.columns(4)
def twice(at, a: sextant.Param("query", 4, given=True)):
    return a[at.query_row, at.lane], a[at.key, at.lane]


def test_one_parameter_on_both_sides():
    shape = (2, 2, 2, 70, 70, 16, 16)
    compare("cpu:avx512", [twice], {"twice.a": torch.randn(70, 4)}, shape)


SAME_TABLE = """\
pos.encoding @same {
  %two = arith.constant 2 : i32
  %five = arith.constant 5 : i32
  %q = pos.extent query
  %a = pos.param "a" : tensor<?x?xf32> dims(%q, %five)
  %b = pos.param "b" : tensor<?x?xf32> dims(%q, %five)
  pos.columns %two {
    %t = pos.lane
    %i = pos.tensor_row query
    %j = pos.index key
    %x = pos.read %a[%i, %t] : tensor<?x?xf32>
    %y = pos.read %b[%j, %t] : tensor<?x?xf32>
    pos.yield %x, %y : f32, f32
  }
  pos.columns %five {
    %t = pos.lane
    %i = pos.tensor_row query
    %j = pos.index key
    %x = pos.read %a[%i, %t] : tensor<?x?xf32>
    %y = pos.read %b[%j, %t] : tensor<?x?xf32>
    pos.yield %x, %y : f32, f32
  }
}
"""


@pytest.mark.parametrize("target", list(targets.DTYPES))
def test_sites_that_read_the_same(target, search_path):
    """One table with two gradients, and of more columns than one site appends."""
    search_path({"same": SAME_TABLE})
    params = {"same.a": torch.randn(50, 5), "same.b": torch.randn(50, 5)}
    compare(target, ["same"], params, (2, 2, 2, 50, 50, 16, 16), draws=0.3)


@sextant.encoding(all_heads=True)
def mixed(scores, at, w: sextant.Param("heads", "heads")):
    return scores + sextant.contract(w, sextant.tanh(scores))


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_beside_a_score_of_all_heads(target):
    shape = (2, 4, 2, 60, 70, 24, 16)
    params = params_of("own", 7, shape) | {"mixed.w": 0.2 * torch.randn(4, 4)}
    compare(target, ["causal", use_of("own", 7), mixed], params, shape)


def test_other_places_beside_it():
    """A product with a table sees the row as it entered, without columns."""
    shape = (1, 2, 2, 65, 65, 16, 24)
    params = params_of("shared", 7, shape) | {
        "shaw.ak": torch.randn(33, 16),
        "shaw.av": torch.randn(33, 24),
        "cope.table": torch.randn(16, 64),
    }
    compare("cpu:avx512", ["causal", "cope", use_of("shared", 7), "shaw"], params, shape)


def test_transposed_operands_and_one_query():
    targets.require("cpu:avx512")
    params = params_of("shared", 7, (2, 3, 3, 33, 33))
    q, k, v = (torch.randn(2, 33, 3, 20).transpose(1, 2) for _ in range(3))
    use = use_of("shared", 7)
    want = sextant.attention(q, k, v, [use], params, target="reference")
    got = sextant.attention(q, k, v, [use], params, target="cpu:avx512")
    tolerance = 2e-6  # of outputs of size 1: sums of 33 products
    torch.testing.assert_close(got, want, rtol=0, atol=tolerance)
    last = {"shared.a": params["shared.a"][-1:], "shared.b": params["shared.b"]}
    row = sextant.attention(q[:, :, -1:], k, v, [use], last, target="cpu:avx512")
    torch.testing.assert_close(row, want[:, :, -1:], rtol=0, atol=tolerance)


@sextant.columns(0)
def nothing(at, a: sextant.Param("query", 1, given=True)):
    return a[at.query_row, 0], 1.0


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_no_columns_are_none(target):
    q, a = torch.randn(1, 2, 20, 16), torch.randn(20, 1, requires_grad=True)
    want = sextant.attention(q, q, q, target=target)
    got = sextant.attention(q, q, q, [nothing], {"nothing.a": a}, target=target)
    assert torch.equal(got, want)
    got.sum().backward()
    assert not a.grad.any()


def test_results_do_not_depend_on_threads():
    """C9, also where many items add to one table."""
    q = torch.randn(3, 4, 150, 16)
    use = use_of("shared", 7)
    params = params_of("shared", 7, (3, 4, 4, 150, 150))
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            named = {n: t.clone().requires_grad_() for n, t in params.items()}
            out = sextant.attention(q, q, q, ["causal", use], named)
            out.square().sum().backward()
            results.append([t.grad for t in named.values()])
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*results):
        assert torch.equal(one, two)


def test_a_bias_of_two_columns_is_alibi():
    q, k, v = (torch.randn(1, 2, 90, 32) for _ in range(3))
    m = torch.tensor([0.5, 0.03])
    got = sextant.attention(q, k, v, ["causal", slope], {"slope.m": m * 32**0.5})
    want = sextant.attention(q, k, v, ["causal", "alibi"], {"alibi.slopes": m})
    # Terms of 45 that cancel in f32 leave 45 times its rounding.
    torch.testing.assert_close(got, want, rtol=0, atol=90 * FLOOR)


@pytest.mark.parametrize(
    "values, message",
    [
        (lambda at: (at.key * 1.0, 1.0), "the query's column must not vary with the key"),
        (lambda at: (1.0, at.query * 1.0), "the key's column must not vary with the query"),
        (lambda at: (at.offset * 1.0, 1.0), "at.offset has no meaning in columns"),
        (lambda at: 1.0, "columns return 2 values"),
        (lambda at: (1.0, at.key), None),
    ],
)
def test_bad_columns(values, message):
    q = torch.randn(1, 1, 5, 16)

    def call():
        @sextant.columns(1)
        def bad(at):
            return values(at)

        return sextant.attention(q, q, q, [bad])

    if message is None:
        assert call().isfinite().all()
        return
    with pytest.raises(sextant.CompileError, match=message):
        call()


def test_a_negative_count_is_refused():
    q = torch.randn(1, 1, 5, 16)

    @sextant.columns("n")
    def some(at, *, n=1):
        return 1.0, 1.0

    with pytest.raises(sextant.CompileError, match="appends -2 columns"):
        sextant.attention(q, q, q, [some(n=-2)])


@sextant.columns("width")
def table(
    at,
    a: sextant.Param("key", "width", given=True),
    b: sextant.Param("rows", "width"),
    speed: sextant.PerHead,
    *,
    width=3,
    rows=20,
):
    """Tables without a row for each index: NaN where they are read outside."""
    return a[at.query, at.lane] * sextant.cos(speed[at.head] * at.query), b[at.key, at.lane]


@sextant.mask
def in_table(at, *, rows=20):
    return (at.key <= at.query) & (at.key < rows)


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("lengths", [(2, 1), (40, 33), (50, 18)], ids=str)
def test_columns_that_nothing_sees_may_be_nan(target, lengths):
    """Queries before the first key and keys past the table: neither the operands nor
    what else columns are made of gets a NaN."""
    targets.require(target)
    queries, keys = lengths
    q, k, v = (torch.randn(2, 2, n, 16) for n in (queries, keys, keys))
    params = {"a": torch.randn(keys, 3), "b": torch.randn(20, 3), "speed": torch.rand(2)}
    params = {f"table.{n}": t for n, t in params.items()}
    inputs = attention_contract.Inputs.drawn(q, k, v, params)
    attention_contract.compare([in_table, table], inputs, target, torch.float32)
