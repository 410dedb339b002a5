#!/usr/bin/env python3
"""Times attentions of a kit on a GPU beside PyTorch's.

    gpu_bench.py [--device cuda|cpu] [--tokens N] [--length N...] [--rounds N] [--output FOLDER]

Peers: `scaled_dot_product_attention` for attention without encodings ("flash" and "cudnn": on
that backend of it and on no other, skipped with the reason where PyTorch lacks it); compiled
`flex_attention` and attention written out ("eager") for encodings, and our own attention
without them ("plain"). Candidates take turns (of a GPU some calls each, by its events); a row
has the median of the ratios peer / ours, their spread, and the goal of the median where there
is one. Before anything is timed, outputs are compared. Last come training steps of a GPT,
beside eager PyTorch of the same model, under autocast where products are of bf16. Writes a
table and a JSON, also of the rows that were there before something failed.
"""

import argparse
import datetime
import functools
import io
import json
import lzma
import re
import statistics
import sys
import time
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import peers
from check import describe
from eager_gpt import EagerGpt
from programs import RATE, Program
from timings import FORWARD, GOALS, GOALS_OF_STEPS, STEP, Timing, timings_of

HEADS = 16
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# Sequences, keys of each, and heads that share those of keys.
DECODE = dict(batch=64, length=8192, group=8)
# Sequences and tokens of each that a training step has.
TRAINED = dict(batch=8, length=2048)
# How far the loss and the norm of the gradients of a first step may be from the peer's: a few
# roundings of what is multiplied.
STEPS_APART = {"f32": 1e-3, "bf16": 3e-2}
# Steps of a GPU that are timed together, and from how many seconds on one is timed alone, and
# three times at most.
QUEUED, LONG = 4, 0.05
# How many rows outputs are compared at: scores of all pairs of them stand in memory.
COMPARED = 1024


def load(path):
    """A file of the kit."""
    return torch.load(io.BytesIO(lzma.decompress(path.read_bytes())), weights_only=True)


class Ours:
    """An attention of the kit."""

    def __init__(self, path, device):
        file = load(path)
        self.handle = int(torch.ops.sextant.load(file["artifact"]))
        self.dim = file["dim"]
        self.params = {name: tensor.to(device) for name, tensor, _ in file["params"]}

    def forward(self, q, k, v):
        return torch.ops.sextant.run(self.handle, "forward", [q, k, v, *self.params.values()])

    def both(self, q, k, v, do):
        output, lse, statistics = self.forward(q, k, v)
        operands = [q, k, v, output, statistics, do, torch.zeros_like(lse)]
        torch.ops.sextant.run(self.handle, "backward", [*operands, *self.params.values()])


def seconds(step, device):
    """One step, warm. On a GPU a mean of some that are queued behind another, by its own
    clock: what the host does for one step is hidden by the one before, as in a model. A long
    one hides it alone."""
    if device == "cpu":
        start = time.perf_counter()
        step()
        return time.perf_counter() - start
    once = seconds_queued(step, 1)
    if once > LONG:
        return once
    step()
    return seconds_queued(step, QUEUED) / QUEUED


def seconds_queued(step, count):
    """Some steps of a GPU, until the last one ends."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        step()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


class Work:
    """A work of the kit, with rows of some lengths and parameters that are trained."""

    def __init__(self, path, device):
        self.name, self.dtype = re.fullmatch(r"([\w-]+)-(\w+)\.pt\.xz", path.name).groups()
        self.ours, self.device = Ours(path, device), device
        self.params = {
            n: t.detach().requires_grad_(t.is_floating_point() and "thresholds" not in n)
            for n, t in self.ours.params.items()
        }
        plain = path.with_name(f"causal-{self.dtype}.pt.xz")
        self.plain = Ours(plain, device) if plain.exists() else None

    def rows(self, batch, heads, length):
        shape = (batch, heads, length, self.ours.dim)
        return torch.randn(shape, dtype=DTYPES[self.dtype], device=self.device)

    def compare(self, length):
        """Ends the program where a peer computes something else."""
        q, k, v = (self.rows(1, HEADS, min(length, COMPARED)) for _ in range(3))
        others = {"eager": lambda *rows: peers.eager(self.name, self.params, *rows)}
        if self.name.startswith(("plain", "causal")):
            for peer in {t.peer for t in timings_of(self.name, self.dtype, length, self.device)}:
                if not peers.missing(peer, self.device):
                    others[peer] = peers.sdpa(self.name, peer)
        elif self.name in peers.FLEXIBLE:
            shape = self.name, self.params, q.shape[2], self.device
            others["flex"] = peers.flex(*shape, compiles=False)
        with torch.no_grad():
            own = self.ours.forward(q, k, v)[0].float()
            for peer, attention in others.items():
                self.hold(peer, own, attention(q, k, v).float())

    def hold(self, peer, own, other):
        off = float((own - other).abs().max() / other.abs().max())
        if not off <= (1e-3 if self.dtype == "f32" else 4e-2):
            raise SystemExit(
                f"{self.name}-{self.dtype}: {peer} computes something else, off by {off:.3g}"
            )

    def step_of(self, timing, length, q, k, v, do):
        """A step of a peer."""
        if timing.peer == "plain":
            run = self.plain.forward if timing.direction == FORWARD else self.plain.both
            rows = (q, k, v) if timing.direction == FORWARD else (q, k, v, do)
            return lambda: run(*rows)
        if timing.peer == "eager":
            attention = functools.partial(peers.eager, self.name, self.params)
        elif timing.peer == "flex":
            attention = peers.flex(self.name, self.params, length, self.device)
            with torch.no_grad():  # as it is compiled
                own = self.ours.forward(q, k, v)[0].float()
                self.hold("flex", own, attention(q, k, v).float())
        else:
            attention = peers.sdpa(self.name, timing.peer)
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        wanted = [*leaves, *(p for p in self.params.values() if p.requires_grad)]

        def forward():
            with torch.no_grad():
                attention(q, k, v)

        def both():
            torch.autograd.grad(attention(*leaves), wanted, do, allow_unused=True)

        return forward if timing.direction == FORWARD else both

    def measure(self, batch, length, rounds):
        """Rows of the table."""
        self.compare(length)
        q, k, v, do = (self.rows(batch, HEADS, length) for _ in range(4))
        for timing in timings_of(self.name, self.dtype, length, self.device):
            if timing.peer == "plain" and not self.plain:
                continue
            label = f"{self.name} {self.dtype} {list(q.shape)}"
            if why := peers.missing(timing.peer, self.device):
                yield skip(label, timing, why)
                continue
            run = self.ours.forward if timing.direction == FORWARD else self.ours.both
            rows = (q, k, v) if timing.direction == FORWARD else (q, k, v, do)
            other = self.step_of(timing, length, q, k, v, do)
            yield race(label, timing, lambda: run(*rows), other, rounds, self.device)

    def decode(self, batch, length, group, rounds):
        """One query of each sequence."""
        q = self.rows(batch, HEADS, 1)
        k, v = (self.rows(batch, HEADS // group, length) for _ in range(2))
        other = peers.sdpa(self.name)
        self.hold("sdpa", self.ours.forward(q, k, v)[0].float(), other(q, k, v).float())
        label = f"decode {self.dtype} {list(q.shape)}, keys {list(k.shape)}"
        timing = Timing("sdpa", FORWARD, GOALS["decode"] if self.dtype == "bf16" else None)
        yield race(
            label, timing, lambda: self.ours.forward(q, k, v), lambda: other(q, k, v),
            rounds, self.device,
        )  # fmt: skip


class Training:
    """A model of the kit and the same one in eager PyTorch, which are trained on tokens."""

    def __init__(self, path, device):
        file = load(path)
        self.encoding, self.settings = file["encoding"], file["settings"]
        self.ours, self.device = Program(file["program"], device), device
        self.state = self.ours.start(seed=0, apart=0.0)
        self.eager = EagerGpt(self.encoding, self.settings, self.state, self.ours.params)

    def measure(self, batch, length, rounds):
        """A row of the table; ends the program where a first step computes something else."""
        tokens = torch.randint(0, self.settings["vocabulary"], (batch, length + 1))
        tokens, labels = (t.contiguous().to(self.device) for t in (tokens[:, :-1], tokens[:, 1:]))
        rate = torch.tensor(RATE, device=self.device)
        given = {"tokens": tokens, "labels": labels, "learning_rate": rate}
        own = self.ours.step(self.state, given)
        other = dict(zip(("loss", "gradient_norm"), self.eager.step(tokens, labels, RATE)))
        sizes, dtype = self.settings, self.settings["dtype"]
        label = f"{sizes['layers']} x {sizes['width']} GPT, {self.encoding}, {dtype}"
        for name, value in other.items():
            off = abs(float(own[name]) / float(value) - 1)
            if not off <= STEPS_APART[dtype]:
                raise SystemExit(f"{label}: eager has another {name}, off by {off:.3g}")
        yield race(
            f"{label} {list(tokens.shape)}",
            Timing("eager", STEP, GOALS_OF_STEPS[self.encoding] if dtype == "bf16" else None),
            lambda: self.ours.step(self.state, given),
            lambda: self.eager.step(tokens, labels, RATE),
            rounds,
            self.device,
        )


def race(label, timing, ours, other, rounds, device):
    """Two steps in turn: a row of the table, which is printed."""
    for _ in range(min(2, rounds)):  # warm up
        other()
        ours()
    ratios, times = [], []
    while len(times) < rounds:
        own = seconds(ours, device)
        ratios.append(seconds(other, device) / own)
        times.append(own)
        if device != "cpu" and ratios[-1] * own > LONG:
            rounds = min(rounds, 3)
    row = dict(
        work=label,
        direction=timing.direction,
        peer=timing.peer,
        ratio=statistics.median(ratios),
        low=min(ratios),
        high=max(ratios),
        goal=timing.goal,
        milliseconds=1e3 * statistics.median(times),
    )
    print(line_of(row), flush=True)
    return row


def skip(label, timing, why):
    """The row of what cannot be timed here, which is printed."""
    row = dict(work=label, direction=timing.direction, peer=timing.peer, skipped=why)
    print(line_of(row), flush=True)
    return row


def line_of(row):
    if "skipped" in row:
        return f"| {row['work']} | {row['direction']} | {row['peer']} | skipped: {row['skipped']} | | | |"
    goal = "" if row["goal"] is None else f"{row['goal']:.3g} x"
    return (
        f"| {row['work']} | {row['direction']} | {row['peer']} | {row['ratio']:.3g} x "
        f"| {row['low']:.3g} - {row['high']:.3g} | {goal} | {row['milliseconds']:.3g} ms |"
    )


def measure_all(options):
    """Rows of all works at all lengths, and of training steps."""
    works, trainings = (
        [
            path
            for path in sorted((HERE / part).glob("*.pt.xz"))
            if not options.match or any(text in path.name for text in options.match)
        ]
        for part in ("works", "trainings")
    )
    for path in works:
        work = Work(path, options.device)
        for length in options.length:
            yield from work.measure(max(1, options.tokens // length), length, options.rounds)
        if work.name == "plain":
            shape = dict(DECODE, batch=options.sequences, length=options.cached)
            yield from work.decode(rounds=options.rounds, **shape)
    for path in trainings:
        shape = dict(batch=options.trained[0], length=options.trained[1])
        yield from Training(path, options.device).measure(rounds=options.rounds, **shape)


def write(path, head, table, rows):
    """The table and the JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [line_of(row) for row in rows]
    path.with_suffix(".md").write_text("\n".join([head, "", table, *lines]) + "\n")
    record = {"machine": head, "rows": rows}
    path.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 ..., or cpu (cuda)")
    parser.add_argument("--tokens", type=int, default=16384, help="of a batch (16384)")
    parser.add_argument(
        "--length", type=int, nargs="+", default=[4096, 2048], help="of a sequence (4096 2048)"
    )
    parser.add_argument(
        "--sequences", type=int, default=DECODE["batch"], help="that are decoded at once (64)"
    )
    parser.add_argument(
        "--cached", type=int, default=DECODE["length"], help="keys of each of them (8192)"
    )
    parser.add_argument(
        "--trained", type=int, nargs=2, default=list(TRAINED.values()),
        metavar=("SEQUENCES", "LENGTH"), help="tokens of a training step (8 2048)",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=7, help="turns of the candidates (7)")
    parser.add_argument(
        "--match",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="of works and models: causal, dape-bf16, gpt-alibi ...",
    )
    parser.add_argument("--output", type=Path, help="folder for DATE-DEVICE.md and .json")
    options = parser.parse_args()
    name = describe(options.device, "gpu_bench.py")
    torch.ops.load_library(str(HERE / "libsextant_torch.so"))
    torch.manual_seed(0)
    today = datetime.date.today().isoformat()
    head = f"{name}, PyTorch {torch.__version__}, {today}"
    table = (
        "| work | direction | vs | median | spread | goal | ours |\n|---|---|---|---|---|---|---|"
    )
    print(f"{head}\n\n{table}")
    rows = []
    try:
        rows.extend(measure_all(options))
    finally:
        if options.output and rows:
            stem = re.sub("[^a-z0-9]+", "-", f"{today}-{name}-gpu".lower())
            write(options.output / stem, head, table, rows)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
