"""Products of f32 matrices by either library of LibTorch: what both give, which products
go to oneDNN, and who decides."""

import os
import subprocess
import sys

import pytest
import torch

DYNAMIC = "tensor<?x?xf32>"
BATCHED = "tensor<?x?x?xf32>"


def call(name: str, op: str, a: str = DYNAMIC, bias: bool = False) -> str:
    operands, types, values = "%a, %b", f"{a}, {DYNAMIC}", "#exec.tensor<0>, #exec.tensor<1>"
    arguments = f"%a: {a}, %b: {DYNAMIC}"
    if bias:
        operands, types, values = f"{operands}, %c", f"{types}, tensor<?xf32>", f"{values}, #exec.tensor<2>"
        arguments += ", %c: tensor<?xf32>"
    return f"""
func.func @{name}({arguments}) -> {a} {{
  %y = exec.dense "{op}"({operands} : {types}) arguments [{values}] -> {a}
  return %y : {a}
}}
"""


TEXT = (
    call("mm", "aten::mm")
    + call("matmul", "aten::matmul")
    + call("matmul_of_batch", "aten::matmul", a=BATCHED)
    + call("linear", "aten::linear", bias=True)
    + call("linear_of_batch", "aten::linear", a=BATCHED)
)
# Below 2^21 multiply-adds the operator itself is called.
SMALL, LARGE = (7, 33, 65), (129, 257, 131)
# Column by column and in two parts: more than 2^22 elements.
PARTS = (4133, 1031, 3)
LIBRARIES = ["blas", "onednn", "both"]


@pytest.fixture(scope="module")
def artifact(compile_text):
    return compile_text(TEXT)


@pytest.fixture(params=LIBRARIES)
def program(request, artifact, load_artifact, monkeypatch):
    monkeypatch.setenv("SEXTANT_PRODUCTS", request.param)
    return load_artifact(artifact)


def check(ours, a, b):
    """Each element sums k products, whatever the order: an error of at most k roundings
    of the sum of their sizes. Half of it is far above what any order was seen to do."""
    a, b = a.double(), b.double()
    error = (ours.double() - a @ b).abs()
    assert ours.shape == error.shape
    assert (error <= 0.5 * a.shape[-1] * 2**-24 * (a.abs() @ b.abs())).all()


def lay_out(rows, columns, how, generator):
    if how == "columns":
        return torch.randn(columns, rows, generator=generator).t()
    if how == "wide":  # with something between its rows
        return torch.randn(rows, columns + 5, generator=generator)[:, 2:-3]
    if how == "tall":  # with something between its columns
        return torch.randn(columns, rows + 3, generator=generator)[:, 1:-2].t()
    if how == "second":  # behind the beginning of its storage, as a slice of a stack
        return torch.randn(2, rows, columns, generator=generator)[1]
    if how == "second columns":
        return torch.randn(2, columns, rows, generator=generator)[1].t()
    if how == "strided":  # neither rows nor columns
        return torch.randn(rows, 2 * columns, generator=generator)[:, ::2]
    return torch.randn(rows, columns, generator=generator)


LAYOUTS = ["rows", "columns", "second", "second columns", "wide", "tall", "strided"]


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
def test_layouts(program, generator, sizes, left, right):
    n, k, m = sizes
    a, b = lay_out(n, k, left, generator), lay_out(k, m, right, generator)
    for function in ("mm", "matmul"):
        (result,) = program(function, a, b)
        check(result, a, b)


@pytest.mark.parametrize("left", ["columns", "tall"])
def test_parts(program, generator, left):
    n, k, m = PARTS
    a, b = lay_out(n, k, left, generator), lay_out(k, m, "rows", generator)
    (result,) = program("mm", a, b)
    assert result.is_contiguous()
    check(result, a, b)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_linear(program, generator, layout, step):
    n, k, m = LARGE
    x, w = torch.randn(n, k, generator=generator), lay_out(m, k, layout, generator)
    bias = torch.randn(step * m, generator=generator)[::step]
    (result,) = program("linear", x, w, bias)
    check(result, torch.cat([x, torch.ones(n, 1)], 1), torch.cat([w, bias[:, None]], 1).t())


@pytest.mark.parametrize("layout", ["rows", "permuted", "lanes", "strided"])
def test_batches(program, generator, layout):
    x = torch.randn(3, 65, 257, generator=generator)
    if layout == "permuted":
        x = x.transpose(0, 1)
    elif layout != "rows":
        lanes = slice(2, 259) if layout == "lanes" else slice(0, 514, 2)
        x = torch.randn(3, 65, 514, generator=generator)[..., lanes]
    w = torch.randn(131, 257, generator=generator)
    for function, right in (("linear_of_batch", w), ("matmul_of_batch", w.t())):
        (result,) = program(function, x, right)
        check(result, x, w.t())


@pytest.mark.parametrize("sizes", [(0, 5, 3), (5, 0, 3), (5, 3, 0), (1, 2048, 2048)])
def test_empty_and_one_row(program, generator, sizes):
    n, k, m = sizes
    a, b = torch.randn(n, k, generator=generator), torch.randn(k, m, generator=generator)
    (result,) = program("mm", a, b)
    check(result, a, b)


def test_same_bits(program, generator):
    a, b = lay_out(513, 511, "columns", generator), lay_out(511, 257, "rows", generator)
    (first,) = program("mm", a, b)
    for _ in range(20):
        assert torch.equal(program("mm", a, b)[0], first)


def test_sizes_that_do_not_fit(program):
    with pytest.raises(RuntimeError, match="aten::mm"):
        program("mm", torch.ones(256, 256), torch.ones(255, 256))


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_variable_decides(ops, monkeypatch, library):
    monkeypatch.setenv("SEXTANT_PRODUCTS", library)
    assert bytes(ops.products().tolist()).decode() == library


def test_unknown_library(artifact, load_artifact, monkeypatch):
    monkeypatch.setenv("SEXTANT_PRODUCTS", "mkl")
    with pytest.raises(RuntimeError, match="SEXTANT_PRODUCTS must be blas, onednn or both, got 'mkl'"):
        load_artifact(artifact)


CHILD = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import sextant
program = sextant.compile(sys.stdin.read(), target="reference")
n, k, m = (int(size) for size in sys.argv[2:])
a, b = torch.ones(n, k), torch.ones(k, m)
for function in ("mm", "matmul"):
    program.run(function, [a, b])
program.run("linear", [a, b.t(), torch.ones(m)])
program.run("mm", [torch.ones(k, n).t(), b])
# A batch of rows of which some lanes are multiplied.
lanes = torch.ones(1, n, k + 5)[..., 2:-3]
program.run("matmul_of_batch", [lanes, b])
program.run("linear_of_batch", [lanes, b.t()])
# One with so few columns that a copy of the rows would take longer than the product.
program.run("linear_of_batch", [lanes.expand(4, -1, -1), torch.ones(32, k)])
# Operands that are parts of others, row by row and column by column.
parts = {}
for name, (rows, columns) in {"left": (n, k), "right": (k, m)}.items():
    parts[name] = [
        torch.ones(rows, columns),
        torch.ones(columns, rows).t(),
        torch.ones(rows, columns + 5)[:, 2:-3],
        torch.ones(columns, rows + 3)[:, 1:-2].t(),
    ]
print("parts", flush=True)
for left in parts["left"]:
    for right in parts["right"]:
        program.run("mm", [left, right])
        program.run("linear", [left, right.t(), torch.ones(m)])
"""

# Of the seven products above; the fourth has a first operand that lies column by column, the
# last has few columns.
BY_ONEDNN = {"blas": 0, "onednn": 6, "both": 5}


def calls_of_onednn(library, sizes):
    """What oneDNN reports of its products: of those above, and of the parts."""
    build = os.environ.get("SEXTANT_BUILD_DIR", "build")
    child = subprocess.run(
        [sys.executable, "-c", CHILD, os.path.join(build, "python"), *map(str, sizes)],
        input=TEXT, text=True, capture_output=True,
        env={**os.environ, "ONEDNN_VERBOSE": "1", "SEXTANT_PRODUCTS": library},
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    return [
        [line for line in half.splitlines() if ",exec," in line and "cpu" in line]
        for half in child.stdout.split("parts\n")
    ]


@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_who_multiplies(library, sizes):
    calls, _ = calls_of_onednn(library, sizes)
    assert len(calls) == (BY_ONEDNN[library] if sizes == LARGE else 0), calls


@pytest.mark.parametrize("library", ["onednn", "both"])
def test_no_layout_is_multiplied_by_a_reference(library):
    """Of a weight that is part of another oneDNN has no fast kernel: its plain loops take a
    hundred times as long. It gets a copy."""
    _, calls = calls_of_onednn(library, LARGE)
    # Four layouts on both sides; of linear's first operand those of which rows are dense.
    assert len([line for line in calls if ",inner_product," in line]) >= 16
    slow = [line for line in calls if ",ref" in line]
    assert not slow
