"""Every encoding against plain numpy (plain.py), at the reference target in f64.

Inputs are fresh per run; the seed is printed. Tolerance: the payload's constants
are f32 in a definition, so a literal that f32 cannot hold differs by 6e-8 of
itself; all others are float64 rounding. 1e-6 on values of order 1 holds both.
"""

import functools

import numpy as np
import plain
import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")
plain_torch = pytest.importorskip("plain_torch")
contextual = pytest.importorskip("contextual")
exact_positions = pytest.importorskip("exact_positions")
seqpe_model = pytest.importorskip("seqpe_model")
tape_model = pytest.importorskip("tape_model")

TOLERANCE = 1e-6


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


def rows(rng, *shape):
    return rng.standard_normal(shape)


# (B, H, Hkv, Lq, Lk, d)
SHORT, LONG = (2, 3, 3, 9, 9, 8), (2, 3, 1, 40, 300, 8)


def check(rng, uses, scores=(), masks=(), maps=(), params=None, shape=None, positions=None):
    """Compares output and log-sum-exp at a short and at a long shape, or at that which
    positions and parameters are made for."""
    shapes = [SHORT, LONG] if positions is None else [SHORT]
    for each in [shape] if shape else shapes:
        check_at(each, rng, uses, scores, masks, maps, params, positions)


def check_at(shape, rng, uses, scores, masks, maps, params, positions):
    batch, heads, kv_heads, lq, lk, dim = shape
    q = rows(rng, batch, heads, lq, dim)
    k = rows(rng, batch, kv_heads, lk, dim)
    v = rows(rng, batch, kv_heads, lk, dim + 4)
    qpos, kpos = positions if positions is not None else (None, None)
    want, want_lse = plain.attention(q, k, v, scores, masks, maps, qpos, kpos)
    tensors = {name: torch.from_numpy(value) for name, value in (params or {}).items()}
    given = {}
    if positions is not None:
        given = {
            "query_positions": torch.from_numpy(qpos),
            "key_positions": torch.from_numpy(kpos),
        }
    got, got_lse = sextant.attention(
        torch.from_numpy(q), torch.from_numpy(k), torch.from_numpy(v), uses, tensors,
        return_lse=True, enable_gqa=True, target="reference", **given,
    )  # fmt: skip
    np.testing.assert_allclose(got.numpy(), want, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(got_lse.numpy(), want_lse, rtol=TOLERANCE, atol=TOLERANCE)


SHAPES = [SHORT, (2, 4, 2, 5, 11, 8), (1, 2, 1, 1, 7, 8), (1, 4, 2, 40, 300, 8)]


@pytest.mark.parametrize("shape", SHAPES)
def test_none_and_causal(rng, shape):
    check(rng, [], shape=shape)
    check(rng, ["causal"], masks=[plain.causal], shape=shape)


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_window(rng, two_sided, shape):
    mask = functools.partial(plain.window, size=3, two_sided=two_sided)
    use = f"window(size=3, two_sided={str(two_sided).lower()})"
    check(rng, [use], masks=[mask], shape=shape)


def test_two_windows(rng):
    masks = [
        functools.partial(plain.window, size=6, two_sided=True),
        functools.partial(plain.window, size=4),
    ]
    check(rng, ["far=window(size=6, two_sided=true)", "near=window(size=4)"], masks=masks)


@pytest.mark.parametrize("batch", [1, 2])
def test_prefix(rng, batch):
    length = rng.integers(0, 9, batch).astype(np.int32)
    check(rng, ["prefix"], masks=[functools.partial(plain.prefix, length=length)],
          params={"prefix.length": length})  # fmt: skip


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("shape", SHAPES[:2])
def test_document(rng, batch, shape):
    ids = np.sort(rng.integers(0, 3, (batch, shape[4])).astype(np.int32), axis=1)
    check(rng, ["document"], masks=[functools.partial(plain.document, ids=ids)],
          params={"document.ids": ids}, shape=shape)  # fmt: skip


@pytest.mark.parametrize("batch", [1, 2])
def test_padding(rng, batch):
    visible = rng.integers(0, 2, (batch, 9)).astype(np.int32)
    check(rng, ["padding"], masks=[functools.partial(plain.padding, visible=visible)],
          params={"padding.visible": visible}, shape=SHORT)  # fmt: skip


def test_rows_that_see_nothing(rng):
    """C4: zeros and minus infinity."""
    visible = np.zeros((1, 9), np.int32)
    check(rng, ["padding"], masks=[functools.partial(plain.padding, visible=visible)],
          params={"padding.visible": visible}, shape=SHORT)  # fmt: skip


@pytest.mark.parametrize("cap", [50.0, 0.5])
def test_softcap(rng, cap):
    check(rng, [f"softcap(cap={cap})"], [functools.partial(plain.softcap, cap=cap)])


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("later_half", [False, True])
@pytest.mark.parametrize("heads", [1, 4, 6])
def test_alibi(rng, scaled, later_half, heads):
    use = f"alibi(scaled={str(scaled).lower()}, later_half={str(later_half).lower()})"
    term = functools.partial(plain.alibi, scaled=scaled, later_half=later_half)
    for lengths in ((9, 9), (40, 300)):
        check(rng, [use], [term], shape=(1, heads, heads, *lengths, 8))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("times_sqrt_dim", [False, True])
@pytest.mark.parametrize("buckets, far", [(8, 16), (32, 128)])
def test_t5_bias(rng, bidirectional, times_sqrt_dim, buckets, far):
    table = rows(rng, buckets, 2)
    options = dict(
        buckets=buckets, max_distance=far, bidirectional=bidirectional,
        times_sqrt_dim=times_sqrt_dim,
    )  # fmt: skip
    text = ", ".join(f"{name}={str(value).lower()}" for name, value in options.items())
    term = functools.partial(plain.t5_bias, table=table, **options)
    # Positions with gaps reach every bucket; both signs of the offset occur.
    coords = np.sort(rng.choice(300, 24, replace=False)).astype(np.int32)[None]
    check(rng, [f"t5_bias({text})"], [term], params={"t5_bias.table": table},
          shape=(1, 2, 2, 24, 24, 8), positions=(coords, coords))  # fmt: skip


@pytest.mark.parametrize("name", ["kerple_log", "kerple_power"])
@pytest.mark.parametrize("shape", SHAPES)
def test_kerple(rng, name, shape):
    r1, r2 = rng.uniform(0.1, 2, (2, shape[1]))
    term = functools.partial(getattr(plain, name), r1=r1, r2=r2)
    check(rng, ["causal", name], [term], [plain.causal],
          params={f"{name}.r1": r1, f"{name}.r2": r2}, shape=shape)  # fmt: skip


@pytest.mark.parametrize("width", [128, 6])
def test_sandwich(rng, width):
    check(rng, [f"sandwich(width={width})"],
          [functools.partial(plain.sandwich, width=width)])  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_talking_heads(rng, shape):
    pre = rows(rng, shape[1], shape[1])
    check(rng, ["talking_heads"], [functools.partial(plain.talking_heads, pre=pre)],
          params={"talking_heads.pre": pre}, shape=shape)  # fmt: skip


@pytest.mark.parametrize("variant", ["concat_residual", "concat", "add_residual", "bias_residual"])
@pytest.mark.parametrize("shape", SHAPES)
def test_dape(rng, variant, shape):
    heads = shape[1]
    r1, r2 = rng.uniform(0.1, 2, (2, heads))
    host = functools.partial(plain.kerple_log, r1=r1, r2=r2)
    inputs = heads if variant in ("add_residual", "bias_residual") else 2 * heads
    own = {"w1": rows(rng, 5, inputs), "b1": rows(rng, 5), "w2": rows(rng, heads, 5),
           "b2": rows(rng, heads)}  # fmt: skip
    params = {f"dape.{name}": value for name, value in own.items()}
    params |= {"dape.kerple_log.r1": r1, "dape.kerple_log.r2": r2}
    term = functools.partial(plain.dape, host=host, variant=variant, **own)
    check(rng, ["causal", f"dape(kerple_log, hidden=5, variant={variant})"], [term],
          [plain.causal], params=params, shape=shape)  # fmt: skip


ROPE = [
    {},
    {"pairing": "interleaved"},
    {"base": 500000.0, "lanes": 4},
    {"pairing": "interleaved", "lanes": 6, "scaling": "linear", "factor": 4.0},
]


@pytest.mark.parametrize("options", ROPE)
@pytest.mark.parametrize("shape", SHAPES)
def test_rope(rng, options, shape):
    text = ", ".join(f"{name}={value}" for name, value in options.items())
    check(rng, [f"rope({text})"], maps=[functools.partial(plain.rope, **options)],
          shape=shape)  # fmt: skip


def test_rope_far_away(rng):
    """Angles are exact at any coordinate (f32 angles would be off by 0.06)."""
    coords = (np.arange(9) * 7 + 10**6).astype(np.int32)[None]
    check(rng, ["rope"], maps=[plain.rope], positions=(coords, coords))


def test_order_of_scores(rng):
    """C2: score payloads act in the order of the list, masks after them."""
    r1, r2 = rng.uniform(0.1, 2, (2, 3))
    kerple = functools.partial(plain.kerple_log, r1=r1, r2=r2)
    cap = functools.partial(plain.softcap, cap=1.5)
    params = {"kerple_log.r1": r1, "kerple_log.r2": r2}
    check(rng, ["causal", "kerple_log", "softcap(cap=1.5)"], [kerple, cap],
          [plain.causal], params=params)  # fmt: skip
    check(rng, ["softcap(cap=1.5)", "kerple_log", "causal"], [cap, kerple],
          [plain.causal], params=params)  # fmt: skip


def test_masks_look_at_indices(rng):
    """Causal compares indices, biases coordinates."""
    coords = rng.integers(0, 50, (2, 9)).astype(np.int32)
    check(rng, ["causal", "alibi"], [plain.alibi], [plain.causal],
          positions=(coords, coords))  # fmt: skip


@sextant.encoding
def lifted(score, at, lift: sextant.PerHead):
    """Terms that are the same for all keys: they move the log-sum-exp only."""
    return score + lift[at.head] - sextant.sqrt(sextant.to_float(at.query) + 1.0)


@pytest.mark.parametrize("target, dtype", [("reference", "float64"), ("cpu", "float32")])
@pytest.mark.parametrize("capped", [False, True])
def test_row_constants(rng, target, dtype, capped):
    """Dropped from the scores, they are back in the log-sum-exp and its gradient;
    before a soft cap they are not dropped."""
    q, k, v = rng.standard_normal((3, 2, 3, 9, 8))
    lift = rng.standard_normal(3)

    def term(score, at):
        return score + lift[at.head] - np.sqrt(at.query + 1.0)

    cap = functools.partial(plain.softcap, cap=2.0)
    want, want_lse = plain.attention(q, k, v, [term, cap] if capped else [term], [plain.causal])
    tensors = [torch.tensor(x, dtype=getattr(torch, dtype)) for x in (q, k, v, lift)]
    tensors[3].requires_grad_()
    got, lse = sextant.attention(
        *tensors[:3], ["causal", lifted] + ["softcap(cap=2.0)"] * capped,
        {"lifted.lift": tensors[3]}, return_lse=True, target=target,
    )  # fmt: skip
    # f32: sums of 8 products and exponentials of order 1.
    tolerance = TOLERANCE if dtype == "float64" else 2e-5
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(lse.detach().numpy(), want_lse, rtol=tolerance, atol=tolerance)
    if not capped:
        # The output does not move; each row's log-sum-exp moves by the lift.
        weight = torch.tensor(rng.standard_normal(lse.shape), dtype=lse.dtype)
        (got.sum() + (lse * weight).sum()).backward()
        np.testing.assert_allclose(
            tensors[3].grad.numpy(), weight.sum((0, 2)).numpy(), rtol=1e-4, atol=1e-4
        )


def check_embedding(rng, use, wanted, params=None, length=9, positions=None):
    x = rows(rng, 2, length, 8)
    coords = np.arange(length)[None] if positions is None else positions
    tensors = {name: torch.from_numpy(value) for name, value in (params or {}).items()}
    given = {} if positions is None else {"positions": torch.from_numpy(positions)}
    got = sextant.map_rows(
        torch.from_numpy(x), [use], tensors, target="reference", **given
    )
    np.testing.assert_allclose(
        got.numpy(), wanted(x, coords), rtol=TOLERANCE, atol=TOLERANCE
    )


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_sinusoidal(rng, layout):
    wanted = functools.partial(plain.sinusoidal, layout=layout)
    check_embedding(rng, f"sinusoidal(layout={layout})", wanted)
    positions = rng.integers(0, 10**5, (1, 9)).astype(np.int32)
    check_embedding(rng, f"sinusoidal(layout={layout})", wanted, positions=positions)


@pytest.mark.parametrize("train_length", [0, 4, 9, 20])
def test_learned(rng, train_length):
    table = rows(rng, 16, 8)
    train_length = min(train_length, 16)
    wanted = functools.partial(plain.learned, table=table, train_length=train_length)
    use = f"learned(rows=16, train_length={train_length})"
    check_embedding(rng, use, wanted, {"learned.table": table})
    positions = rng.integers(0, 12, (1, 9)).astype(np.int32)
    check_embedding(rng, use, wanted, {"learned.table": table}, positions=positions)


def test_nothing_is_left_out():
    """Every installed encoding has its formula in plain.py, or with all gradients in
    another of the pages."""
    pages = (plain, plain_torch, contextual, exact_positions, seqpe_model, tape_model)
    for info in sextant.encodings():
        assert any(hasattr(page, info.name) for page in pages), info.name
