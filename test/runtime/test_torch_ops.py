"""torch.ops.sextant: loading, running, errors, dense operators."""

import json
import re
import threading
from pathlib import Path

import pytest
from atomic_operators import atomic

torch = pytest.importorskip("torch")
torchgen = pytest.importorskip("torchgen")


def first_line(error):
    return str(error.value).splitlines()[0]


@pytest.fixture(scope="module")
def double(load_artifact, scale):
    return load_artifact(scale)


# --- kernels -------------------------------------------------------------


def test_runs_a_kernel_on_strided_inputs(double, generator):
    x = torch.randn(7, 5, generator=generator).t()
    doubled, transposed = double("double", x, torch.ones(7))
    assert torch.equal(doubled, 2 * x)
    assert torch.equal(transposed, (2 * x).t())
    assert transposed.data_ptr() == doubled.data_ptr()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (997, 3)])
def test_any_size(double, generator, shape):
    x = torch.randn(*shape, generator=generator)
    assert torch.equal(double("double", x, torch.ones(shape[1]))[0], 2 * x)


def test_threads_do_not_change_results(double, generator):
    x = torch.randn(501, 33, generator=generator)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = double("double", x, torch.ones(33))[0]
        torch.set_num_threads(4)
        assert torch.equal(double("double", x, torch.ones(33))[0], one)
    finally:
        torch.set_num_threads(threads)


def test_concurrent_runs(double):
    wrong = []

    def work(number):
        x = torch.full((64, 16), float(number))
        for _ in range(50):
            if not torch.equal(double("double", x, torch.ones(16))[0], 2 * x):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_profile_names_costs(double):
    x = torch.ones(4, 8)
    outputs, events = double.profile("double", x, torch.ones(8))
    assert torch.equal(outputs[0], 2 * x)
    (event,) = events
    assert event["name"] == "double_rows" and event["label"] == "double"
    assert event["flops"] == 32 and event["bytes"] == 2 * 32 * 4 and event["items"] == 4
    assert event["ns"] > 0


# --- errors --------------------------------------------------------------


@pytest.mark.parametrize(
    "inputs, message",
    [
        (lambda: [torch.ones(2, 3)], "'double' takes 2 arguments but got 1"),
        (lambda: [torch.ones(2, 3).double(), torch.ones(3)],
         "argument 'x' must be f32 but is f64"),
        (lambda: [torch.ones(3), torch.ones(3)],
         "argument 'x' must have 2 dimensions, [?, ?], but has the shape [3]"),
        (lambda: [torch.ones(2, 3), torch.ones(4)],
         "dimension 0 (columns) of argument 'like' is 4 but that of 'x' is 3"),
        (lambda: [torch.ones(1001, 3), torch.ones(3)],
         "'double': too many rows (1001 and 1000)"),
        (lambda: [torch.ones(2, 3, dtype=torch.complex64), torch.ones(3)],
         "argument 'x': a tensor has a dtype that the runtime has not"),
    ],
)
def test_wrong_inputs(double, inputs, message):
    with pytest.raises(RuntimeError) as error:
        double("double", *inputs())
    assert first_line(error).startswith(message)


def test_unknown_function_and_handle(double, ops):
    with pytest.raises(RuntimeError, match="no function 'triple'; it has 'double'"):
        double("triple")
    with pytest.raises(RuntimeError, match="no loaded program 123456"):
        ops.run(123456, "double", [])


def test_unload(ops, load_artifact, scale):
    program = load_artifact(scale)
    ops.unload(program.handle)
    with pytest.raises(RuntimeError, match="no loaded program"):
        program("double")


# --- dense operators -----------------------------------------------------

MLP = """
func.func @mlp(%x: tensor<?x8xf32> {exec.name = "x"}, %w: tensor<16x8xf32>, %b: tensor<16xf32>)
    -> (tensor<?x16xf32>, tensor<?x16xf32>, tensor<2x?x8xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %h = exec.dense "aten::linear"(%x, %w, %b : tensor<?x8xf32>, tensor<16x8xf32>, tensor<16xf32>)
    arguments [#exec.tensor<0>, #exec.tensor<1>, #exec.tensor<2>] -> tensor<?x16xf32>
  %g = exec.dense "aten::gelu"(%h : tensor<?x16xf32>)
    arguments [#exec.tensor<0>, "tanh"] -> tensor<?x16xf32>
  %l, %mean, %rstd = exec.dense "aten::native_layer_norm"(%g : tensor<?x16xf32>)
    arguments [#exec.tensor<0>, array<i64: 16>, unit, unit, 1.0e-5 : f64]
    -> tensor<?x16xf32>, tensor<?x1xf32>, tensor<?x1xf32>
  %s = exec.dense "aten::add.Tensor"(%h, %l : tensor<?x16xf32>, tensor<?x16xf32>)
    arguments [#exec.tensor<0>, #exec.tensor<1>, 2 : i64] -> tensor<?x16xf32>
  %v = exec.view %h sizes(%n) : tensor<?x16xf32> -> tensor<?x2x8xf32>
  %p = exec.view %v permuted [1, 0, 2] sizes(%n) : tensor<?x2x8xf32> -> tensor<2x?x8xf32>
  %m = exec.dense "aten::mul.Scalar"(%p : tensor<2x?x8xf32>)
    arguments [#exec.tensor<0>, 0.5 : f64] -> tensor<2x?x8xf32>
  return %s, %l, %m : tensor<?x16xf32>, tensor<?x16xf32>, tensor<2x?x8xf32>
}
"""


def test_dense_operators(load, generator):
    program = load(MLP)
    x, w, b = (torch.randn(*s, generator=generator) for s in ((5, 8), (16, 8), (16,)))
    w.requires_grad_()
    with torch.no_grad():
        total, normed, halves = program("mlp", x, w, b)
    h = torch.nn.functional.linear(x, w, b)
    expected = torch.nn.functional.layer_norm(torch.nn.functional.gelu(h, approximate="tanh"), (16,))
    assert torch.equal(normed, expected)
    assert torch.equal(total, torch.add(h, expected, alpha=2))
    assert torch.equal(halves, h.view(5, 2, 8).permute(1, 0, 2) * 0.5)


def test_profile_counts_products(load):
    _, events = load(MLP).profile("mlp", torch.ones(5, 8), torch.ones(16, 8), torch.ones(16))
    flops = {e["name"]: e["flops"] for e in events}
    assert flops["aten::linear"] == 2 * 5 * 16 * 8 and flops["aten::gelu"] is None
    linear = events[0]
    assert linear["bytes"] == 4 * (5 * 8 + 16 * 8 + 16 + 5 * 16)


def test_in_place_optimizer(load, generator):
    program = load("""
func.func @step(%w: tensor<?xf32>, %g: tensor<?xf32>, %m: tensor<?xf32>, %v: tensor<?xf32>,
                %step: tensor<f32>, %lr: tensor<f32>) {
  exec.dense "aten::_fused_adamw_.tensor_lr"(%w, %g, %m, %v, %step, %lr :
      tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>)
    arguments [#exec.tensors<[0]>, #exec.tensors<[1]>, #exec.tensors<[2]>, #exec.tensors<[3]>,
      #exec.tensors<[]>, #exec.tensors<[4]>, #exec.tensor<5>, 0.9 : f64, 0.99 : f64, 0.1 : f64,
      1.0e-8 : f64, false, false]
  return
}
""")
    w, g = torch.randn(10, generator=generator), torch.randn(10, generator=generator)
    ours, theirs = w.clone(), w.clone().requires_grad_()
    m, v, lr = torch.zeros(10), torch.zeros(10), torch.tensor(1e-2)
    optimizer = torch.optim.AdamW([theirs], lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    theirs.grad = g
    for step in range(3):
        program("step", ours, g, m, v, torch.tensor(float(step + 1)), lr)
        optimizer.step()
    # The learning rate passes through f32 here and stays a double there.
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "op, arguments, message",
    [
        ("aten::no_such", "#exec.tensor<0>", "does not know the operator aten::no_such"),
        ("aten::relu", "1 : i64", "argument 0 (self) must be a tensor"),
        ("aten::relu", "#exec.tensor<0>, 1 : i64", "takes 1 arguments but got 2"),
        ("aten::mm", "#exec.tensor<0>", "the argument mat2 is missing"),
        ("aten::cumsum", "#exec.tensor<0>", "does not know the operator"),
        ("aten::bernoulli.p", "#exec.tensor<0>, 0.5 : f64", "the argument generator is missing"),
        ("aten::bernoulli.p", "#exec.tensor<0>, 0.5 : f64, unit",
         "argument 2 (generator) must be three tensors (seed, step and place)"),
    ],
)
def test_wrong_calls_are_found_at_load(load, op, arguments, message):
    with pytest.raises(RuntimeError) as error:
        load(f"""
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %y = exec.dense "{op}"(%x : tensor<2x3xf32>) arguments [{arguments}] -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}}""")
    assert message in first_line(error) and op in first_line(error)


def test_failing_operator_names_itself(load):
    program = load("""
func.func @f(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %y = exec.dense "aten::mm"(%x, %x : tensor<?x?xf32>, tensor<?x?xf32>)
    arguments [#exec.tensor<0>, #exec.tensor<1>] -> tensor<?x?xf32> loc("square")
  return %y : tensor<?x?xf32>
}""")
    assert program("f", torch.ones(2, 2))[0].tolist() == [[2, 2], [2, 2]]
    with pytest.raises(RuntimeError) as error:
        program("f", torch.ones(2, 3))
    assert first_line(error).startswith("'f', instruction 0 (aten::mm) at square: ")


@pytest.mark.parametrize(
    "dtype, bad, expected",
    [(torch.int64, 5, "5"), (torch.int32, -1, "-1"), (torch.int64, 2**40, "1099511627776")],
)
def test_an_index_without_a_row_is_named(load, dtype, bad, expected):
    kind = "i64" if dtype == torch.int64 else "i32"
    program = load(f"""
func.func @f(%w: tensor<?x2xf32> {{exec.name = "table"}}, %i: tensor<?x?x{kind}> {{exec.name = "tokens"}})
    -> tensor<?x?x2xf32> {{
  %y = exec.dense "aten::embedding"(%w, %i : tensor<?x2xf32>, tensor<?x?x{kind}>)
    arguments [#exec.tensor<0>, #exec.tensor<1>] -> tensor<?x?x2xf32>
  return %y : tensor<?x?x2xf32>
}}""")
    # Only in a place that strides leave out.
    backing = torch.tensor([[0, 4, bad], [3, 2, bad]], dtype=dtype)
    table = torch.randn(5, 2)
    inside = backing[:, :2].t()
    assert torch.equal(program("f", table, inside)[0], table[inside.long()])
    with pytest.raises(RuntimeError) as error:
        program("f", table, backing[:, 1:].t())
    assert first_line(error).endswith(
        f"indices hold {expected}, but weight has 5 rows, 0 to 4 (of 'table', 'tokens')"
    )


def test_result_of_another_type(load):
    program = load("""
func.func @f(%x: tensor<?xf32>) -> tensor<3xf32> {
  %y = exec.dense "aten::relu"(%x : tensor<?xf32>) arguments [#exec.tensor<0>] -> tensor<3xf32>
  return %y : tensor<3xf32>
}""")
    program("f", torch.ones(3))
    with pytest.raises(RuntimeError, match=r"should be f32 \[3\] but is f32 \[4\]"):
        program("f", torch.ones(4))


def installed_schemas():
    schemas = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        schemas[name] = str(schema)
    return schemas


def test_schemas_are_those_of_torch(ops):
    installed = installed_schemas()
    for text in json.loads(bytes(ops.operators().tolist())):
        assert installed.get(text.split("(")[0]) == text


def declared_operators():
    """Entries of the list that PyTorch is generated from, by name: on what they have kernels,
    and whose they share. Read line by line, since all of it as YAML takes ten seconds."""
    file = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    operators = {}
    for entry in file.read_text().split("\n- func: ")[1:]:
        _, _, dispatch = entry.partition("\n  dispatch:\n")
        # What has an inner loop alone has it wherever there are threads.
        keys = {"CUDA"} if "\n  ufunc_inner_loop:" in entry else set()
        for line in dispatch.splitlines():
            if line.strip() and not line.startswith("    "):
                break
            if ":" in line and not line.lstrip().startswith("#"):
                keys.update(key.strip() for key in line.split(":")[0].split(","))
        delegate = re.search(r"\n  structured_delegate: (\S+)", entry)
        operators[entry.split("(")[0]] = keys, delegate and delegate[1]
    return operators


def has_cuda_kernel(name, operators):
    keys, delegate = operators[name]
    if delegate:
        return has_cuda_kernel(delegate, operators)
    return not keys or "CUDA" in keys or any(key.startswith("Composite") for key in keys)


def test_operators_have_kernels_on_a_gpu(ops):
    """No PyTorch with CUDA is needed to know: a program with another operator would fail on a
    GPU alone."""
    operators = declared_operators()
    assert not has_cuda_kernel("_functional_assert_async.msg", operators)
    names = [t.split("(")[0].removeprefix("aten::") for t in json.loads(bytes(ops.operators().tolist()))]
    assert len(names) > 100 and set(names) <= set(operators)
    assert [name for name in names if not has_cuda_kernel(name, operators)] == []


def test_operators_give_the_same_bits_on_a_gpu(ops):
    """In each run, without a word to PyTorch: those that do not have another one called in their
    place there. What operators are made of is looked at where steps run: test/gpu/test_programs.py."""
    names = [text.split("(")[0] for text in json.loads(bytes(ops.operators().tolist()))]
    assert atomic(["aten::index_add_", "aten::scatter.src"]) == ["aten::index_add_", "aten::scatter.src"]
    called = [text.split("(")[0] for text in json.loads(bytes(ops.operators(on_gpu=True).tolist()))]
    assert atomic(called) == []
    assert set(names) - set(called) == {"aten::embedding_dense_backward"}


def test_operators_that_wait_for_a_gpu(ops):
    """The runtime knows them by name, to refuse them in a capture."""
    for text in json.loads(bytes(ops.operators().tolist())):
        name, _, overload = text.split("(")[0].removeprefix("aten::").partition(".")
        tags = getattr(getattr(torch.ops.aten, name), overload or "default").tags
        waits = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & set(tags)
        assert bool(waits) == (name == "_unique2")


# One call of every operator that takes Scalars, with what it should give.
SCALARS = {
    "add.Tensor": (2, "#exec.tensor<0>, #exec.tensor<1>, 3.5 : f64", lambda x, y: torch.add(x, y, alpha=3.5)),
    "add.Scalar": (1, "#exec.tensor<0>, 2.5 : f64", lambda x: x + 2.5),
    "sub.Tensor": (2, "#exec.tensor<0>, #exec.tensor<1>", lambda x, y: x - y),
    "mul.Scalar": (1, "#exec.tensor<0>, 0.3 : f64", lambda x: x * 0.3),
    "div.Scalar": (1, "#exec.tensor<0>, 0.3 : f64", lambda x: x / 0.3),
    "pow.Tensor_Scalar": (1, "#exec.tensor<0>, 2 : i64", lambda x: x**2),
    "add_.Tensor": (2, "#exec.tensor<0>, #exec.tensor<1>", lambda x, y: x + y),
    "mul_.Scalar": (1, "#exec.tensor<0>, 0.3 : f64", lambda x: x * 0.3),
    "fill_.Scalar": (1, "#exec.tensor<0>, 0.3 : f64", lambda x: torch.full_like(x, 0.3)),
}


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("op", SCALARS)
def test_scalars(load, generator, op, dtype):
    count, arguments, expected = SCALARS[op]
    names = ["%x", "%y"][:count]
    tensor = f"tensor<?x{dtype}>"
    program = load(f"""
func.func @f({", ".join(f"{n}: {tensor}" for n in names)}) -> {tensor} {{
  %r = exec.dense "aten::{op}"({", ".join(names)} : {", ".join([tensor] * count)})
    arguments [{arguments}] -> {tensor}
  return %r : {tensor}
}}""")
    kind = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64}[dtype]
    inputs = [torch.randn(9, generator=generator).to(kind) for _ in names]
    want = expected(*(i.clone() for i in inputs))
    torch.testing.assert_close(program("f", *inputs)[0], want)
