"""Learned tables of image grids: the bicubic resize against torch's own, values and
gradients. In float64 on the reference constants of the definition are exact in f32, so
only rounding is left; kernels in f32 compute tables in double and round them once.
"""


import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")
pytest.importorskip("sextant._compiler")

WIDTH = 10
# Rows and columns in training, and of a call: larger, smaller, mixed, the same, one cell.
GRIDS = [((3, 4), (7, 9)), ((6, 7), (4, 3)), ((5, 3), (2, 8)), ((4, 4), (4, 4)), ((1, 1), (3, 2)),
         ((14, 14), (16, 24))]  # fmt: skip
TARGETS = {"reference": (torch.float64, 1e-12), "cpu": (torch.float32, 1e-5)}


def cells(rows, columns):
    """(row, column) of each cell, row by row."""
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).to(torch.int32)


def resized(table, grid, to):
    image = table[: grid[0] * grid[1]].T.unflatten(1, grid)[None]
    image = torch.nn.functional.interpolate(image, to, mode="bicubic", align_corners=False)
    return image[0].flatten(1).T


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("grid, to", GRIDS)
def test_bicubic_is_that_of_torch(draw, grid, to, target):
    dtype, tolerance = TARGETS[target]
    rows = grid[0] * grid[1] + 2
    length = to[0] * to[1]
    table = torch.randn(rows, WIDTH, generator=draw, dtype=torch.float64)
    x = torch.randn(2, length, WIDTH, generator=draw, dtype=torch.float64)
    seed = torch.randn(2, length, WIDTH, generator=draw, dtype=torch.float64)
    exact = table.clone().requires_grad_()
    want = x + resized(exact, grid, to)
    want.backward(seed)

    use = f"learned(rows={rows}, grid_rows={grid[0]}, grid_columns={grid[1]})"
    own = table.to(dtype).requires_grad_()
    # Tokens come in any order: positions say where they are.
    order = torch.randperm(length, generator=draw)
    got = sextant.map_rows(
        x[:, order].to(dtype), [use], {"learned.table": own},
        positions=cells(*to)[order][None], target=target,
    )  # fmt: skip
    got.backward(seed[:, order].to(dtype))
    torch.testing.assert_close(got.double(), want[:, order].detach(), rtol=tolerance, atol=tolerance)
    size = float(exact.grad.abs().max())
    torch.testing.assert_close(own.grad.double(), exact.grad, rtol=0, atol=tolerance * size)
    assert (own.grad[grid[0] * grid[1] :] == 0).all()


@pytest.mark.parametrize("target", TARGETS)
def test_the_trained_grid_is_exact(draw, target):
    """A grid of the size of training takes the rows of the table as they are."""
    table = torch.randn(12, WIDTH, generator=draw)
    x = torch.zeros(1, 12, WIDTH)
    got = sextant.map_rows(
        x, ["learned(rows=12, grid_rows=3, grid_columns=4)"], {"learned.table": table},
        positions=cells(3, 4)[None], target=target,
    )  # fmt: skip
    assert torch.equal(got[0], table)


def test_class_tokens_are_left_alone(draw):
    table = torch.randn(6, WIDTH, generator=draw).requires_grad_()
    x = torch.randn(1, 7, WIDTH, generator=draw)
    positions = torch.cat([torch.tensor([[-1, -1]], dtype=torch.int32), cells(2, 3)])[None]
    use = "learned(rows=6, grid_rows=2, grid_columns=3)"
    got = sextant.map_rows(x, [use], {"learned.table": table}, positions=positions)
    assert torch.equal(got[0, 0], x[0, 0])
    torch.testing.assert_close(got[0, 1:], x[0, 1:] + table, rtol=0, atol=1e-6)
    got[0, 0].sum().backward()
    assert (table.grad == 0).all()


def test_a_grid_beyond_its_table():
    table = torch.zeros(12, WIDTH)
    with pytest.raises(sextant.CompileError, match="more cells than the table.*got 20, but must be at most 12"):
        sextant.map_rows(
            torch.zeros(1, 3, WIDTH), ["learned(rows=12, grid_rows=4, grid_columns=5)"],
            {"learned.table": table},
        )  # fmt: skip
