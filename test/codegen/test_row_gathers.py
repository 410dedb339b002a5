"""Row maps that take their rows from a table: `pos-fuse-row-gathers`, on every target."""

import pytest
import torch

import sextant

ROWS = 50
# Rows of a table, mapped; what the map adds is a parameter or a table of sines.
TAKEN = """\
  %x = nn.embedding %w, %i
    : (tensor<{vocabulary}x{width}x{dtype}>, tensor<?x?x{index}>) -> tensor<?x?x{width}x{dtype}>
  %y = pos.map_rows %x of embedding
    uses [#pos.use<@learned, "learned", {{rows = {rows} : i32}}>, #pos.use<@sinusoidal, "waves">]
    params(%r : tensor<{rows}x{width}xf32>) {positions}
    : tensor<?x?x{width}x{dtype}> -> tensor<?x?x{width}x{dtype}>
"""
MODEL = """
nn.parameter "table" : tensor<{vocabulary}x{width}x{dtype}> init constant [0.0]
nn.parameter "rows" : tensor<{rows}x{width}xf32> init constant [0.0]
func.func @forward(%i: tensor<?x?x{index}> {{exec.name = "i"}},
                   %p: tensor<?x?x1xi32> {{exec.name = "p"}},
                   %w: tensor<{vocabulary}x{width}x{dtype}> {{nn.parameter = "table"}},
                   %r: tensor<{rows}x{width}xf32> {{nn.parameter = "rows"}})
    -> tensor<?x?x{width}x{dtype}> {{
{taken}  return %y : tensor<?x?x{width}x{dtype}>
}}
func.func @loss(%i: tensor<?x?x{index}> {{exec.name = "i"}},
                %p: tensor<?x?x1xi32> {{exec.name = "p"}},
                %weights: tensor<?x?x{width}x{dtype}> {{exec.name = "weights"}},
                %w: tensor<{vocabulary}x{width}x{dtype}> {{nn.parameter = "table"}},
                %r: tensor<{rows}x{width}xf32> {{nn.parameter = "rows"}}) -> tensor<{dtype}>
    attributes {{nn.gradients = @gradients}} {{
{taken}  %z = nn.mul %y, %weights
    : (tensor<?x?x{width}x{dtype}>, tensor<?x?x{width}x{dtype}>) -> tensor<?x?x{width}x{dtype}>
  %loss = nn.sum %z over [0, 1, 2] : (tensor<?x?x{width}x{dtype}>) -> tensor<{dtype}>
  return %loss : tensor<{dtype}>
}}
"""
DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16"}
# Sums of two roundings of the type; the sines of C1 are exact to it.
TARGETS = ["cpu:avx2", "cpu"]
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 2**-7}


def model(width, vocabulary=11, dtype="f32", index="i64", positions=False):
    settings = {
        "width": width,
        "vocabulary": vocabulary,
        "rows": ROWS,
        "dtype": dtype,
        "index": index,
        "positions": "positions(%p : tensor<?x?x1xi32>)" if positions else "",
    }
    return MODEL.format(taken=TAKEN.format(**settings), **settings)


def waves(position, width):
    step = torch.arange(width // 2, dtype=torch.float64)
    angle = position.double()[..., None] * 10000.0 ** (-2 * step / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(2, 40, 128), (1, 1, 40), (3, 70, 6), (2, 0, 6), (0, 3, 6)])
@pytest.mark.parametrize("positions", [False, True], ids=["", "positions"])
@pytest.mark.parametrize("index", [torch.int64, torch.int32], ids=["i64", "i32"])
def test_taken_rows_are_mapped(target, dtype, shape, positions, index):
    batch, length, width = shape
    spelled = "i64" if index == torch.int64 else "i32"
    text = model(width, dtype=DTYPES[dtype], index=spelled, positions=positions)
    table = torch.randn(11, width).to(dtype)
    rows = torch.randn(ROWS, width)
    ids = torch.randint(0, 11, (batch, length), dtype=index)
    at = torch.arange(length).expand(batch, -1)
    if positions:
        at = torch.randint(0, 100, (batch, length))
    weights = torch.randn(shape).to(dtype)
    inputs = {
        "i": ids,
        "p": at.to(torch.int32)[..., None].contiguous(),
        "table": table,
        "rows": rows,
    }
    program = sextant.compile(text, target=target)
    (got,) = program.run("forward", inputs)
    clamped = at.clamp(max=ROWS - 1)
    added = rows.double()[clamped] + waves(at, width)
    want = table.double()[ids.long()] + added
    tolerance = TOLERANCE[dtype] * 8
    torch.testing.assert_close(got.double(), want, atol=tolerance, rtol=TOLERANCE[dtype])

    _, dtable, drows = program.run("gradients", inputs | {"weights": weights})
    want = torch.zeros(11, width, dtype=torch.float64)
    want.index_add_(0, ids.flatten().long(), weights.double().flatten(0, 1))
    # PyTorch adds rows of bf16 up in bf16.
    size = max(1.0, float(want.abs().max()) if want.numel() else 0.0)
    torch.testing.assert_close(
        dtable.double(), want, atol=tolerance * size, rtol=4 * TOLERANCE[dtype]
    )
    want = torch.zeros(ROWS, width, dtype=torch.float64)
    want.index_add_(0, clamped.flatten(), weights.double().flatten(0, 1))
    torch.testing.assert_close(drows.double(), want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("index, cause", [(11, "beyond its table"), (-1, "negative")])
def test_indices_outside_the_table_stop_the_call(index, cause):
    program = sextant.compile(model(6))
    ids = torch.tensor([[0, 10, 3], [4, index, 0]])
    inputs = {
        "i": ids,
        "p": torch.zeros(2, 3, 1, dtype=torch.int32),
        "table": torch.randn(11, 6),
        "rows": torch.randn(ROWS, 6),
    }
    with pytest.raises(sextant.RuntimeError, match=f"{cause}.*{index}"):
        program.run("forward", inputs)
    with pytest.raises(sextant.RuntimeError, match=f"{cause}.*{index}"):
        program.run("gradients", inputs | {"weights": torch.randn(2, 3, 6)})
    inputs["i"] = ids.clamp(0, 10)
    (got,) = program.run("forward", inputs)
    assert got.isfinite().all()
