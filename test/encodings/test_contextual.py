"""Contextual encodings against plain PyTorch in float64 (contextual.py): output,
log-sum-exp and the gradients of query, key, value and every parameter.

Inputs are fresh per run; the seed is printed. The reference computes in float64 as
well, but constants of a definition are f32 where f32 holds them exactly, so only
float64 rounding is between the two: 1e-9 on values of order 1 to 100.
"""


import contextual
import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")

TOLERANCE = 1e-9

MASKS = {
    "": ([], contextual.everything),
    "causal": (["causal"], contextual.causal),
    "window": (["window(size=4)"], contextual.window(4)),
}
# (B, H, Hkv, Lq, Lk, d, dv)
SHAPES = [(2, 3, 3, 9, 9, 8, 8), (1, 4, 2, 5, 11, 8, 6), (2, 2, 1, 1, 7, 4, 12), (1, 1, 1, 17, 6, 4, 4),
          (1, 2, 1, 40, 300, 8, 6)]  # fmt: skip


def leaves(draw, shape):
    batch, heads, kv_heads, lq, lk, dim, value_dim = shape
    sizes = [
        (batch, heads, lq, dim),
        (batch, kv_heads, lk, dim),
        (batch, kv_heads, lk, value_dim),
    ]
    return [torch.randn(s, generator=draw, dtype=torch.float64) for s in sizes]


def gradients(call, tensors, draw_seed):
    own = [t.detach().clone().requires_grad_() for t in tensors]
    output, lse = call(*own)
    draw = torch.Generator().manual_seed(draw_seed)
    seeds = [torch.randn(t.shape, generator=draw, dtype=t.dtype) for t in (output, lse)]
    seen = torch.isfinite(lse)
    torch.autograd.backward([output, lse], [seeds[0], torch.where(seen, seeds[1], 0.0)])
    return [output.detach(), lse.detach(), *(t.grad for t in own)]


def check(draw, use, names, make, plain, shape, mask):
    uses, sees = MASKS[mask]
    tensors = leaves(draw, shape) + make(draw, shape)
    seed = int(torch.randint(0, 2**31, (), generator=draw))

    def compiled(query, key, value, *params):
        return sextant.attention(
            query, key, value, [*uses, use], dict(zip(names, params)), return_lse=True,
            enable_gqa=True, target="reference",
        )  # fmt: skip

    def expected(*tensors):
        return plain(*tensors, sees=sees)

    got, want = (gradients(call, tensors, seed) for call in (compiled, expected))
    for name, a, b in zip(["o", "lse", "dq", "dk", "dv", *names], got, want):
        torch.testing.assert_close(a, b, rtol=TOLERANCE, atol=TOLERANCE, msg=lambda m: f"{name}: {m}")


def randn(draw, *size):
    return torch.randn(size, generator=draw, dtype=torch.float64)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("positions", [3, 64])
def test_cope(draw, shape, mask, positions):
    make = lambda draw, shape: [randn(draw, shape[5], positions)]  # noqa: E731
    check(draw, f"cope(positions={positions})", ["cope.table"], make, contextual.cope, shape, mask)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reach", [2, 16])
def test_shaw(draw, shape, mask, reach):
    def make(draw, shape):
        return [randn(draw, 2 * reach + 1, shape[5]), randn(draw, 2 * reach + 1, shape[6])]

    def plain(*tensors, sees):
        return contextual.shaw(*tensors, sees=sees, reach=reach)

    check(draw, f"shaw(reach={reach})", ["shaw.ak", "shaw.av"], make, plain, shape, mask)


@pytest.mark.parametrize("shape", SHAPES)
def test_shaw_of_keys_only(draw, shape):
    def make(draw, shape):
        return [randn(draw, 7, shape[5])]

    def plain(query, key, value, ak, sees):
        return contextual.shaw(query, key, value, ak, sees=sees, reach=3)

    check(draw, "shaw(reach=3, value_side=false)", ["shaw.ak"], make, plain, shape, "causal")


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reach", [2, 16])
def test_deberta(draw, shape, mask, reach):
    def make(draw, shape):
        heads, kv_heads, dim = shape[1], shape[2], shape[5]
        return [randn(draw, n * dim, 2 * reach) for n in (heads, kv_heads)]

    def plain(*tensors, sees):
        return contextual.deberta(*tensors, sees=sees, reach=reach)

    check(draw, f"deberta(reach={reach})", ["deberta.kr", "deberta.qr"], make, plain, shape, mask)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("width", [0, 6])
def test_transformer_xl(draw, shape, mask, width):
    def make(draw, shape):
        heads, dim = shape[1], shape[5]
        lanes = width or heads * dim
        return [randn(draw, heads, dim), randn(draw, heads, dim), randn(draw, heads * dim, lanes)]

    names = [f"transformer_xl.{name}" for name in ("u", "v", "wr")]
    check(draw, f"transformer_xl(width={width})", names, make, contextual.transformer_xl, shape, mask)
