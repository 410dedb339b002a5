"""Programs of a kit: training steps on a device, held to the same steps on the CPU.

Two steps start from the same parameters and are given the same tokens. Kernels and PyTorch's
products add up in another order there, which f32 rounds differently; tolerances are a few
hundred such roundings, as those of the tests of whole models. On a GPU a step is captured
and replayed as a CUDA graph, too, and called on a stream that is not the current one.
"""

import json

import torch
from draws import normal

RATE = 1e-3
# Of a loss and of the norm of all gradients, relative.
LOSS, NORM = 1e-5, 1e-4
# Of gradients, of which the first moments are weighted sums: of a tensor's largest entry, and
# of any tensor, where all that it has is rounding (a bias on keys).
GRADIENT, SMALLEST = 1e-4, 1e-8
# Of parameters, each of which AdamW moves by about the rate in a step.
MOVED = 0.05 * RATE
# How far parameters start from their initial values, so that none is special.
APART = 0.02
# In clocks of the GPU, some hundredths of a second: what starts before it ends is too early.
SLEEP = 10**8


class Program:
    """A compiled program, by the names of its arguments."""

    def __init__(self, image, device):
        self.handle, self.device = int(torch.ops.sextant.load(image)), device
        manifest = json.loads(bytes(torch.ops.sextant.manifest(self.handle).tolist()))
        self.params = {p["name"]: p for p in manifest["parameters"]}
        (step,) = (f for f in manifest["functions"] if f["name"] == "train_step")
        self.arguments = [a["name"] for a in step["arguments"]]
        self.results = [r["name"] for r in step["results"]]

    def start(self, seed, apart=APART):
        """What steps change: parameters as they are initialized, but for some noise, and the
        optimizer's state. Alike for every program of a model."""
        state = {"step": torch.tensor(1.0)}
        for name, param in self.params.items():
            value = torch.ops.sextant.initialize(self.handle, name, seed)
            if not param["frozen"]:
                if apart:
                    value += apart * normal(seed, name, value.shape).float()
                for moment in ("first_moment", "second_moment"):
                    state[f"{name}:{moment}"] = torch.zeros_like(value)
            state[name] = value
        return self.there(state)

    def there(self, tensors):
        """Copies where the program runs."""
        return {name: t.to(self.device, copy=True) for name, t in tensors.items()}

    def step(self, state, batch):
        """Changes the state; results by name."""
        given = state | batch
        inputs = [given[name] for name in self.arguments]
        return dict(zip(self.results, torch.ops.sextant.run(self.handle, "train_step", inputs)))

    def close(self):
        torch.ops.sextant.unload(self.handle)


def batches_of(file, seed):
    """What each step is given: tokens and labels drawn by the seed, and what encodings ask."""
    shape = file["shape"]
    extents = shape["batch"], shape["length"]
    for number, given in enumerate(file["given"]):
        drawn = {
            name: (normal(seed, f"{name} {number}", extents) * shape["vocabulary"]).long()
            % shape["vocabulary"]
            for name in ("tokens", "labels")
        }
        yield {**drawn, **given, "learning_rate": torch.tensor(RATE)}


def named(results, number):
    """Results of one of several steps."""
    return {f"{name} of step {number}": t for name, t in results.items()}


def steps(program, start, batches):
    """All steps from a start, which stays: results of each, and the state they end in."""
    state, found = program.there(start), {}
    for number, batch in enumerate(batches):
        found |= named(program.step(state, program.there(batch)), number + 1)
    return {name: t.cpu() for name, t in (found | state).items()}


def off(name, got, want):
    """How far a result is from that of the CPU, and how far it may be."""
    difference = float((got.double() - want.double()).abs().max())
    largest = float(want.abs().max())
    if " of step " in name:
        return difference, (LOSS if name.startswith("loss") else NORM) * max(1.0, largest)
    if name.endswith(":first_moment"):
        return difference, GRADIENT * largest + SMALLEST
    if name.endswith(":second_moment"):  # of squares
        return difference, 2 * GRADIENT * largest + SMALLEST**2
    return difference, MOVED


def wrong_steps(got, want):
    """What steps on a device have otherwise than those on the CPU."""
    wrong = []
    for name, expected in want.items():
        difference, allowed = off(name, got[name], expected)
        if not difference <= allowed:  # a NaN is wrong
            wrong.append(f"{name}: {difference:.3g} > {allowed:.3g}")
    return wrong


def differing(got, want):
    """The first result with other bits."""
    for name, expected in want.items():
        if not torch.equal(got[name].cpu(), expected.cpu()):
            return [f"{name}: other bits"]
    return []


class Steps:
    """A program on a device beside the same one on the CPU. A method is a check that a line
    tells of: what is wrong."""

    def __init__(self, file, target, device, seed):
        programs = file["programs"]
        self.on_host = Program(programs[file["host"]], "cpu")
        self.program = Program(programs[target], device)
        self.start = self.on_host.start(seed)
        self.batches = list(batches_of(file, seed))

    def steps(self, repeat):
        """Of all steps, on the CPU and in another run."""
        got = steps(self.program, self.start, self.batches)
        wrong = wrong_steps(got, steps(self.on_host, self.start, self.batches))
        for _ in range(repeat - 1):
            again = differing(steps(self.program, self.start, self.batches), got)
            if again:
                return [*wrong, f"{again[0]} in another run"]
        return wrong

    def graph(self, _repeat):
        """Of a step that is replayed as a CUDA graph, and of one that is launched."""
        program, batch = self.program, self.program.there(self.batches[0])
        want = steps(program, self.start, self.batches[:1])
        with torch.cuda.device(program.device):
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):  # libraries begin what no graph may hold
                program.step(program.there(self.start), batch)
            torch.cuda.current_stream().wait_stream(aside)
            state, graph = program.there(self.start), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results = program.step(state, batch)
            wrong = []
            for _ in range(2):
                for name, tensor in state.items():
                    tensor.copy_(self.start[name])
                for tensor in results.values():
                    tensor.fill_(torch.nan)
                graph.replay()
                torch.cuda.synchronize()
                wrong += differing(named(results, 1) | state, want)
            return wrong[:1]

    def stream(self, _repeat):
        """Of a step on another stream: its operands are there when what is before it on
        that stream has ended, and not earlier."""
        program, batch = self.program, self.program.there(self.batches[0])
        want = steps(program, self.start, self.batches[:1])
        with torch.cuda.device(program.device):
            state, origin = program.there(self.start), program.there(self.start)
            for tensor in state.values():
                tensor.fill_(torch.nan)
            torch.cuda.synchronize()
            other = torch.cuda.Stream()
            with torch.cuda.stream(other):
                torch.cuda._sleep(SLEEP)
                for name, tensor in state.items():
                    tensor.copy_(origin[name])
                results = program.step(state, batch)
            other.synchronize()
            return differing(named(results, 1) | state, want)

    def close(self):
        self.program.close()
        self.on_host.close()


CHECKS = ("steps", "graph", "stream")
# Which of them no CPU has.
NEEDS_A_GPU = ("graph", "stream")


def obstacle(file, what, target, device):
    """Why a program for a target is not held to a check on a device; None where it is."""
    if what == "graph" and file["waiting"]:
        return f"no graph can capture {file['waiting']}, whose results have sizes that depend on data"
    needs_a_gpu = target.startswith("cuda:") or what in NEEDS_A_GPU
    return "the device is a CPU" if needs_a_gpu and device == "cpu" else None
