"""The gradient of a layer norm: what LibTorch gives, and the same bits on any number of
threads."""

import pytest
import torch

import sextant


def function(element):
    rows, row, moments = (f"tensor<{dims}x{element}>" for dims in ("?x?x?", "?", "?x?x1"))
    types = {"dy": rows, "x": rows, "w": row, "b": row, "m": moments, "r": moments}
    arguments = ", ".join(f'%{n}: {t} {{exec.name = "{n}"}}' for n, t in types.items())
    return f"""
func.func @f_{element}({arguments}) -> ({rows}, {row}, {row}) {{
  %dx, %dw, %db = nn.layer_norm_backward %dy, %x, %w, %b, %m, %r
    : ({", ".join(types.values())}) -> ({rows}, {row}, {row})
  return %dx, %dw, %db : {rows}, {row}, {row}
}}
"""


DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}
# Ranges have 32 rows at least, and there are 64 at most.
SHAPES = [(1, 1, 1), (1, 31, 7), (2, 16, 64), (3, 11, 40), (5, 410, 24), (2, 1025, 3), (0, 4, 8)]


@pytest.fixture(scope="module")
def program():
    return sextant.compile("".join(map(function, DTYPES)), target="reference")


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def drawn(shape, dtype, orders=False):
    """Arguments of the function; gradient and rows may lie column by column."""
    x, dy = (3.0 + torch.randn(shape) for _ in range(2))
    if orders:
        x, dy = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (x, dy))
    w, b = torch.randn(shape[-1]), torch.randn(shape[-1])
    x, dy, w, b = (t.to(dtype) for t in (x, dy, w, b))
    _, mean, rstd = torch.native_layer_norm(x, shape[-1:], w, b, 1e-5)
    return dy, x, w, b, mean, rstd


@pytest.mark.parametrize(
    "element, orders", [("f32", False), ("f64", False), ("bf16", False), ("f32", True), ("f64", True)]
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients(program, shape, element, orders):
    """Against float64 from the same moments. A sum of n products is off by at most n / 2
    roundings of the sum of their sizes, and each term by some more; in bf16 sums are kept in f32
    (LibTorch's own end at 256 times a term) and rounded once."""
    dtype = DTYPES[element]
    inputs = drawn(shape, dtype, orders)
    got = program.run(f"f_{element}", list(inputs))
    dy, x, _, _, mean, rstd = (t.double() for t in inputs)
    y = (x - mean) * rstd
    unit = 2**-53 if element == "f64" else 2**-24
    rounded, rows = 2**-8 if element == "bf16" else 0.0, shape[0] * shape[1]
    for ours, terms in zip(got[1:], (dy * y, dy)):
        # What is subtracted from a row is rounded, too: the mean times its deviation.
        size = (terms.abs() + dy.abs() * (x.abs() + mean.abs()) * rstd).sum((0, 1))
        total = terms.sum((0, 1))
        error = (ours.double() - total).abs()
        assert ours.dtype == dtype
        assert (error <= (rows / 2 + 4) * unit * size + rounded * total.abs()).all()
    want, _, _ = torch.ops.aten.native_layer_norm_backward(
        inputs[0], inputs[1], shape[-1:], *inputs[4:], *inputs[2:4], [True, False, False]
    )
    assert torch.equal(got[0], want)


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("shape", [(5, 410, 24), (2, 1025, 300)], ids=str)
def test_any_number_of_threads_gives_the_same_bits(program, shape, element, threads):
    inputs = list(drawn(shape, DTYPES[element]))
    results = []
    for count in (1, 2, 3, 7):
        threads(count)
        results.append(program.run(f"f_{element}", inputs))
    for others in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], others))
