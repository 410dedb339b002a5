"""Training steps of a kit: compared with those of the CPU as on a machine with a GPU."""

import contextlib
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import gpt_programs
import kit as packer
import programs
from kit import HOST
from test_kit import run_there

from sextant import backend


@pytest.fixture(scope="module")
def programs_kit(tmp_path_factory):
    """Training steps, and those of a program that sees fewer keys there than on the CPU."""
    folder = tmp_path_factory.mktemp("programs") / "gpu-kit"
    packer.prepare(folder, "programs")
    made = {n: gpt_programs.make_program(n, HOST, packer.EMULATOR) for n in gpt_programs.PROGRAMS}
    first = made["gpt-learned"]
    _, *rest = gpt_programs.PROGRAMS["gpt-learned"]
    text = gpt_programs.text_of(("window(size=16)", *rest))
    other = gpt_programs.image_of(text, packer.EMULATOR)
    made["wrong"] = first | {"programs": {HOST: first["programs"][HOST], packer.EMULATOR: other}}
    for name, file in made.items():
        packer.save(file, folder / "programs" / f"{name}.pt.xz")
    return folder


def test_training_steps_are_checked(programs_kit):
    lines, _ = run_there(programs_kit, "check.py", "--device", "cpu", "--repeat", 2, code=1)
    said = "right", "skipped, the device is a CPU", "skipped, the device is a CPU"
    assert lines[1:7] == [
        f"{name} f32 {what} cuda-emulated:sm_80: {word}"
        for name in gpt_programs.PROGRAMS
        for what, word in zip(("steps", "graph", "stream"), said)
    ]
    assert lines[7].startswith("wrong f32 steps cuda-emulated:sm_80: loss of step 1: ")
    assert "layers.0.query.weight:first_moment: " in lines[7]
    assert lines[-1] == "2 passed, 1 failed"


class Gpu:
    """Stands for PyTorch's GPU. A call of a program while a graph is captured is noted and
    changes nothing, a replay makes it; one on a stream that is not the current one waits
    for what is before it there. With a fault nothing is replayed, and operands on such a
    stream are those of before."""

    def __init__(self, monkeypatch, is_faulty):
        self.run, self.is_faulty, self.captured = torch.ops.sextant.run, is_faulty, []
        self.is_capturing, self.called_on, self.streams = False, [], ["current"]
        for name in ("device", "Stream", "current_stream", "synchronize", "_sleep"):
            monkeypatch.setattr(torch.cuda, name, mock.MagicMock())
        monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: self)
        monkeypatch.setattr(torch.cuda, "graph", self.graph)
        monkeypatch.setattr(torch.cuda, "stream", self.stream)
        monkeypatch.setattr(torch.ops.sextant, "run", self.call)

    @contextlib.contextmanager
    def graph(self, _):
        self.is_capturing = True
        yield
        self.is_capturing = False

    @contextlib.contextmanager
    def stream(self, _):
        self.streams.append("other")
        yield
        self.streams.pop()

    def call(self, handle, function, inputs):
        self.called_on.append(self.streams[-1])
        if self.is_faulty and self.streams[-1] == "other":
            inputs = [t.clone().fill_(torch.nan) if t.is_floating_point() else t for t in inputs]
        before = [t.clone() for t in inputs]
        results = self.run(handle, function, inputs)
        if self.is_capturing:
            self.captured.append((handle, function, inputs, results))
            for tensor, old in zip(inputs, before):
                tensor.copy_(old)
        return results

    def replay(self):
        for handle, function, inputs, results in [] if self.is_faulty else self.captured:
            for result, found in zip(results, self.run(handle, function, inputs)):
                result.copy_(found)


@pytest.mark.parametrize("is_faulty", [False, True], ids=["right", "faulty"])
def test_what_a_gpu_is_asked_for_besides(is_faulty, monkeypatch):
    """Where there is no GPU, what checks of graphs and streams call, and what they say."""
    backend.operators()
    file = gpt_programs.make_program("gpt-learned", HOST, HOST)
    steps = programs.Steps(file, HOST, "cpu", 0)
    gpu = Gpu(monkeypatch, is_faulty)
    wrong = ["loss of step 1: other bits"] if is_faulty else []
    assert steps.graph(1) == wrong
    assert len(gpu.captured) == 1
    # Launched, to warm up, captured; launched, elsewhere.
    assert gpu.called_on == ["current", "other", "current"]
    assert steps.stream(1) == wrong
    assert gpu.called_on[3:] == ["current", "other"]
    steps.close()
