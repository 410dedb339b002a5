"""A part of the heads or a chunk of the queries is what the whole has there."""

import pytest
import torch

import sextant
from sextant import definitions

pytest.importorskip("sextant._compiler")

BATCH, HEADS, DIM, QUERIES, KEYS = 2, 4, 8, 45, 61


@pytest.fixture(autouse=True)
def seeded(seed):
    torch.manual_seed(seed)


def rows(heads=HEADS, length=KEYS, dtype=torch.float32):
    return torch.randn(BATCH, heads, length, DIM, dtype=dtype).requires_grad_()


def params_of(uses, heads=HEADS, dtype=torch.float32):
    """Initial values that are trained, and what is given at every call."""
    params = sextant.init_params(
        uses, heads=heads, head_dim=DIM, length=KEYS, dtype=dtype, requires_grad=True
    )
    extents = {"batch": BATCH, "heads": heads, "kv_heads": heads, "head_dim": DIM,
               "value_dim": DIM, "model": heads * DIM, "query": QUERIES, "key": KEYS}  # fmt: skip
    found = definitions.signature(uses)
    for param in found.params:
        shape = definitions.shapes(found, extents)[param.name]
        if param.given and param.element == "i32":
            params[param.name] = torch.randint(1, 4, shape).cumsum(-1).to(torch.int32)
        elif param.given:
            params[param.name] = torch.rand(shape, dtype=dtype).neg().requires_grad_()
    return params


def gradients(output, wanted, seed):
    leaves = [t for t in wanted if t.requires_grad]
    return torch.autograd.grad(output, leaves, seed, allow_unused=True)


def same(got, want):
    """Tiles begin elsewhere: sums in another order."""
    torch.testing.assert_close(got, want, atol=2e-5, rtol=2e-5)


CHUNKS = [
    ["causal"],
    ["window(size=9)"],
    ["prefix"],
    ["document"],
    ["padding"],
    ["causal", "near=window(size=30)", "alibi", "rope"],
    ["kerple_log", "softcap"],
    ["causal", "t5_bias"],
    ["causal", "shaw(reach=7)"],
    ["fire"],
    ["forgetting"],
    ["causal", "cope"],
    ["transformer_xl"],
    ["liere(axes=1)"],
    ["causal", "dape(alibi)"],
]


@pytest.mark.parametrize("uses", CHUNKS, ids=lambda uses: "+".join(uses))
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_chunk_of_queries(uses, target):
    if target == "reference" and CHUNKS.index(uses) % 3 == 2:
        pytest.skip("two thirds of the cases show the reference")
    q, k, v = rows(length=QUERIES), rows(), rows()
    params = params_of(uses)
    leaves = [k, v, *params.values()]
    want, want_lse = sextant.attention(q, k, v, uses, params, return_lse=True, target=target)
    for first, last in ((0, 17), (13, 40), (40, 45)):
        chunk = q.detach()[:, :, first:last].requires_grad_()
        got, lse = sextant.attention(
            chunk, k, v, uses, params, return_lse=True, target=target,
            query_offset=KEYS - QUERIES + first,
        )  # fmt: skip
        same(got, want[:, :, first:last])
        same(lse, want_lse[:, :, first:last])
        if first != 13:
            continue
        seed = torch.zeros_like(want)
        seed[:, :, first:last] = torch.randn_like(got)
        part = gradients(got, [chunk, *leaves], seed[:, :, first:last])
        whole = gradients(want, [q, *leaves], seed)
        same(part[0], whole[0][:, :, first:last])
        for a, b in zip(part[1:], whole[1:]):
            same(a, b)


def test_a_chunk_under_positions_of_keys():
    """Coordinates of queries that are not given are their indices."""
    q, k, v = rows(length=QUERIES), rows(), rows()
    uses, place = ["causal", "alibi"], torch.arange(KEYS) * 2
    want = sextant.attention(q, k, v, uses, key_positions=place)
    offset = KEYS - QUERIES + 5
    got = sextant.attention(
        q[:, :, 5:20], k, v, uses, key_positions=place, query_offset=offset
    )
    same(got, want[:, :, 5:20])


def test_more_queries_than_keys_in_chunks():
    q, k, v = rows(length=KEYS), rows(length=QUERIES), rows(length=QUERIES)
    want = sextant.attention(q, k, v, ["causal", "alibi"])
    first = QUERIES - KEYS
    for low, high in ((0, 10), (10, 30)):
        got = sextant.attention(
            q[:, :, low:high], k, v, ["causal", "alibi"], query_offset=first + low
        )
        same(got, want[:, :, low:high])


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("kv_heads", [6, 3])
def test_a_part_of_the_heads(kv_heads, target):
    uses = ["causal", "alibi", "kerple_log"]
    q, k, v = rows(6), rows(kv_heads), rows(kv_heads)
    params = sextant.init_params(uses, heads=6, head_dim=DIM, seed=3, requires_grad=True)
    trained = [name for name, tensor in params.items() if tensor.requires_grad]
    assert trained == ["kerple_log.r1", "kerple_log.r2"]
    call = dict(enable_gqa=kv_heads != 6, target=target)
    want = sextant.attention(q, k, v, uses, params, **call)
    seed = torch.randn_like(want)
    whole = gradients(want, [q, k, v, *params.values()], seed)
    for first, last in ((0, 4), (4, 6)):
        heads = slice(first, last)
        own = slice(first * kv_heads // 6, last * kv_heads // 6)
        part = dict(heads_total=6, head_offset=first)
        mine = sextant.init_params(
            uses, heads=last - first, kv_heads=own.stop - own.start, head_dim=DIM, seed=3,
            requires_grad=True, **part,
        )  # fmt: skip
        for name, tensor in mine.items():
            assert torch.equal(tensor, params[name][heads])
        leaves = [t[:, at].detach().requires_grad_() for t, at in ((q, heads), (k, own), (v, own))]
        got = sextant.attention(*leaves, uses, mine, **part, **call)
        same(got, want[:, heads])
        found = gradients(got, [*leaves, *mine.values()], seed[:, heads])
        of_whole = [t[:, at] for t, at in zip(whole, (heads, own, own))]
        of_whole += [t[heads] for t in whole[3:]]
        for a, b in zip(found, of_whole, strict=True):
            same(a, b)


def test_parts_of_the_heads_that_are_none():
    q = rows(2)
    for part, message in (
        (dict(heads_total=4, head_offset=3), "heads 3 to 4 are not among heads_total=4"),
        (dict(head_offset=1), "heads 1 to 2 are not among heads_total=2"),
        (dict(heads_total=0), "heads_total must be at least 1, got 0"),
        (dict(heads_total=4, head_offset=-1), "head_offset must not be negative"),
    ):
        with pytest.raises(ValueError, match=message):
            sextant.attention(q, q, q, ["alibi"], **part)
    with pytest.raises(ValueError, match="head_offset=1 are not multiples of 2"):
        sextant.attention(
            q, q[:, :1], q[:, :1], ["alibi"], heads_total=4, head_offset=1, enable_gqa=True
        )
    for use in ("sandwich", "talking_heads"):
        params = sextant.init_params([use], heads=2, head_dim=DIM)
        with pytest.raises(ValueError, match=f"{use} computes with the number of its head"):
            sextant.attention(q, q, q, [use], params, heads_total=4, head_offset=2)
    with pytest.raises(ValueError, match="query_offset=1 puts the last of 61 queries beyond"):
        sextant.attention(q, q, q, ["causal"], query_offset=1)


def test_a_module_with_a_part_of_the_heads():
    torch.manual_seed(5)
    part = sextant.nn.Attention(32, 2, ["causal", "alibi"], heads_total=4, head_offset=2)
    assert part.head_dim == 8 and part.query.weight.shape == (16, 32)
    x = torch.randn(2, 7, 32)
    q, k, v = (
        f(x).view(2, 7, 2, 8).transpose(1, 2) for f in (part.query, part.key, part.value)
    )
    slopes = sextant.init_params(["alibi"], heads=4, head_dim=8, frozen=True)["alibi.slopes"]
    attended = sextant.attention(q, k, v, ["causal", "alibi"], {"alibi.slopes": slopes[2:]})
    same(part(x), part.output(attended.transpose(1, 2).reshape(2, 7, 16)))


def test_projections_that_are_cut_are_no_whole():
    """As those of a module that was built whole under `ColwiseParallel`."""
    layer = sextant.nn.Attention(32, 4)
    layer.key = torch.nn.Linear(32, 16)
    message = "^key projects to 16 lanes, not to those of 4 heads of 8: .* heads_total and head_offset"
    with pytest.raises(ValueError, match=message):
        layer(torch.randn(2, 7, 32))
