"""A training on a GPU waits where a loss is shown, and for nothing else."""

import itertools
import json
import math

import pytest
import torch
from stopped_training import drawn_text
from torch.overrides import TorchFunctionMode

from sextant import targets
from sextant.program import Program
from sextant.training import loop
from sextant.training.config import TrainConfig

pytest.importorskip("sextant._compiler")

GPU = torch.device("cuda:0")
READS = ("__float__", "__int__", "__bool__", "item", "tolist", "numpy", "cpu")


class Gpu(TorchFunctionMode):
    """Memory of the host that passes for a GPU's. It counts the reads of the host, which
    would wait there, and keeps what was copied to it, with what the copy waits for."""

    def __init__(self):
        super().__init__()
        self.tensors, self.pinned = {}, {}  # by their ids, so that these stay theirs
        self.reads, self.copies, self.is_entered = 0, [], False

    def __enter__(self):
        self.is_entered = True
        return super().__enter__()

    def __exit__(self, *error):
        self.is_entered = False
        super().__exit__(*error)

    def take(self, tensor):
        self.tensors[id(tensor)] = tensor
        return tensor

    def _copy(self, tensor, non_blocking=False):
        if id(tensor) in self.tensors:
            return tensor
        self.copies.append((id(tensor) in self.pinned, non_blocking))
        return self.take(tensor.clone())

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.to and GPU in args:
            return self._copy(args[0], **kwargs)
        if func is torch.Tensor.pin_memory:
            copy = args[0].clone()
            return self.pinned.setdefault(id(copy), copy)
        is_here = bool(args) and id(args[0]) in self.tensors
        if func == torch.Tensor.device.__get__ and is_here:
            return GPU
        self.reads += is_here and getattr(func, "__name__", "") in READS
        if kwargs.get("device") == GPU or (is_here and func is torch.zeros_like):
            return self.take(func(*args, **kwargs | {"device": "cpu"}))
        return func(*args, **kwargs)


def losses_of(folder):
    return [json.loads(line)["loss"] for line in (folder / "log.jsonl").open()]


@pytest.fixture
def on_gpu(monkeypatch):
    """A GPU of the test; inside of it, models are on it."""
    gpu = Gpu()
    describe, run = targets.describe, Program.run

    def run_there(program, function, inputs):
        if not gpu.is_entered:
            return run(program, function, inputs)
        assert all(id(tensor) in gpu.tensors for tensor in inputs)
        with torch._C.DisableTorchFunction():
            return [gpu.take(result) for result in run(program, function, inputs)]

    monkeypatch.setattr(Program, "run", run_there)
    monkeypatch.setattr(
        targets, "describe", lambda name: ("cuda:0", ()) if gpu.is_entered else describe(name)
    )
    return gpu


# Positions and rows are inputs of a step, too.
CONFIG = TrainConfig(
    encodings=("alibi", "sinusoidal"), layers=1, width=16, heads=2, length=8, batch=3,
    max_position=40, steps=6, warmup=1, seed=3,
)  # fmt: skip


@pytest.mark.parametrize("every, waits", [(math.inf, 0), (0.0, 1)], ids=["hidden", "shown"])
def test_a_step_waits_for_a_loss_that_is_shown(tmp_path, on_gpu, monkeypatch, every, waits):
    text = drawn_text()
    monkeypatch.setattr(loop, "_SHOWN_EVERY", every)
    after = []
    with on_gpu:
        ours = loop.train(
            CONFIG, tmp_path / "gpu", data=text, progress=False,
            after_step=lambda done: after.append((on_gpu.reads, len(on_gpu.copies))),
        )  # fmt: skip
    # What the host knows of a step is copied to it, and nothing else. The last one ends in a
    # checkpoint, of all that there is.
    of_step = [n for n in ours.program.arguments("train_step") if n not in ours.params]
    of_step = [n for n in of_step if n == "step" or n not in ours.state]
    assert {"tokens", "labels", "learning_rate", "step"} < set(of_step)
    found = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(after)]
    assert found[:-1] == 4 * [(waits, len(of_step))] and found[-1][0] > len(ours.params)
    assert set(on_gpu.copies[after[0][1] :]) == {(True, True)}
    theirs = loop.train(CONFIG, tmp_path / "cpu", data=text, progress=False)
    assert losses_of(tmp_path / "gpu") == losses_of(tmp_path / "cpu")
    for label in ("params", "state"):
        tensors = getattr(ours, label)
        assert all(torch.equal(tensors[n], t) for n, t in getattr(theirs, label).items())


def test_a_loss_that_is_not_finite_is_named_where_it_is_read(tmp_path, on_gpu, monkeypatch):
    """Losses before it are in the log, and no checkpoint is written behind it."""
    monkeypatch.setattr(loop, "_SHOWN_EVERY", math.inf)
    train = loop.CompiledModel._train

    def fail(model, known, rate):
        return train(model, known, rate) * (math.nan if model.state["step"] == 4 else 1)

    monkeypatch.setattr(loop.CompiledModel, "_train", fail)
    with on_gpu, pytest.raises(loop.TrainingError, match="the loss is nan at step 2; "):
        loop.train(CONFIG, tmp_path / "gpu", data=drawn_text(), progress=False, save_every=4)
    assert len(losses_of(tmp_path / "gpu")) == 2
    assert not (tmp_path / "gpu" / loop.CHECKPOINT).exists()
