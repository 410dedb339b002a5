"""Training steps of a kit: compared with those of the CPU as on a machine with a GPU."""

import contextlib
import json
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from atomic_operators import atomic

sys.path.insert(0, str(Path(__file__).resolve().parent))

import gpt_programs
import kit as packer
import programs
from eager_gpt import EagerGpt
from kit import HOST
from test_kit import cells_of

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


def test_training_steps_are_checked(programs_kit, run_there):
    lines, _ = run_there(programs_kit, "check.py", "--device", "cpu", "--repeat", 2, code=1)
    said = "right", "skipped, the device is a CPU", "skipped, the device is a CPU"
    expected = [
        f"{name} f32 {what} cuda-emulated:sm_80: {word}"
        for name in gpt_programs.PROGRAMS
        for what, word in zip(("steps", "graph", "stream"), said)
    ]
    expected[7] = (
        "gpt-seqpe f32 graph cuda-emulated:sm_80: skipped, no graph can capture aten::_unique2, whose "
        "results have sizes that depend on data"
    )
    assert lines[1:10] == expected
    assert lines[10].startswith("wrong f32 steps cuda-emulated:sm_80: loss of step 1: ")
    assert "layers.0.query.weight:first_moment: " in lines[10]
    assert lines[-1] == "3 passed, 1 failed"


def has_sizes_of_data(name):
    """Whether PyTorch says so of any overload of an operator."""
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    overloads = [getattr(packet, overload) for overload in packet.overloads()] if packet else []
    return any(torch.Tag.dynamic_output_shape in overload.tags for overload in overloads)


@pytest.mark.parametrize("name", gpt_programs.PROGRAMS)
def test_what_steps_call(name):
    """On a GPU it gives the same bits in each run, or another one is called in its place, and waits
    only where that is known. Operators that others are made of, too, which no list of what programs
    call shows."""
    there = {text.split("(")[0] for text in json.loads(bytes(backend.operators().operators(True).tolist()))}
    steps = programs.Steps(gpt_programs.make_program(name, HOST, HOST), HOST, "cpu", 0)
    with torch.autograd.profiler.profile() as profile:
        steps.program.step(steps.start, steps.batches[0])
    called = {event.name for event in profile.function_events}
    assert {"aten::embedding_dense_backward", "aten::addmm"} < called
    assert set(atomic(called)) == {"aten::embedding_dense_backward"} - there
    waiting = gpt_programs.WAITING.get(name)
    assert {n for n in called if has_sizes_of_data(n)} == ({waiting} if waiting else set())
    steps.close()


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


TINY = dict(layers=2, width=32, heads=4)


@pytest.fixture(scope="module")
def trainings_kit(tmp_path_factory):
    """Models that are trained, of a size that the emulator takes; the last one is said to
    have other norms than its program."""
    folder = tmp_path_factory.mktemp("trainings") / "gpu-kit"
    packer.prepare(folder, "trainings")
    made = {
        name: gpt_programs.make_training(name, TINY, packer.EMULATOR)
        for name in ("gpt-alibi-f32", "gpt-kerple_log-bf16", "gpt-kerple_log-f32")
    }
    last = made.pop("gpt-kerple_log-f32")
    made["wrong"] = last | {"settings": last["settings"] | {"epsilon": 0.5}}
    for name, file in made.items():
        packer.save(file, folder / "trainings" / f"{name}.pt.xz")
    return folder


def test_training_steps_are_compared_and_timed(trainings_kit, tmp_path, run_there):
    """What was timed before one that computes something else is written."""
    small = ["--trained", 2, 20, "--rounds", 1, "--output", tmp_path]
    lines, errors = run_there(trainings_kit, "gpu_bench.py", "--device", "cpu", *small, code=1)
    rows = [
        (f"2 x 32 GPT, {what} [2, 20]", "training step", "eager", goal)
        for what, goal in (("alibi, f32", ""), ("kerple_log, bf16", "1.5 x"))
    ]
    assert cells_of(lines, 1, 2, 3, 6) == rows
    assert errors[-1].startswith("2 x 32 GPT, kerple_log, f32: eager has another loss, off by ")
    (record,) = tmp_path.glob("*.json")
    assert [row["work"] for row in json.loads(record.read_text())["rows"]] == [r[0] for r in rows]


# Of the loss and the norm of the gradients, relative, and of a parameter's elements, root mean
# square: in bf16 some roundings of what is multiplied. A step of AdamW moves an element by up to
# 0.01, and roundings decide the sign where a gradient is next to nothing. Over 300 draws they
# were at most 3.5e-7 and 1.7e-7, and 1.9e-3 and 2.1e-3.
NEAR = {"f32": (1e-5, 1e-5), "bf16": (1e-2, 5e-3)}


@pytest.mark.parametrize("name", gpt_programs.TRAININGS)
def test_eager_steps_are_those_of_the_program(name, seed):
    """Of gradients that are clipped, with decay, and of a parameter that is kept in its bounds.
    Each step begins with the program's parameters: what two steps differ by grows from step to
    step, to any size within three."""
    backend.operators()
    settings = TINY | dict(adam_epsilon=1e-4, decay=0.3, clip=0.4)
    encoding, dtype = gpt_programs.TRAININGS[name]
    near, moved = NEAR[dtype]
    file = gpt_programs.make_training(name, settings, HOST)
    program = programs.Program(file["program"], "cpu")
    state = program.start(seed)
    start = {name: t.clone() for name, t in state.items()}
    for name in (n for n in state if n.endswith("kerple_log.r1")):
        state[name].fill_(0.01)  # the least
    eager = EagerGpt(encoding, file["settings"], state, program.params)
    tokens, labels = torch.randint(0, 256, (2, 3, 20))
    given = {"tokens": tokens, "labels": labels, "learning_rate": torch.tensor(1e-2)}
    for _ in range(3):
        own, other = program.step(state, given), eager.step(tokens, labels, 1e-2)
        torch.testing.assert_close(tuple(own.values()), other, rtol=near, atol=0)
        for name, param in eager.params.items():
            assert (state[name] - param).square().mean().sqrt() < moved, name
            assert not param.requires_grad or not torch.equal(state[name], start[name]), name
            param.data.copy_(state[name])
    program.close()
