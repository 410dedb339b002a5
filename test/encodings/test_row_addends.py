"""Projections of rows whose first lanes hold positions: on targets with vectors a shorter
product and an addend of the positions (`pos-form-addends`), on the reference as they are
written. Both against plain PyTorch in float64 (exact_positions.py)."""

import exact_positions
import pytest
import torch

import sextant

TARGETS = {"reference": torch.float64, "cpu:avx2": torch.float32, "cpu": torch.float32, "bf16": torch.bfloat16}
ELEMENTS = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16"}
# An encoding, its parameters, as a use of the model spells them.
CASES = {
    "expe": ("channels = 5 : i32, scaled = 0.5 : f32", ()),
    "exqpe": ("channels = 7 : i32, increment = 0.25 : f32", ()),
    "expe learned": ('channels = 5 : i32, values = "learned"', ("s", "theta")),
    "exqpe learned": ('channels = 7 : i32, values = "learned"', ("s", "theta1", "theta2")),
}
MODEL = """
nn.parameter "x" : tensor<123x24x{e}> init constant [0.0]
nn.parameter "wq" : tensor<10x24x{e}> init constant [0.0]
nn.parameter "bq" : tensor<10x{e}> init constant [0.0]
nn.parameter "wk" : tensor<10x24x{e}> init constant [0.0]
{declared}
func.func @loss(%i: tensor<?x?xi64> {{exec.name = "i"}}, %dq: tensor<?x?x10x{e}> {{exec.name = "dq"}},
    %dk: tensor<?x?x10x{e}> {{exec.name = "dk"}}, %p: tensor<1x?x1xi32> {{exec.name = "p"}},
    %table: tensor<123x24x{e}> {{nn.parameter = "x"}},
    %wq: tensor<10x24x{e}> {{nn.parameter = "wq"}}, %bq: tensor<10x{e}> {{nn.parameter = "bq"}},
    %wk: tensor<10x24x{e}> {{nn.parameter = "wk"}}{taken})
    -> (tensor<{e}>, tensor<?x?x10x{e}>, tensor<?x?x10x{e}>) attributes {{nn.gradients = @gradients}} {{
  %x = nn.embedding %table, %i : (tensor<123x24x{e}>, tensor<?x?xi64>) -> tensor<?x?x24x{e}>
  %xq = pos.map_rows %x of query_input uses [#pos.use<@{name}, "{name}", {{{options}}}>] {params} {positions}
    : tensor<?x?x24x{e}> -> tensor<?x?x24x{e}>
  %q = nn.linear %xq, %wq bias %bq : (tensor<?x?x24x{e}>, tensor<10x24x{e}>, tensor<10x{e}>) -> tensor<?x?x10x{e}>
  %xk = pos.map_rows %x of key_input uses [#pos.use<@{name}, "{name}", {{{options}}}>] {params} {positions}
    : tensor<?x?x24x{e}> -> tensor<?x?x24x{e}>
  %k = nn.linear %xk, %wk : (tensor<?x?x24x{e}>, tensor<10x24x{e}>) -> tensor<?x?x10x{e}>
  %a = nn.mul %q, %dq : (tensor<?x?x10x{e}>, tensor<?x?x10x{e}>) -> tensor<?x?x10x{e}>
  %b = nn.mul %k, %dk : (tensor<?x?x10x{e}>, tensor<?x?x10x{e}>) -> tensor<?x?x10x{e}>
  %c = nn.add %a, %b : (tensor<?x?x10x{e}>, tensor<?x?x10x{e}>) -> tensor<?x?x10x{e}>
  %loss = nn.sum %c over [0, 1, 2] : (tensor<?x?x10x{e}>) -> tensor<{e}>
  return %loss, %q, %k : tensor<{e}>, tensor<?x?x10x{e}>, tensor<?x?x10x{e}>
}}
"""


def model(case, element, with_positions):
    options, names = CASES[case]
    scalars = ", ".join("tensor<f32>" for _ in names)
    return MODEL.format(
        e=element,
        name=case.split()[0],
        options=options,
        declared="".join(f'nn.parameter "{n}" : tensor<f32> init constant [0.0]\n' for n in names),
        taken="".join(f', %{n}: tensor<f32> {{nn.parameter = "{n}"}}' for n in names),
        params=f"params({', '.join('%' + n for n in names)} : {scalars})" if names else "",
        positions="positions(%p : tensor<1x?x1xi32>)" if with_positions else "",
    )


def wanted(case, inputs, with_positions):
    """Queries and keys, and the gradients of all parameters, in float64; and what the
    terms of a learned value's gradient add up to without their signs, at most."""
    exact = {n: t.double() for n, t in inputs.items()}
    options, names = CASES[case]
    given = dict(item.split(" = ") for item in options.split(", "))
    settings = {n: v.split(" : ")[0].strip('"') for n, v in given.items()}
    settings = {n: v if n == "values" else int(v) if n == "channels" else float(v) for n, v in settings.items()}
    leaves = {n: exact[n].requires_grad_() for n in ("x", *names, "wq", "bq", "wk")}
    at = exact["p"][0, :, 0] if with_positions else None
    mapped = getattr(exact_positions, case.split()[0])(
        exact["x"][exact["i"].long()], at, **settings, **{n: exact[n] for n in names}
    )
    q, k = mapped @ exact["wq"].T + exact["bq"], mapped @ exact["wk"].T
    loss = (q * exact["dq"] + k * exact["dk"]).sum()
    *gradients, of_rows = torch.autograd.grad(loss, [*leaves.values(), mapped])
    terms = of_rows.abs().sum().item() * (300 if with_positions else max(mapped.shape[1], 1))
    return [q, k], dict(zip(leaves, gradients)), terms


def drawn(shape, names, dtype):
    batch, length = shape
    sizes = {"x": (123, 24), "dq": (*shape, 10), "dk": (*shape, 10)}
    sizes |= {"wq": (10, 24), "bq": (10,), "wk": (10, 24)}
    inputs = {n: torch.randn(size).to(dtype) for n, size in sizes.items()}
    inputs |= {n: torch.rand(()) * 0.2 for n in names}
    inputs["i"] = torch.randperm(123)[: batch * length].reshape(shape)
    inputs["p"] = torch.randint(0, 300, (1, length, 1), dtype=torch.int32)
    return inputs


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case, with_positions", [(c, False) for c in CASES] + [("exqpe learned", True)])
def test_values_and_gradients(case, with_positions, target):
    """Errors are of f32 where numbers are f32: 1e-5 of the largest, which sums of 24
    products, or of all rows, stay below; of a learned value 1e-5 of its terms. With bf16
    a result is rounded twice, before and after the addend is added to it, and a gradient
    once or twice."""
    dtype, names = TARGETS[target], CASES[case][1]
    program = sextant.compile(
        model(case, ELEMENTS[dtype], with_positions), target="cpu" if target == "bf16" else target
    )
    for shape in [(3, 41), (1, 1), (2, 0), (0, 2)]:
        inputs = drawn(shape, names, dtype)
        rows, gradients, terms = wanted(case, inputs, with_positions)
        _, *got = program.run("gradients", inputs)
        want = [*rows, *(gradients[n] for n in ("x", "wq", "bq", "wk", *names))]
        for ours, theirs in zip(got, want, strict=True):
            assert ours.shape == theirs.shape
            size = max(1.0, theirs.abs().max().item()) if theirs.numel() else 1.0
            size = size if theirs.dim() else max(1.0, terms)
            rounding = 3 * 2**-8 if ours.dtype == torch.bfloat16 else 1e-5
            assert (ours.double() - theirs).abs().le(rounding * size).all()
