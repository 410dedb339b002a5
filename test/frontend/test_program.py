"""What PyTorch's autograd is told of a program that runs."""

import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")


@pytest.fixture(scope="module")
def program():
    settings = {"layers": 1, "width": 8, "heads": 1, "vocabulary": 5}
    return sextant.compile(sextant.models.gpt(encodings=["causal"], **settings))


def inputs_of(program, function):
    """Parameters as `torch.nn.Module` holds them, with what stands beside them."""
    inputs = {n: torch.nn.Parameter(p) for n, p in program.init_params(seed=0).items()}
    moments = {
        n: torch.zeros_like(inputs[n.split(":")[0]])
        for n in program.arguments(function)
        if n.endswith("_moment")
    }
    tokens = torch.tensor([[1, 2, 3]])
    beside = {"tokens": tokens, "labels": tokens, "step": torch.ones(())}
    inputs |= {**moments, **beside, "learning_rate": torch.tensor(0.1)}
    return {n: inputs[n] for n in program.arguments(function)}


@pytest.mark.parametrize("call", ["run", "profile"])
def test_autograd_sees_what_a_step_changes(program, call):
    inputs = inputs_of(program, "train_step")
    before = {n: (t.detach().clone(), t._version) for n, t in inputs.items()}
    x = torch.ones(8, requires_grad=True)
    product = (x * inputs["norm.weight"]).sum()
    getattr(program, call)("train_step", inputs)
    changed = {n for n, t in inputs.items() if not torch.equal(t, before[n][0])}
    assert {"norm.weight", "norm.weight:first_moment"} <= changed
    assert {"tokens", "labels", "learning_rate"}.isdisjoint(changed)
    # A gradient may be 0, so more may count as changed than is.
    versions = {n for n, t in inputs.items() if t._version > before[n][1]}
    assert changed <= versions and {"tokens", "labels", "learning_rate"}.isdisjoint(versions)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_a_function_without_optimizer_changes_nothing(program):
    inputs = inputs_of(program, "gradients")
    program.run("gradients", inputs)
    assert not any(t._version for t in inputs.values())


def test_a_step_runs_in_inference_mode(program):
    outside = inputs_of(program, "train_step")
    with torch.inference_mode():
        inputs = {n: t.detach().clone() for n, t in outside.items()}
        for tensors in (inputs, outside):
            program.train_step(tensors)
    assert inputs["norm.weight"].is_inference()
    assert torch.equal(inputs["norm.weight"], outside["norm.weight"])
    assert not torch.equal(inputs["norm.weight"], torch.ones(8))
