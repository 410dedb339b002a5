"""Row maps outside attention on the CPU: embeddings, and the gradient of a table."""

import pytest
import torch

import sextant

pytest.importorskip("sextant._compiler")

# One rounding of the sum, by type.
TOLERANCE = {torch.float32: 5e-7, torch.bfloat16: 2**-8}
TARGETS = ["cpu:avx2", "cpu"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(2, 70, 128), (1, 1, 40), (3, 0, 6), (2, 9, 6)])
def test_sinusoidal(shape, dtype, target):
    x = torch.randn(shape).to(dtype).requires_grad_()
    length, width = shape[1:]
    step = torch.arange(width // 2, dtype=torch.float64)
    angle = torch.arange(length)[:, None] * 10000.0 ** (-2 * step / width)
    wave = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)
    y = sextant.map_rows(x, ["sinusoidal"], target=target)
    want = x.double() + wave
    torch.testing.assert_close(
        y.double(), want, atol=TOLERANCE[dtype] * 4, rtol=TOLERANCE[dtype]
    )
    dy = torch.randn(shape).to(dtype)
    (dx,) = torch.autograd.grad(y, x, dy)
    assert torch.equal(dx, dy)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(2, 40, 128), (1, 1, 40), (3, 70, 6)])
def test_gradient_of_a_learned_table(shape, dtype, target):
    rows = 50
    x = torch.randn(shape).to(dtype).requires_grad_()
    table = torch.randn(rows, shape[2]).requires_grad_()
    y = sextant.map_rows(
        x, [f"learned(rows={rows})"], {"learned.table": table}, target=target
    )
    row = torch.arange(shape[1]).clamp(max=rows - 1)
    torch.testing.assert_close(
        y.double(),
        x.double() + table.double()[row],
        atol=TOLERANCE[dtype] * 4,
        rtol=TOLERANCE[dtype],
    )
    dy = torch.randn(shape).to(dtype)
    dx, dtable = torch.autograd.grad(y, (x, table), dy)
    assert torch.equal(dx, dy)
    want = torch.zeros(rows, shape[2], dtype=torch.float64)
    want.index_add_(0, row, dy.double().sum(0))
    # A sum of up to 60 terms in f32.
    torch.testing.assert_close(dtable.double(), want, atol=1e-5, rtol=1e-6)
