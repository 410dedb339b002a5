"""Every derivative of the nn ops against PyTorch's autograd.

A case is a body that gives %y from parameters %a, %b, ... (and indices %i, whose
dynamic sizes %n = 2 and %m = 3 are), and the same in PyTorch. The loss sums
y * y * (1, 2, 3, ...), so that no cotangent is constant. In float32; 1e-5 of the
largest entry is a hundred roundings. One program holds the losses of all cases.
"""

import pytest
import torch
import torch.nn.functional as F

import sextant

INDICES = torch.tensor([[0, 3, 3], [1, 0, 4]])
LABELS = torch.tensor([1, -100, 0, 5])


def case(shapes, body, reference, result):
    return shapes, body, reference, result


def unary(op, reference):
    return case([(7,)], f"%y = nn.{op} %a : (tensor<7xf32>) -> tensor<7xf32>", reference, (7,))


CASES = {
    "embedding": case(
        [(5, 4)],
        "%y = nn.embedding %a, %i : (tensor<5x4xf32>, tensor<?x?xi64>) -> tensor<?x?x4xf32>",
        lambda a: a[INDICES],
        (None, None, 4),
    ),
    "embedding of dynamic rows": case(
        [(6, 4)],
        "%t = nn.reshape %a sizes(%m) : tensor<6x4xf32> -> tensor<?x8xf32>\n"
        "%rows = nn.scalar %m : tensor<i64>\n"
        "%r = nn.remainder %i, %rows : (tensor<?x?xi64>, tensor<i64>) -> tensor<?x?xi64>\n"
        "%y = nn.embedding %t, %r : (tensor<?x8xf32>, tensor<?x?xi64>) -> tensor<?x?x8xf32>",
        lambda a: a.reshape(3, 8)[INDICES % 3],
        (None, None, 8),
    ),
    "linear": case(
        [(2, 3, 4), (5, 4), (5,)],
        "%y = nn.linear %a, %b bias %c : (tensor<2x3x4xf32>, tensor<5x4xf32>, tensor<5xf32>)"
        " -> tensor<2x3x5xf32>",
        F.linear,
        (2, 3, 5),
    ),
    "linear of a vector": case(
        [(4,), (5, 4)],
        "%y = nn.linear %a, %b : (tensor<4xf32>, tensor<5x4xf32>) -> tensor<5xf32>",
        F.linear,
        (5,),
    ),
    "matmul": case(
        [(2, 3, 4), (4, 5)],
        "%y = nn.matmul %a, %b : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>",
        torch.matmul,
        (2, 3, 5),
    ),
    "matmul of a vector": case(
        [(4,), (4, 5)],
        "%y = nn.matmul %a, %b : (tensor<4xf32>, tensor<4x5xf32>) -> tensor<5xf32>",
        torch.matmul,
        (5,),
    ),
    "matmul of batches": case(
        [(2, 3, 5, 4), (2, 3, 4, 7)],
        "%y = nn.matmul %a, %b"
        " : (tensor<2x3x5x4xf32>, tensor<2x3x4x7xf32>) -> tensor<2x3x5x7xf32>",
        torch.matmul,
        (2, 3, 5, 7),
    ),
    "matmul of broadcast batches": case(
        [(3, 1, 5, 4), (2, 4, 7)],
        "%y = nn.matmul %a, %b : (tensor<3x1x5x4xf32>, tensor<2x4x7xf32>) -> tensor<3x2x5x7xf32>",
        torch.matmul,
        (3, 2, 5, 7),
    ),
    "matmul of a matrix with batches": case(
        [(5, 4), (3, 4, 1)],
        "%y = nn.matmul %a, %b : (tensor<5x4xf32>, tensor<3x4x1xf32>) -> tensor<3x5x1xf32>",
        torch.matmul,
        (3, 5, 1),
    ),
    "add": case(
        [(2, 3), (4, 1, 3)],
        "%y = nn.add %a, %b : (tensor<2x3xf32>, tensor<4x1x3xf32>) -> tensor<4x2x3xf32>",
        torch.add,
        (4, 2, 3),
    ),
    "mul": case(
        [(2, 1), (3,)],
        "%y = nn.mul %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
        torch.mul,
        (2, 3),
    ),
    "mul of one value": case(
        [(2, 3)],
        "%y = nn.mul %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
        lambda a: a * a,
        (2, 3),
    ),
    "sub": case(
        [(2, 1), (3, 1, 5)],
        "%y = nn.sub %a, %b : (tensor<2x1xf32>, tensor<3x1x5xf32>) -> tensor<3x2x5xf32>",
        torch.sub,
        (3, 2, 5),
    ),
    "div": case(
        [(2, 1), (3, 1, 5)],
        "%e = nn.exp %b : (tensor<3x1x5xf32>) -> tensor<3x1x5xf32>\n"
        "%y = nn.div %a, %e : (tensor<2x1xf32>, tensor<3x1x5xf32>) -> tensor<3x2x5xf32>",
        lambda a, b: a / b.exp(),
        (3, 2, 5),
    ),
    "neg": unary("neg", torch.neg),
    "exp": unary("exp", torch.exp),
    "log": case(
        [(7,)],
        "%s = nn.sigmoid %a : (tensor<7xf32>) -> tensor<7xf32>\n"
        "%y = nn.log %s : (tensor<7xf32>) -> tensor<7xf32>",
        lambda a: a.sigmoid().log(),
        (7,),
    ),
    "cos": unary("cos", torch.cos),
    "sin": unary("sin", torch.sin),
    "sigmoid": unary("sigmoid", torch.sigmoid),
    "log_sigmoid": unary("log_sigmoid", F.logsigmoid),
    "cast": case(
        [(7,)],
        "%h = nn.cast %a : tensor<7xf32> -> tensor<7xf64>\n"
        "%s = nn.mul %h, %h : (tensor<7xf64>, tensor<7xf64>) -> tensor<7xf64>\n"
        "%y = nn.cast %s : tensor<7xf64> -> tensor<7xf32>",
        lambda a: a * a,
        (7,),
    ),
    "stop_gradient": case(
        [(2, 3)],
        "%t = nn.stop_gradient %a : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
        "%u = nn.maximum %t, %t : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>\n"
        "%y = nn.mul %a, %u : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
        lambda a: a * a.detach(),
        (2, 3),
    ),
    "select": case(
        [(2, 1), (3,)],
        "%c = nn.less %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xi1>\n"
        "%y = nn.select %c, %a, %b"
        " : (tensor<2x3xi1>, tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
        lambda a, b: torch.where(a < b, a, b),
        (2, 3),
    ),
    "gelu": case(
        [(7,)], "%y = nn.gelu %a : (tensor<7xf32>) -> tensor<7xf32>", F.gelu, (7,)
    ),
    "gelu by tanh": case(
        [(7,)],
        "%y = nn.gelu %a form tanh : (tensor<7xf32>) -> tensor<7xf32>",
        lambda a: F.gelu(a, approximate="tanh"),
        (7,),
    ),
    "silu": unary("silu", F.silu),
    "scale": case([(7,)], "%y = nn.scale %a by -2.5 : tensor<7xf32>", lambda a: -2.5 * a, (7,)),
    "layer_norm": case(
        [(2, 3, 4), (4,), (4,)],
        "%y, %mean, %rstd = nn.layer_norm %a, %b, %c epsilon 1.0e-3"
        " : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>)"
        " -> (tensor<2x3x4xf32>, tensor<2x3x1xf32>, tensor<2x3x1xf32>)",
        lambda a, b, c: F.layer_norm(a, (4,), b, c, 1e-3),
        (2, 3, 4),
    ),
    "rms_norm": case(
        [(2, 3, 4), (4,)],
        "%y, %r = nn.rms_norm %a, %b epsilon 1.0e-3 : (tensor<2x3x4xf32>, tensor<4xf32>)"
        " -> (tensor<2x3x4xf32>, tensor<2x3x1xf32>)",
        lambda a, b: F.rms_norm(a, (4,), b, 1e-3),
        (2, 3, 4),
    ),
    "softmax": case(
        [(2, 3, 5)],
        "%y = nn.softmax %a : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>",
        lambda a: a.softmax(-1),
        (2, 3, 5),
    ),
    "divergence of a student from a teacher": case(
        [(4, 6), (4, 6)],
        "%f = nn.stop_gradient %a : (tensor<4x6xf32>) -> tensor<4x6xf32>\n"
        "%t = nn.log_softmax %f : (tensor<4x6xf32>) -> tensor<4x6xf32>\n"
        "%s = nn.log_softmax %b : (tensor<4x6xf32>) -> tensor<4x6xf32>\n"
        "%p = nn.exp %t : (tensor<4x6xf32>) -> tensor<4x6xf32>\n"
        "%d = nn.sub %t, %s : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>\n"
        "%q = nn.mul %p, %d : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>\n"
        "%y = nn.sum %q over [1] : (tensor<4x6xf32>) -> tensor<4xf32>",
        lambda a, b: F.kl_div(
            b.log_softmax(-1), a.detach().log_softmax(-1), reduction="none", log_target=True
        ).sum(1),
        (4,),
    ),
    "cross entropy": case(
        [(4, 6)],
        "%p = nn.log_softmax %a : (tensor<4x6xf32>) -> tensor<4x6xf32>\n"
        "%y, %count = nn.nll_loss %p, %l : (tensor<4x6xf32>, tensor<4xi64>)"
        " -> (tensor<f32>, tensor<f32>)",
        lambda a: F.cross_entropy(a, LABELS),
        (),
    ),
    "cross entropy per row": case(
        [(4, 6)],
        "%p = nn.log_softmax %a : (tensor<4x6xf32>) -> tensor<4x6xf32>\n"
        "%y, %count = nn.nll_loss %p, %l reduction none : (tensor<4x6xf32>, tensor<4xi64>)"
        " -> (tensor<4xf32>, tensor<f32>)",
        lambda a: F.cross_entropy(a, LABELS, reduction="none"),
        (4,),
    ),
    "reshape": case(
        [(2, 6)], "%y = nn.reshape %a : tensor<2x6xf32> -> tensor<3x4xf32>",
        lambda a: a.reshape(3, 4), (3, 4),
    ),
    "transpose": case(
        [(2, 3, 4)],
        "%y = nn.transpose %a 0, 2 : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>",
        lambda a: a.transpose(0, 2),
        (4, 3, 2),
    ),
    "slice": case(
        [(2, 6)],
        "%y = nn.slice %a dim 1 start 2 length 3 : (tensor<2x6xf32>) -> tensor<2x3xf32>",
        lambda a: a[:, 2:5],
        (2, 3),
    ),
    "slice from the end": case(
        [(2, 6)],
        "%y = nn.slice %a dim 1 start -2 length 2 : (tensor<2x6xf32>) -> tensor<2x2xf32>",
        lambda a: a[:, -2:],
        (2, 2),
    ),
    "slice of dynamic bounds": case(
        [(5, 6)],
        "%y = nn.slice %a dim 1 start %n length %m"
        " : (tensor<5x6xf32>, index, index) -> tensor<5x?xf32>",
        lambda a: a[:, 2:5],
        (5, None),
    ),
    "slice of dynamic length": case(
        [(5, 6)],
        "%y = nn.slice %a dim 1 start 1 length %m : (tensor<5x6xf32>, index) -> tensor<5x?xf32>",
        lambda a: a[:, 1:4],
        (5, None),
    ),
    "slice of dynamic start": case(
        [(5, 6)],
        "%y = nn.slice %a dim 1 start %n length 4 : (tensor<5x6xf32>, index) -> tensor<5x4xf32>",
        lambda a: a[:, 2:],
        (5, 4),
    ),
    "split, one part unused": case(
        [(2, 6)],
        "%u, %v, %w = nn.split %a dim 1 into [2, 3, 1] : (tensor<2x6xf32>)"
        " -> (tensor<2x2xf32>, tensor<2x3xf32>, tensor<2x1xf32>)\n"
        "%y = nn.add %u, %w : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>",
        lambda a: a[:, :2] + a[:, 5:],
        (2, 2),
    ),
    "concat": case(
        [(2, 3), (2, 1)],
        "%y = nn.concat %a, %b, %a dim 1"
        " : (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x3xf32>) -> tensor<2x7xf32>",
        lambda a, b: torch.cat([a, b, a], 1),
        (2, 7),
    ),
    "concat of dynamic sizes": case(
        [(6, 2), (4,), (6,)],
        "%u = nn.reshape %a sizes(%m) : tensor<6x2xf32> -> tensor<4x?xf32>\n"
        "%v = nn.reshape %b : tensor<4xf32> -> tensor<4x1xf32>\n"
        "%s = nn.slice %a dim 0 start 1 length 4 : (tensor<6x2xf32>) -> tensor<4x2xf32>\n"
        "%y = nn.concat %v, %u, %s, %u dim 1 : (tensor<4x1xf32>, tensor<4x?xf32>,"
        " tensor<4x2xf32>, tensor<4x?xf32>) -> tensor<4x?xf32>",
        lambda a, b, c: torch.cat([b[:, None], a.view(4, 3), a[1:5], a.view(4, 3)], 1),
        (4, None),
    ),
    "index_select of rows": case(
        [(4, 3)],
        "%y = nn.index_select %a, %j dim 0 : (tensor<4x3xf32>, tensor<5xi32>) -> tensor<5x3xf32>",
        lambda a: a[[2, 0, 0, 1, 2]],
        (5, 3),
    ),
    "index_select of numbers": case(
        [(3,)],
        "%b = nn.reshape %a sizes(%m) : tensor<3xf32> -> tensor<?xf32>\n"
        "%y = nn.index_select %b, %j dim 0 : (tensor<?xf32>, tensor<5xi32>) -> tensor<5xf32>",
        lambda a: a[[2, 0, 0, 1, 2]],
        (5,),
    ),
    "index_select of the last dimension": case(
        [(6, 4)],
        "%b = nn.reshape %a sizes(%m, %n) : tensor<6x4xf32> -> tensor<?x?x4xf32>\n"
        "%y = nn.index_select %b, %j dim 2 : (tensor<?x?x4xf32>, tensor<5xi32>) -> tensor<?x?x5xf32>",
        lambda a: a.view(3, 2, 4)[:, :, [2, 0, 0, 1, 2]],
        (None, None, 5),
    ),
    "index_select": case(
        [(2, 3, 4)],
        "%y = nn.index_select %a, %j dim 1"
        " : (tensor<2x3x4xf32>, tensor<5xi32>) -> tensor<2x5x4xf32>",
        lambda a: a[:, [2, 0, 0, 1, 2]],
        (2, 5, 4),
    ),
    "sum": case(
        [(2, 3, 4)],
        "%y = nn.sum %a over [0, 2] : (tensor<2x3x4xf32>) -> tensor<3xf32>",
        lambda a: a.sum((0, 2)),
        (3,),
    ),
    "sum, kept": case(
        [(2, 3)],
        "%y = nn.sum %a over [1] keep : (tensor<2x3xf32>) -> tensor<2x1xf32>",
        lambda a: a.sum(1, keepdim=True),
        (2, 1),
    ),
    "mean": case(
        [(2, 3, 5)],
        "%y = nn.mean %a over [0, 2] : (tensor<2x3x5xf32>) -> tensor<3xf32>",
        lambda a: a.mean((0, 2)),
        (3,),
    ),
    "mean of dynamic sizes, kept": case(
        [(6, 4)],
        "%u = nn.reshape %a sizes(%n, %m) : tensor<6x4xf32> -> tensor<?x4x?xf32>\n"
        "%y = nn.mean %u over [1, 2] keep : (tensor<?x4x?xf32>) -> tensor<?x1x1xf32>",
        lambda a: a.view(2, 4, 3).mean((1, 2), keepdim=True),
        (None, 1, 1),
    ),
    "broadcast of dynamic sizes": case(
        [(3, 4)],
        "%u = nn.slice %a dim 0 start 0 length %one : (tensor<3x4xf32>, index) -> tensor<?x4xf32>\n"
        "%v = nn.slice %a dim 0 start 0 length %n : (tensor<3x4xf32>, index) -> tensor<?x4xf32>\n"
        "%y = nn.broadcast %u, %v : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>",
        lambda a: a[:1].expand(2, 4),
        (None, 4),
    ),
    "broadcast": case(
        [(3,), (2, 3)],
        "%y = nn.broadcast %a, %b : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
        lambda a, b: a.expand(2, 3),
        (2, 3),
    ),
}


def type_of(shape):
    return f"tensor<{''.join(f'{n}x' if n else '?x' for n in shape)}f32>"


def loss(number, shapes, body, result):
    """A loss of parameters of its own around a body."""
    names = "abc"[: len(shapes)]
    params = "".join(
        f'nn.parameter "{n}{number}" : {type_of(s)} init constant [0.0]\n'
        for n, s in zip(names, shapes)
    )
    arguments = "".join(
        f', %{n}: {type_of(s)} {{nn.parameter = "{n}{number}"}}' for n, s in zip(names, shapes)
    )
    y, weights = type_of(result), type_of(result)
    dims = ", ".join(str(d) for d in range(len(result)))
    return f"""{params}
func.func @loss{number}(
    %i: tensor<?x?xi64> {{exec.name = "i"}}, %l: tensor<4xi64> {{exec.name = "l"}},
    %weights: {weights} {{exec.name = "weights"}}{arguments}) -> tensor<f32>
    attributes {{nn.gradients = @gradients{number}}} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = tensor.dim %i, %zero : tensor<?x?xi64>
  %m = tensor.dim %i, %one : tensor<?x?xi64>
  %j = arith.constant dense<[2, 0, 0, 1, 2]> : tensor<5xi32>
  {body}
  %square = nn.mul %y, %y : ({y}, {y}) -> {y}
  %weighted = nn.mul %square, %weights : ({y}, {weights}) -> {y}
  %loss = nn.sum %weighted over [{dims}] : ({y}) -> tensor<f32>
  return %loss : tensor<f32>
}}
"""


@pytest.fixture(scope="module")
def program():
    losses = [
        loss(number, shapes, body, result)
        for number, (shapes, body, _, result) in enumerate(CASES.values())
    ]
    return sextant.compile("".join(losses), target="reference")


@pytest.mark.parametrize("name", CASES)
def test_derivative(program, name, seed):
    shapes, _, reference, _ = CASES[name]
    number = list(CASES).index(name)
    generator = torch.Generator().manual_seed(seed)
    values = [torch.randn(s, generator=generator) for s in shapes]
    exact = [v.double().requires_grad_() for v in values]
    y = reference(*exact)
    weights = torch.arange(1.0, y.numel() + 1).reshape(y.shape)
    loss = (y * y * weights).sum()
    want = torch.autograd.grad(loss, exact, allow_unused=True, materialize_grads=True)

    parameters = {f"{n}{number}": v for n, v in zip("abc", values)}
    inputs = {"i": INDICES, "l": LABELS, "weights": weights, **parameters}
    before = [v.clone() for v in values]
    got_loss, *got = program.run(f"gradients{number}", inputs)
    assert got_loss.item() == pytest.approx(loss.item(), rel=1e-5, abs=1e-6)
    for g, w in zip(got, want, strict=True):
        assert (g - w).abs().max() <= 1e-5 * max(1.0, w.abs().max().item())
    for value, old in zip(values, before):
        assert torch.equal(value, old), "an input was overwritten"
