"""Ops of nn without a derivative, against PyTorch: integers, conditions, sizes.

A case is a body that gives %y from the inputs, and the same in PyTorch; values must
be equal. One program holds the functions of all cases.
"""

import pytest
import torch

import sextant

INTEGERS = torch.tensor([[0, 7, -7], [123, -1, 99999]])
DIVISORS = torch.tensor([2, -3, 10])

CASES = {
    "add": ("tensor<?x3xKIND>", "nn.add %x, %d : PAIR", lambda x, d: x + d),
    "sub": ("tensor<?x3xKIND>", "nn.sub %x, %d : PAIR", lambda x, d: x - d),
    "mul": ("tensor<?x3xKIND>", "nn.mul %x, %d : PAIR", lambda x, d: x * d),
    "neg": ("tensor<?x3xKIND>", "nn.neg %x : (tensor<?x3xKIND>)", lambda x, d: -x),
    "maximum": ("tensor<?x3xKIND>", "nn.maximum %x, %d : PAIR", torch.maximum),
    "minimum": ("tensor<?x3xKIND>", "nn.minimum %x, %d : PAIR", torch.minimum),
    "floor_divide": ("tensor<?x3xKIND>", "nn.floor_divide %x, %d : PAIR", torch.floor_divide),
    "remainder": ("tensor<?x3xKIND>", "nn.remainder %x, %d : PAIR", torch.remainder),
    "power": ("tensor<?x3xKIND>", "nn.power %x, %exponents : PAIR",
              lambda x, d: x ** torch.tensor([0, 1, 2])),
    "search": ("tensor<?x3xi64>", "nn.search %x in %sorted : PAIR",
               lambda x, d: torch.tensor([[1, 2, 0], [3, 1, 3]])),
    "argmin": ("tensor<?xi64>", "nn.argmin %x dim 1 : (tensor<?x3xKIND>)",
               lambda x, d: torch.tensor([2, 1])),
    "equal": ("tensor<?x3xi1>", "nn.equal %x, %d : PAIR", torch.eq),
    "less": ("tensor<?x3xi1>", "nn.less %x, %d : PAIR", torch.lt),
    "at_most": ("tensor<?x3xi1>", "nn.at_most %x, %d : PAIR", torch.le),
    "iota": ("tensor<?xKIND>", "nn.iota length %n :", lambda x, d: torch.arange(2, dtype=x.dtype)),
    "iota of a known size": ("tensor<10xKIND>", "nn.iota :",
                             lambda x, d: torch.arange(10, dtype=x.dtype)),
    "empty iota": ("tensor<0xKIND>", "nn.iota :", lambda x, d: x.new_empty(0)),
    "scalar": ("tensor<KIND>", "nn.scalar %n :", lambda x, d: torch.tensor(2, dtype=x.dtype)),
    "cast to floats": ("tensor<?x3xf32>", "nn.cast %x : tensor<?x3xKIND> ->",
                       lambda x, d: x.float()),
    "cast drops fractions": ("tensor<4xKIND>", "nn.cast %fractions : tensor<4xf32> ->",
                             lambda x, d: torch.tensor([1, -1, 0, 2], dtype=x.dtype)),
    "filled": ("tensor<?x2xKIND>", "tensor.splat %five[%n] :", lambda x, d: x.new_full((2, 2), 5)),
    "filled with zeros": ("tensor<?x2xKIND>", "tensor.splat %nil[%n] :",
                          lambda x, d: x.new_zeros(2, 2)),
    "slice": ("tensor<?x?xKIND>", "nn.slice %x dim 1 start %one length %n"
              " : (tensor<?x3xKIND>, index, index)", lambda x, d: x[:, 1:3]),
    "concat": ("tensor<2x4xKIND>", "nn.concat %x, %w dim 1"
               " : (tensor<?x3xKIND>, tensor<2x1xKIND>)",
               lambda x, d: torch.cat([x, x.new_tensor([[3], [4]])], 1)),
    "transpose": ("tensor<3x?xKIND>", "nn.transpose %x 0, 1 : (tensor<?x3xKIND>)",
                  lambda x, d: x.t()),
    "select": ("tensor<2x1xKIND>", "nn.select %c, %w, %d0 : (tensor<2x1xi1>, tensor<2x1xKIND>,"
               " tensor<KIND>)", lambda x, d: x.new_tensor([[3], [9]])),
    "index_select": ("tensor<?x2xKIND>", "nn.index_select %x, %columns dim 1"
                     " : (tensor<?x3xKIND>, tensor<2xi64>)", lambda x, d: x[:, [2, 0]]),
    "broadcast": ("tensor<?x3xKIND>", "nn.broadcast %d, %x : (tensor<3xKIND>, tensor<?x3xKIND>)",
                  lambda x, d: d.expand(2, 3)),
    # Position 99999 has the digits 9 9 9 9 9, position 7 has 0 0 0 0 7.
    "digits": ("tensor<?x3x5xKIND>",
               "nn.remainder %tens, %ten : (tensor<?x3x5xKIND>, tensor<KIND>)",
               lambda x, d: x[..., None] // 10 ** torch.arange(4, -1, -1) % 10),
}


def function(number, kind, result, call):
    arrow = "" if call.endswith((":", "->")) else "-> "
    pair = "(tensor<?x3xKIND>, tensor<3xKIND>)"
    text = f"""
func.func @f{number}(%x: tensor<?x3xKIND> {{exec.name = "x"}}, %d: tensor<3xKIND> {{exec.name = "d"}})
    -> {result} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = tensor.dim %x, %zero : tensor<?x3xKIND>
  %five = arith.constant 5 : KIND
  %nil = arith.constant 0 : KIND
  %fractions = arith.constant dense<[1.75, -1.75, -0.5, 2.0]> : tensor<4xf32>
  %w = arith.constant dense<[[3], [4]]> : tensor<2x1xKIND>
  %c = arith.constant dense<[[true], [false]]> : tensor<2x1xi1>
  %d0 = arith.constant dense<9> : tensor<KIND>
  %columns = arith.constant dense<[2, 0]> : tensor<2xi64>
  %powers = arith.constant dense<[10000, 1000, 100, 10, 1]> : tensor<5xKIND>
  %ten = arith.constant dense<10> : tensor<KIND>
  %exponents = arith.constant dense<[0, 1, 2]> : tensor<3xKIND>
  %sorted = arith.constant dense<[-3, 0, 8]> : tensor<3xKIND>
  %rows = nn.reshape %x sizes(%n) : tensor<?x3xKIND> -> tensor<?x3x1xKIND>
  %tens = nn.floor_divide %rows, %powers : (tensor<?x3x1xKIND>, tensor<5xKIND>) -> tensor<?x3x5xKIND>
  %y = {call.replace("PAIR", pair)} {arrow}{result}
  return %y : {result}
}}
"""
    return text.replace("KIND", kind)


@pytest.fixture(scope="module", params=["i32", "i64"])
def program(request):
    texts = [
        function(number, request.param, result, call)
        for number, (result, call, _) in enumerate(CASES.values())
    ]
    kind = {"i32": torch.int32, "i64": torch.int64}[request.param]
    return kind, sextant.compile("".join(texts), target="reference")


@pytest.mark.parametrize("name", CASES)
def test_value(program, name):
    kind, compiled = program
    x, d = INTEGERS.to(kind), DIVISORS.to(kind)
    (got,) = compiled.run(f"f{list(CASES).index(name)}", {"x": x, "d": d})
    want = CASES[name][2](x, d)
    assert got.shape == want.shape and torch.equal(got, want.to(got.dtype))
    assert torch.equal(x, INTEGERS.to(kind)), "an input was overwritten"


UNIQUE = """
func.func @unique(%x: tensor<?x3xKIND> {exec.name = "x"})
    -> (tensor<?xKIND>, tensor<?x3xi64>, tensor<?xi64>) {
  %v, %p, %c = nn.unique %x : (tensor<?x3xKIND>) -> (tensor<?xKIND>, tensor<?x3xi64>, tensor<?xi64>)
  return %v, %p, %c : tensor<?xKIND>, tensor<?x3xi64>, tensor<?xi64>
}
"""


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_unique(kind, seed):
    torch.manual_seed(seed)
    name = {torch.int32: "i32", torch.int64: "i64"}[kind]
    program = sextant.compile(UNIQUE.replace("KIND", name), target="reference")
    for length in (0, 1, 40):
        x = torch.randint(-9, 9, (length, 3), dtype=kind)
        got = program.run("unique", {"x": x})
        want = torch.unique(x, return_inverse=True, return_counts=True)
        assert all(torch.equal(g, w) for g, w in zip(got, want)), x


STRIDED = """
func.func @f(%x: tensor<?x4x3xf32> {exec.name = "x"}) -> (tensor<?x3x4xf32>, tensor<?x3x4xf32>) {
  %t = nn.transpose %x 1, 2 : (tensor<?x4x3xf32>) -> tensor<?x3x4xf32>
  %e = nn.exp %t : (tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  %n = nn.neg %t : (tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  %p = nn.softmax %e : (tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  %l = nn.log_softmax %n : (tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  return %p, %l : tensor<?x3x4xf32>, tensor<?x3x4xf32>
}
"""


def test_softmax_in_the_place_of_a_transposed_tensor():
    """PyTorch's softmaxes write to a given output as if it were contiguous."""
    x = torch.randn(5, 4, 3)
    p, log = sextant.compile(STRIDED, target="reference").run("f", {"x": x})
    t = x.transpose(1, 2)
    torch.testing.assert_close(p, t.exp().softmax(-1), atol=1e-6, rtol=0)
    torch.testing.assert_close(log, (-t).log_softmax(-1), atol=1e-6, rtol=0)


REQUIRE = """
func.func @checked(%x: tensor<?xi32> {exec.name = "x"}) -> tensor<?xi32> {
  %zero = arith.constant dense<0> : tensor<i32>
  %each = nn.at_most %zero, %x : (tensor<i32>, tensor<?xi32>) -> tensor<?xi1>
  %all = nn.all %each : (tensor<?xi1>) -> tensor<i1>
  %y = nn.require %all, %x, "a position is negative" : (tensor<i1>, tensor<?xi32>) -> tensor<?xi32>
  return %y : tensor<?xi32>
}
"""


def test_require():
    program = sextant.compile(REQUIRE, target="reference")
    for x in ([], [0, 3], [7]):
        x = torch.tensor(x, dtype=torch.int32)
        assert torch.equal(program.run("checked", {"x": x})[0], x)
    with pytest.raises(sextant.RuntimeError, match="^'checked': a position is negative$"):
        program.run("checked", {"x": torch.tensor([3, -1], dtype=torch.int32)})


BAD = """
func.func @slice(%x: tensor<?xf32> {exec.name = "x"}, %a: tensor<?xf32> {exec.name = "a"},
                 %b: tensor<?xf32> {exec.name = "b"}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %na = tensor.dim %a, %c0 : tensor<?xf32>
  %nb = tensor.dim %b, %c0 : tensor<?xf32>
  %start = arith.subi %na, %c4 : index
  %length = arith.subi %nb, %c4 : index
  %y = nn.slice %x dim 0 start %start length %length : (tensor<?xf32>, index, index) -> tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func @iota(%x: tensor<?xf32> {exec.name = "x"}, %a: tensor<?xf32> {exec.name = "a"},
                %b: tensor<?xf32> {exec.name = "b"}) -> tensor<?xi64> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %nb = tensor.dim %b, %c0 : tensor<?xf32>
  %length = arith.subi %nb, %c4 : index
  %y = nn.iota length %length : tensor<?xi64>
  return %y : tensor<?xi64>
}
func.func @divide(%x: tensor<?xf32> {exec.name = "x"}, %t: tensor<2xi32> {exec.name = "t"})
    -> tensor<2xi32> {
  %zero = arith.constant dense<0> : tensor<i32>
  %y = nn.floor_divide %t, %zero : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  return %y : tensor<2xi32>
}
func.func @rows(%x: tensor<?xf32> {exec.name = "x"}, %t: tensor<2xi32> {exec.name = "t"})
    -> tensor<2xf32> {
  %y = nn.index_select %x, %t dim 0 : (tensor<?xf32>, tensor<2xi32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
"""


@pytest.fixture(scope="module")
def bad():
    return sextant.compile(BAD, target="reference")


@pytest.mark.parametrize(
    "name, bounds, message",
    [
        ("slice", [-1, 1], "'slice': the start of a slice is negative (0 and -1)"),
        ("slice", [3, 3], "exceeds dimension size (5)"),
        ("slice", [0, -1], "must be non-negative"),
        ("iota", [0, -1], "the numbers from 0 on cannot be -1"),
        ("divide", [1, 2], "ZeroDivisionError"),
        ("rows", [0, 5], "out of range"),
    ],
)
def test_bad_values(bad, name, bounds, message):
    """The error names the function, the instruction and the cause."""
    inputs = {"x": torch.zeros(5)}
    if name in ("slice", "iota"):  # sizes, which the program reads 4 lower
        inputs |= {key: torch.zeros(bound + 4) for key, bound in zip("ab", bounds)}
    else:
        inputs["t"] = torch.tensor(bounds, dtype=torch.int32)
    with pytest.raises(sextant.RuntimeError) as error:
        bad.run(name, inputs)
    assert message in str(error.value) and f"'{name}'" in str(error.value)
