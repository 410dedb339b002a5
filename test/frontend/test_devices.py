"""Operands on several devices: an error that names the one, never memory as a result."""

import argparse

import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")

from sextant import targets
from sextant.cli import train


def attend(**changes):
    q = torch.ones(1, 2, 3, 8)
    params = {"kerple_log.r1": torch.ones(2), "kerple_log.r2": torch.ones(2)}
    given = dict(query=q, key=q, value=q, encodings=["kerple_log"], params=params, target="reference")
    given.update({k: v for k, v in changes.items() if "." not in k})
    params.update({k: v for k, v in changes.items() if "." in k})
    return sextant.attention(**given)


META = "give it values first"


@pytest.mark.parametrize(
    "label, change",
    [
        ('parameter "kerple_log.r2"', {"kerple_log.r2": torch.ones(2, device="meta")}),
        ("query_positions", {"query_positions": torch.zeros(3, dtype=torch.int32, device="meta")}),
        ("key_positions", {"key_positions": torch.zeros(3, dtype=torch.int32, device="meta")}),
        ("key", {"key": torch.ones(1, 2, 3, 8, device="meta")}),
        ("value", {"value": torch.ones(1, 2, 3, 8, device="meta")}),
    ],
)
def test_one_operand_on_the_meta_device(label, change):
    with pytest.raises(ValueError) as error:
        attend(**change)
    assert str(error.value).startswith(f"{label} is on meta, query is on cpu: {META}")


def test_all_operands_on_the_meta_device():
    """Shapes are asked for: they are given."""
    params = {f"kerple_log.r{n}": torch.ones(2, device="meta") for n in (1, 2)}
    q = torch.ones(1, 2, 3, 8, device="meta")
    result = attend(query=q, key=q, value=q, **params)
    assert result.is_meta and result.shape == (1, 2, 3, 8)


def test_tensors_without_numbers():
    """A mode of PyTorch that asks for shapes, from the module's parameters on."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    uses = ["kerple_log", "t5_bias"]
    plain = sextant.nn.Attention(16, 2, uses)
    with FakeTensorMode():
        layer = sextant.nn.Attention(16, 2, uses)
        layer(torch.randn(2, 9, 16)).sum().backward()
    for name, value in plain.named_parameters():
        fake = layer.get_parameter(name)
        assert isinstance(fake, FakeTensor) and fake.shape == fake.grad.shape == value.shape


def test_row_maps():
    table = {"learned.table": torch.ones(4, 8, device="meta")}
    with pytest.raises(ValueError, match='table" is on meta, input is on cpu: ' + META):
        sextant.map_rows(torch.ones(1, 4, 8), ["learned(rows=4)"], table)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of a compute capability, as PyTorch tells of it; none for None."""

    def choose(capability):
        targets._of_gpu.cache_clear()
        monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Some GPU")

    yield choose
    targets._of_gpu.cache_clear()


@pytest.mark.parametrize(
    "capability, target",
    [
        ((8, 0), "cuda:sm_80"),
        ((8, 6), "cuda:sm_86"),
        ((8, 7), "cuda:sm_80"),
        ((8, 9), "cuda:sm_86"),
        ((9, 0), "cuda:sm_90a"),
        ((10, 0), "cuda:sm_80"),
        ((12, 0), "cuda:sm_86"),
    ],
)
def test_target_follows_the_tensor(gpu, capability, target):
    gpu(capability)
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 1)
    assert targets.resolve("auto", cuda) == target
    assert targets.resolve("cuda", cuda) == target
    assert targets.resolve("auto", cpu) == "cpu"
    for named in ("reference", "cpu:avx2", "cuda:sm_80"):
        assert targets.resolve(named, cpu) == targets.resolve(named, cuda) == named


def test_gpus_without_code(gpu):
    gpu((7, 5))
    cause = (
        "Some GPU has compute capability 7.5, and kernels of cuda:sm_80 need 8.0 or later: "
        "use such a GPU, or move the tensors to the CPU"
    )
    with pytest.raises(ValueError, match=cause):
        targets.resolve("cuda", torch.device("cuda", 0))
    gpu(None)
    cause = 'target "cuda" is the best one for the GPU, and PyTorch finds none'
    with pytest.raises(ValueError, match=cause):
        sextant.compile("func.func @f() { return }", target="cuda")
    with pytest.raises(ValueError, match="target cuda takes tensors on cuda, got cpu"):
        attend(target="cuda")


@pytest.mark.parametrize("target", ["cuda", "cuda:sm_80"])
def test_a_model_of_a_gpu_that_is_not_here(gpu, target):
    """As of a run that was trained on another machine."""
    from sextant.training.compiled import ModelError
    from sextant.training.config import TrainConfig
    from sextant.training.model import Model

    gpu(None)
    said = f'target "{target}" runs on a GPU, and PyTorch finds none here: .* as with --target cpu'
    with pytest.raises(ModelError, match=said):
        Model(TrainConfig(layers=1, width=8, heads=2, length=4, target=target))


def test_a_device_is_a_target():
    """`--device` chooses the target as `--target` does."""
    parser = argparse.ArgumentParser()
    train.add(parser.add_subparsers())
    for given, target in {"--device=cuda": "cuda", "--target=cpu:avx2": "cpu:avx2"}.items():
        assert parser.parse_args(["train", "folder", given]).target == target
    with pytest.raises(SystemExit):
        parser.parse_args(["train", "folder", "--device=cuda", "--target=cpu"])


def test_a_program_keeps_to_one_device():
    program = sextant.compile(
        "func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  return %x : tensor<2xf32>\n}",
        target="reference",
    )
    x = torch.ones(2)
    assert torch.equal(program.run("f", [x, x])[0], x)
    with pytest.raises(sextant.RuntimeError, match="a tensor is not on the CPU or a CUDA device"):
        program.run("f", [x, x.to("meta")])
