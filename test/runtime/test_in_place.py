"""What a program changes in place: contiguous, and nobody else's memory."""

import pytest

torch = pytest.importorskip("torch")

STEP = """
func.func @step(%w: tensor<?x?xf32> {exec.name = "w"}, %g: tensor<?x?xf32> {exec.name = "g"},
                %m: tensor<?x?xf32> {exec.name = "m"}, %v: tensor<?x?xf32> {exec.name = "v"},
                %step: tensor<f32>, %lr: tensor<f32>) {
  exec.dense "aten::_fused_adamw_.tensor_lr"(%w, %g, %m, %v, %step, %lr :
      tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<f32>, tensor<f32>)
    arguments [#exec.tensors<[0]>, #exec.tensors<[1]>, #exec.tensors<[2]>, #exec.tensors<[3]>,
      #exec.tensors<[]>, #exec.tensors<[4]>, #exec.tensor<5>, 0.9 : f64, 0.99 : f64, 0.1 : f64,
      1.0e-8 : f64, false, false] loc("update")
  return
}
"""
COPY = """
func.func @copy(%to: tensor<?x4xf32> {exec.name = "to"}, %from: tensor<4x?xf32> {exec.name = "from"}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %to, %c0 : tensor<?x4xf32>
  %t = exec.view %to permuted [1, 0] sizes(%n) : tensor<?x4xf32> -> tensor<4x?xf32>
  %s = exec.dense "aten::contiguous"(%t : tensor<4x?xf32>) arguments [#exec.tensor<0>] -> tensor<4x?xf32>
  exec.dense "aten::copy_"(%s, %from : tensor<4x?xf32>, tensor<4x?xf32>)
    arguments [#exec.tensor<0>, #exec.tensor<1>, false]
  return
}
"""


@pytest.fixture(scope="module")
def step(load):
    return load(STEP)


@pytest.fixture
def operands(generator):
    """A weight, its gradient and moments, the step and the rate."""
    w, g = (torch.randn(6, 4, generator=generator) for _ in range(2))
    return [w, g, torch.zeros(6, 4), torch.zeros(6, 4), torch.tensor(1.0), torch.tensor(1e-2)]


def refusal(program, name, inputs):
    """Why a call is refused; nothing has changed."""
    before = [i.clone() for i in inputs]
    with pytest.raises(RuntimeError) as error:
        program(name, *inputs)
    assert all(torch.equal(i, b) for i, b in zip(inputs, before))
    return str(error.value).splitlines()[0]


@pytest.mark.parametrize("place, name", [(0, "w"), (1, "g"), (2, "m"), (3, "v")])
def test_strided(step, operands, generator, place, name):
    # ATen would go through 24 neighbouring floats, whatever the strides.
    operands[place] = torch.randn(4, 6, generator=generator).t()
    assert refusal(step, "step", operands) == (
        f"'step': argument '{name}' is changed in place, by instruction 0 "
        "(aten::_fused_adamw_.tensor_lr) at update, so it must be contiguous, but has the "
        "shape [6, 4] and the strides [1, 6]: pass a contiguous() one and keep it"
    )


def test_expanded(step, operands):
    operands[2] = torch.zeros(1, 4).expand(6, 4)
    assert "argument 'm' is changed in place" in refusal(step, "step", operands)


def test_shared_memory(step, operands):
    operands[3] = operands[2]
    message = refusal(step, "step", operands)
    assert "but shares memory with argument" in message
    assert "'m'" in message and "'v'" in message and "clone()" in message
    # Neighbours in one buffer do not overlap.
    both = torch.zeros(12, 4)
    operands[2], operands[3] = both[:6], both[6:]
    step("step", *operands)
    assert not torch.equal(both, torch.zeros(12, 4))
    operands[2], operands[3] = both[:6], both[5:11]
    assert "but shares memory with argument" in refusal(step, "step", operands)


def test_sizes_that_differ(step, operands):
    operands[2] = torch.zeros(2, 4)
    assert refusal(step, "step", operands).endswith(
        "at update: tensor 0 of exp_avgs is f32 [2, 4] but that of self is f32 [6, 4]"
    )


def test_strided_gradient_inside(load):
    """The gradient is a transposed view that the program makes itself."""
    program = load("""
func.func @step(%w: tensor<4x4xf32>, %g: tensor<4x4xf32>, %m: tensor<4x4xf32>, %v: tensor<4x4xf32>,
                %step: tensor<f32>) {
  %t = exec.dense "aten::t"(%g : tensor<4x4xf32>) arguments [#exec.tensor<0>] -> tensor<4x4xf32>
  exec.dense "aten::_fused_adamw_"(%w, %t, %m, %v, %step :
      tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>)
    arguments [#exec.tensors<[0]>, #exec.tensors<[1]>, #exec.tensors<[2]>, #exec.tensors<[3]>,
      #exec.tensors<[]>, #exec.tensors<[4]>, 0.1, 0.9, 0.99, 0.1, 1.0e-8, false, false]
  return
}""")
    inputs = [torch.ones(4, 4) for _ in range(4)] + [torch.tensor(1.0)]
    assert refusal(program, "step", inputs).endswith("tensor 0 of grads is not contiguous")


def test_through_a_view(load, generator):
    """The argument is found behind a view and an operator that may share memory."""
    program = load(COPY)
    source = torch.randn(4, 3, generator=generator)
    strided = torch.zeros(4, 3).t()
    assert "argument 'to' is changed in place, by instruction 4 (aten::copy_)" in refusal(
        program, "copy", [strided, source])
    shared = torch.zeros(12)
    assert "'from'" in refusal(program, "copy", [shared.view(3, 4), shared.view(4, 3)])


def test_read_operands_may_be_strided_and_shared(load, generator):
    program = load("""
func.func @f(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %z = exec.dense "aten::add.Tensor"(%x, %y : tensor<?x?xf32>, tensor<?x?xf32>)
    arguments [#exec.tensor<0>, #exec.tensor<1>] -> tensor<?x?xf32>
  return %z : tensor<?x?xf32>
}""")
    x = torch.randn(4, 3, generator=generator).t()
    assert torch.equal(program("f", x, x)[0], x + x)


def test_tensors_without_values(step, operands):
    operands[1] = operands[1].to("meta")
    with pytest.raises(RuntimeError) as error:
        step("step", *operands)
    assert str(error.value).startswith("argument 'g': a tensor is not on the CPU")
