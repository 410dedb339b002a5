"""Where encodings are known to lose their numbers: far keys in bf16, distance 0, the
edges of buckets, long counts. Expected values come from formulas in float64."""

import math

import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")
pytest.importorskip("sextant._compiler")

from sextant import backend, probe

CPU = [t for t in backend.compiler().list_targets() if t.startswith("cpu:")]


@pytest.mark.parametrize("target", CPU)
@pytest.mark.parametrize("scaled", ["false", "true"])
def test_alibi_at_16384_in_bf16(target, scaled):
    """The slopes are felt between the last keys, whose indices bf16 cannot tell apart
    (33 of them would have one bias, written as +m j).

    The output is rounded to bf16, and so are probabilities: 2^-8 each.
    """
    keys, dim, heads = 16384, 64, 12
    query = torch.zeros(1, heads, 1, dim, dtype=torch.bfloat16)
    key = torch.randn(1, heads, keys, dim).bfloat16()
    value = torch.randn(1, heads, keys, dim).bfloat16()
    use = f"alibi(scaled={scaled})"
    out, lse = sextant.attention(
        query, key, value, ["causal", use], return_lse=True, target=target
    )
    steps = [8 * (h + 1) / 8 for h in range(8)] + [8 * (2 * h + 1) / 16 for h in range(4)]
    slopes = torch.tensor([2.0**-s for s in steps], dtype=torch.float64)
    slopes = slopes / math.sqrt(dim) if scaled == "true" else slopes
    bias = -slopes[:, None] * torch.arange(keys - 1, -1, -1)
    want = torch.einsum("hj,hjd->hd", torch.softmax(bias, -1), value[0].double())
    torch.testing.assert_close(out[0, :, 0].double(), want, atol=2**-7, rtol=2**-7)
    torch.testing.assert_close(
        lse[0, :, 0].double(), torch.logsumexp(bias, -1), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("target", ["reference", *CPU])
@pytest.mark.parametrize("name", ["kerple_power", "kerple_multiplicative", "kerple_log"])
def test_kerple_at_distance_0(target, name):
    """0 to the power r is 0, and so are its derivatives, 0 log 0 among them: one key
    at the query's place has nothing to learn from."""
    params = sextant.init_params([name], heads=3, head_dim=16, requires_grad=True)
    q, k, v = (torch.randn(2, 3, 1, 16) for _ in range(3))
    _, lse = sextant.attention(q, k, v, ["causal", name], params, return_lse=True, target=target)
    score = (q * k).sum(-1) / 4
    torch.testing.assert_close(lse, score, atol=1e-6, rtol=1e-6)
    lse.sum().backward()
    for param in params.values():
        assert (param.grad == 0).all()


# First distances of the buckets after the exact ones, by exact integer arithmetic on
# 16 (128 / 16)^(b / 16), and for each side of both, 8 (128 / 8)^(b / 8).
EDGES = [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
SIDE_EDGES = [8, 12, 16, 23, 32, 46, 64, 91]


@pytest.mark.parametrize("target", ["reference", *CPU])
def test_buckets_begin_where_integers_say(target):
    """Powers of two are edges, where a fast logarithm falls on either side."""
    bucket = [sum(d >= edge for edge in EDGES) + min(d, 16) - (d >= 16) for d in range(300)]
    assert bucket[15:17] == [15, 16] and bucket[112:114] == [30, 31] and bucket[-1] == 31
    check_buckets("t5_bias", bucket, target, side=1)


@pytest.mark.parametrize("target", ["reference", *CPU])
@pytest.mark.parametrize("side", [1, -1], ids=["before", "after"])
def test_buckets_of_both_sides(target, side):
    bucket = [sum(d >= edge for edge in SIDE_EDGES) + min(d, 8) - (d >= 8) for d in range(300)]
    if side < 0:
        bucket = [0] + [16 + b for b in bucket[1:]]
    check_buckets("t5_bias(bidirectional=true)", bucket, target, side)


def check_buckets(use, bucket, target, side):
    """A table of whole numbers comes back, up to f32, in a row for each distance."""
    count = len(bucket)
    table = torch.arange(32.0)[:, None]
    zeros = torch.zeros(count, 1, 1, 16)
    query = torch.full((count, 1, 1), 300, dtype=torch.int32)
    key = query - side * torch.arange(count, dtype=torch.int32)[:, None, None]
    _, lse = sextant.attention(
        zeros, zeros, zeros, [use], {"t5_bias.table": table}, return_lse=True, target=target,
        query_positions=query, key_positions=key,
    )  # fmt: skip
    assert ((lse.flatten() - torch.tensor(bucket)).abs() < 1e-4).all()


@pytest.mark.parametrize("target", CPU)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_scan_counts_beyond_256_in_f32(target, dtype):
    """Gates of 1, so that a key's position is its distance, and a bias of an eighth for
    every 64. A sum in bf16 would stop at 256, half of a unit instead of two.

    All numbers are exact in bf16. 1e-4: gates are sigmoid(20), 1000 of them are summed.
    """
    length, dim, positions = 1000, 16, 1024
    query = torch.zeros(1, 1, length, dim)
    query[..., 0] = 8.0
    key = torch.zeros(1, 1, length, dim)
    key[..., 0] = 10.0  # 8 * 10 / sqrt(16)
    table = torch.zeros(dim, positions)
    table[0] = (torch.arange(positions) // 64) / 64
    _, lse = sextant.attention(
        query.to(dtype), key.to(dtype), key.to(dtype), ["causal", f"cope(positions={positions})"],
        {"cope.table": table}, return_lse=True, target=target,
    )  # fmt: skip
    counts = torch.arange(length)[:, None] - torch.arange(length) + 1
    scores = 20 + (counts // 64).double() / 8
    scores = scores.masked_fill(counts < 1, -torch.inf)
    torch.testing.assert_close(
        lse[0, 0].double(), torch.logsumexp(scores, -1), atol=1e-4, rtol=0
    )


def test_biases_of_far_keys_do_not_underflow():
    """What is read off attention is the bias itself, where its exponential is 0."""
    params = {"kerple_power.r1": torch.tensor([2.0]), "kerple_power.r2": torch.tensor([2.0])}
    bias = probe.bias_over_distance(["kerple_power"], params, heads=1, head_dim=4, distances=512)
    torch.testing.assert_close(bias[0], -2.0 * torch.arange(512).double() ** 2)


@pytest.mark.parametrize("target", ["reference", *CPU])
def test_turns_stay_rotations_far_away(target):
    """With unit 1 the fastest plane turns by some 10^5 rad at position 16384, of which
    f32 keeps two digits. Angles are made in double: a row that turns keeps its length,
    and what stands at one place keeps its product.

    Rows are rounded to f32 once: a product of 32 terms is off by some 1e-6 of itself.
    """
    params = sextant.init_params(["liere"], heads=2, head_dim=32)
    x, y = torch.randn(4, 2, 1, 32), torch.randn(4, 2, 1, 32)
    at = torch.tensor([[0, 0], [1, 3], [777, 16384], [16384, 16384]], dtype=torch.int32)
    at = at[:, None]
    for q, k in ((x, x), (x, y)):
        _, lse = sextant.attention(
            q, k, k, ["liere"], params, query_positions=at, key_positions=at,
            return_lse=True, target=target,
        )  # fmt: skip
        want = (q.double() * k.double()).sum(-1) / math.sqrt(32)
        torch.testing.assert_close(lse.double(), want, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_closed_gates_have_gradients(target):
    """Scores of -100: the exponential of minus a score overflows f32. Scores are
    rounded at 2^-18, gradients of tables sum that over the rows."""
    query, key = torch.full((1, 2, 40, 16), -10.0), 2.4 + 0.2 * torch.rand(1, 2, 40, 16)
    tensors = [query, key, torch.randn(1, 2, 40, 16), torch.randn(16, 64)]

    def gradients(dtype, target):
        *rows, table = leaves = [t.to(dtype).requires_grad_() for t in tensors]
        out = sextant.attention(*rows, ["causal", "cope"], {"cope.table": table}, target=target)
        return torch.autograd.grad(out.square().sum(), leaves)

    exact = gradients(torch.float64, "reference")
    for got, want in zip(gradients(torch.float32, target), exact):
        size = max(1.0, want.abs().max().item())
        torch.testing.assert_close(got.double(), want, atol=5e-4 * size, rtol=0)
