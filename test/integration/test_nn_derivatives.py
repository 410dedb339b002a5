"""Every derivative of the nn ops against PyTorch's autograd.

A case is a body that gives %y from parameters %a, %b, ... (and indices %i), and
the same in PyTorch. The loss sums y * y * (1, 2, 3, ...), so that no cotangent is
constant. In float32; 1e-5 of the largest entry is a hundred roundings.
"""

import pytest
import torch
import torch.nn.functional as F

import sextant

INDICES = torch.tensor([[0, 3, 3], [1, 0, 4]])
LABELS = torch.tensor([1, -100, 0, 5])


def case(shapes, body, reference, result):
    return shapes, body, reference, result


CASES = {
    "embedding": case(
        [(5, 4)],
        "%y = nn.embedding %a, %i : (tensor<5x4xf32>, tensor<?x?xi64>) -> tensor<?x?x4xf32>",
        lambda a: a[INDICES],
        (None, None, 4),
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
    "gelu": case(
        [(7,)], "%y = nn.gelu %a : (tensor<7xf32>) -> tensor<7xf32>", F.gelu, (7,)
    ),
    "gelu by tanh": case(
        [(7,)],
        "%y = nn.gelu %a form tanh : (tensor<7xf32>) -> tensor<7xf32>",
        lambda a: F.gelu(a, approximate="tanh"),
        (7,),
    ),
    "silu": case([(7,)], "%y = nn.silu %a : (tensor<7xf32>) -> tensor<7xf32>", F.silu, (7,)),
    "scale": case([(7,)], "%y = nn.scale %a by -2.5 : tensor<7xf32>", lambda a: -2.5 * a, (7,)),
    "layer_norm": case(
        [(2, 3, 4), (4,), (4,)],
        "%y, %m, %r = nn.layer_norm %a, %b, %c epsilon 1.0e-3"
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
    "cross entropy": case(
        [(4, 6)],
        "%p = nn.log_softmax %a : (tensor<4x6xf32>) -> tensor<4x6xf32>\n"
        "%y, %n = nn.nll_loss %p, %l : (tensor<4x6xf32>, tensor<4xi64>)"
        " -> (tensor<f32>, tensor<f32>)",
        lambda a: F.cross_entropy(a, LABELS),
        (),
    ),
    "cross entropy per row": case(
        [(4, 6)],
        "%p = nn.log_softmax %a : (tensor<4x6xf32>) -> tensor<4x6xf32>\n"
        "%y, %n = nn.nll_loss %p, %l reduction none : (tensor<4x6xf32>, tensor<4xi64>)"
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
    "broadcast": case(
        [(3,), (2, 3)],
        "%y = nn.broadcast %a, %b : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
        lambda a, b: a.expand(2, 3),
        (2, 3),
    ),
}


def type_of(shape):
    return f"tensor<{''.join(f'{n}x' if n else '?x' for n in shape)}f32>"


def module(shapes, body, result):
    """A loss of parameters a, b, ... around a body."""
    names = "abc"[: len(shapes)]
    params = "".join(
        f'nn.parameter "{n}" : {type_of(s)} init constant [0.0]\n' for n, s in zip(names, shapes)
    )
    arguments = "".join(
        f', %{n}: {type_of(s)} {{nn.parameter = "{n}"}}' for n, s in zip(names, shapes)
    )
    y, weights = type_of(result), type_of(result)
    dims = ", ".join(str(d) for d in range(len(result)))
    return f"""{params}
func.func @loss(%i: tensor<?x?xi64> {{exec.name = "i"}}, %l: tensor<4xi64> {{exec.name = "l"}},
                %weights: {weights} {{exec.name = "weights"}}{arguments}) -> tensor<f32>
    attributes {{nn.gradients = @gradients}} {{
  {body}
  %square = nn.mul %y, %y : ({y}, {y}) -> {y}
  %weighted = nn.mul %square, %weights : ({y}, {weights}) -> {y}
  %loss = nn.sum %weighted over [{dims}] : ({y}) -> tensor<f32>
  return %loss : tensor<f32>
}}
"""


@pytest.mark.parametrize("name", CASES)
def test_derivative(name, seed):
    shapes, body, reference, result = CASES[name]
    generator = torch.Generator().manual_seed(seed)
    values = [torch.randn(s, generator=generator) for s in shapes]
    exact = [v.double().requires_grad_() for v in values]
    y = reference(*exact)
    weights = torch.arange(1.0, y.numel() + 1).reshape(y.shape)
    loss = (y * y * weights).sum()
    want = torch.autograd.grad(loss, exact, allow_unused=True, materialize_grads=True)

    program = sextant.compile(module(shapes, body, result), target="reference")
    inputs = {"i": INDICES, "l": LABELS, "weights": weights, **dict(zip("abc", values))}
    before = [v.clone() for v in values]
    got_loss, *got = program.run("gradients", inputs)
    assert got_loss.item() == pytest.approx(loss.item(), rel=1e-5, abs=1e-6)
    for g, w in zip(got, want, strict=True):
        assert (g - w).abs().max() <= 1e-5 * max(1.0, w.abs().max().item())
    for value, old in zip(values, before):
        assert torch.equal(value, old), "an input was overwritten"
