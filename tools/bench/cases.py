"""What is measured: every line of the table that the project promises."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import gpt
import torch
from peak import peak
from timing import Rounds

import sextant

SHAPES = ((4, 12, 1024, 64), (1, 16, 4096, 128))
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
HOISTABLE = ("rope", "alibi", "t5_bias", "kerple_log", "sandwich")
# What acts inside attention, and the share of our plain kernel's speed that it keeps.
# Those of a grid see the keys as 32 rows of the grid.
INSIDE = {
    "rope_2d_mixed": 0.9,
    "xpos": 0.9,
    "forgetting": 0.9,
    "swin(rows=32, columns=64)": 0.9,
}
ON_GRID = ("rope_2d_mixed", "swin(rows=32, columns=64)")
GRID_ROWS = 32


@dataclass(frozen=True)
class Row:
    """One measured number, and what it should at least (or at most) be."""

    section: str
    work: str
    threads: int
    value: float
    unit: str = "x"
    goal: float | None = None
    low: float | None = None
    high: float | None = None
    at_most: bool = False
    note: str = ""

    @property
    def holds(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value <= self.goal if self.at_most else self.value >= self.goal

    def as_dict(self) -> dict:
        return {**asdict(self), "holds": self.holds}


@dataclass(frozen=True)
class Settings:
    threads: int
    rounds: int
    shapes: tuple = SHAPES
    is_quick: bool = False


def _inputs(shape, dtype: torch.dtype) -> list[torch.Tensor]:
    """Query, key, value that want gradients, and a gradient of the output."""
    tensors = [torch.randn(shape, dtype=dtype) for _ in range(4)]
    for tensor in tensors[:3]:
        tensor.requires_grad_()
    return tensors


def _flops(shape, is_causal: bool) -> float:
    batch, heads, length, dim = shape
    return 4.0 * batch * heads * length * length * dim / (2 if is_causal else 1)


def _forward(run: Callable[[], torch.Tensor]) -> Callable[[], object]:
    def call():
        with torch.no_grad():
            return run()

    return call


def _both(run: Callable[[], torch.Tensor], inputs, gradient) -> Callable[[], object]:
    return lambda: torch.autograd.grad(run(), inputs, gradient)


def attention(settings: Settings) -> Iterator[Row]:
    """Against `scaled_dot_product_attention`, and the share of the peak."""
    goals = {("f32", False): 1.2, ("f32", True): 1.35, ("bf16", False): 1.7, ("bf16", True): 1.7}
    for shape in settings.shapes:
        for (dtype, is_causal), goal in goals.items():
            q, k, v, gradient = _inputs(shape, DTYPES[dtype])
            encodings = ["causal"] if is_causal else []

            def ours():
                return sextant.attention(q, k, v, encodings)

            def torchs():
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=is_causal
                )

            work = f"{shape} {dtype} {'causal' if is_causal else 'full'}"
            most = peak(dtype, settings.threads)
            for phase, wrap, cost in (
                ("forward", _forward, 1.0),
                ("forward + backward", lambda f: _both(f, (q, k, v), gradient), 3.5),
            ):
                rounds = Rounds({"ours": wrap(ours), "torch": wrap(torchs)}, settings.rounds)
                ratio = rounds.ratio("ours", "torch")
                rate = cost * _flops(shape, is_causal) / rounds.median("ours")
                yield Row(
                    "attention vs scaled_dot_product_attention",
                    f"{work} {phase}",
                    settings.threads,
                    ratio.median,
                    goal=goal,
                    low=ratio.low,
                    high=ratio.high,
                    note=f"{rate / 1e9:.0f} GFLOP/s"
                    + (f", {100 * rate / most:.0f} % of peak" if most else ""),
                )


def share(settings: Settings) -> Iterator[Row]:
    """f32 forward, full, against the peak that is measured beside it."""
    for dim, goal in ((64, 85.0), (128, 88.0)):
        shape = (1, 8, 4096, dim)
        q, k, v, _ = _inputs(shape, torch.float32)
        run = _forward(lambda: sextant.attention(q, k, v))
        shares = []
        for _ in range(settings.rounds):
            # Of both the best of a few runs, side by side.
            most = peak("f32", settings.threads)
            best = Rounds({"ours": run}, 3).best("ours")
            shares.append(100 * _flops(shape, False) / best / most)
        shares.sort()
        yield Row(
            "share of the measured peak",
            f"{shape} f32 full forward",
            settings.threads,
            shares[len(shares) // 2],
            "%",
            goal,
            shares[0],
            shares[-1],
        )


def _parameters(encodings, shape) -> dict[str, torch.Tensor]:
    _, heads, _, dim = shape
    return sextant.init_params(encodings, heads=heads, head_dim=dim, seed=0, requires_grad=True)


def encodings(settings: Settings) -> Iterator[Row]:
    """Hoistable encodings, parameter gradients included, against our own plain
    kernel."""
    for shape in settings.shapes:
        for base in ([], ["causal"]):
            q, k, v, gradient = _inputs(shape, torch.float32)
            forward, both = {}, {}
            for name in (None, *HOISTABLE):
                uses = base + ([name] if name else [])
                params = _parameters(uses, shape)
                trained = [p for p in params.values() if p.requires_grad]

                def run(uses=uses, params=params):
                    return sextant.attention(q, k, v, uses, params)

                forward[name or "plain"] = _forward(run)
                both[name or "plain"] = _both(run, (q, k, v, *trained), gradient)
            for phase, candidates in (("forward", forward), ("forward + backward", both)):
                rounds = Rounds(candidates, settings.rounds)
                for name in HOISTABLE:
                    ratio = rounds.ratio(name, "plain")
                    yield Row(
                        "encodings vs our plain kernel",
                        f"{shape} {'causal ' if base else ''}{name} {phase}",
                        settings.threads,
                        ratio.median,
                        goal=0.93,
                        low=ratio.low,
                        high=ratio.high,
                    )


def _inside_call(use: str, shape, q, k, v):
    """A call with causal and one encoding, and its trained parameters."""
    batch, heads, length, dim = shape
    given = {}
    if use in ON_GRID:
        columns = length // GRID_ROWS
        index = torch.arange(length)
        grid = torch.stack([index // columns, index % columns], -1).to(torch.int32)[None]
        given = {"query_positions": grid, "key_positions": grid}
    if use == "forgetting":  # its gates are made by the graph
        params = {"forgetting.gate": torch.randn(batch, heads, length, requires_grad=True)}
    else:
        params = _parameters([use], shape)
    trained = [p for p in params.values() if p.requires_grad]
    return lambda: sextant.attention(q, k, v, ["causal", use], params, **given), trained


def inside(settings: Settings) -> Iterator[Row]:
    """Encodings that are rows, running sums or gathers, parameter gradients included,
    against our own plain kernel."""
    shape = (1, 4, 512, 64) if settings.is_quick else (1, 12, 2048, 64)
    q, k, v, gradient = _inputs(shape, torch.float32)
    plain = _both(lambda: sextant.attention(q, k, v, ["causal"]), (q, k, v), gradient)
    candidates = {"plain": plain}
    for use in INSIDE:
        run, trained = _inside_call(use, shape, q, k, v)
        candidates[use] = _both(run, (q, k, v, *trained), gradient)
    rounds = Rounds(candidates, settings.rounds)
    for use, goal in INSIDE.items():
        ratio = rounds.ratio(use, "plain")
        yield Row(
            "encodings inside attention vs our plain kernel",
            f"{shape} f32 causal {use} forward + backward",
            settings.threads,
            ratio.median,
            goal=goal,
            low=ratio.low,
            high=ratio.high,
        )


@sextant.columns("width")
def embedded(
    at,
    a: sextant.Param("heads", "key", "width", given=True),
    b: sextant.Param("heads", "key", "width", given=True),
    *,
    width=64,
):
    """Position embeddings of each head, shared by the batch."""
    return a[at.head, at.query, at.lane], b[at.head, at.key, at.lane]


def columns(settings: Settings) -> Iterator[Row]:
    """Columns as wide as a head, gradients of their tables included, against our own
    plain kernel: half as many products again forward, 1.6 times as many in all."""
    shape = (1, 4, 512, 64) if settings.is_quick else (1, 12, 2048, 64)
    _, heads, length, dim = shape
    for dtype, goal in (("f32", 0.6), ("bf16", None)):
        q, k, v, gradient = _inputs(shape, DTYPES[dtype])
        tables = {
            f"embedded.{n}": torch.randn(heads, length, dim).mul(0.1).requires_grad_()
            for n in ("a", "b")
        }

        def plain():
            return sextant.attention(q, k, v, ["causal"])

        def wide():
            return sextant.attention(q, k, v, ["causal", embedded(width=dim)], tables)

        rounds = Rounds(
            {
                "columns": _both(wide, (q, k, v, *tables.values()), gradient),
                "plain": _both(plain, (q, k, v), gradient),
            },
            settings.rounds,
        )
        ratio = rounds.ratio("columns", "plain")
        yield Row(
            "places vs our plain kernel",
            f"{shape} {dtype} causal {dim}-wide columns forward + backward",
            settings.threads,
            ratio.median,
            goal=goal,
            low=ratio.low,
            high=ratio.high,
        )


def dense_bias(settings: Settings) -> Iterator[Row]:
    """A learned bias, against PyTorch with the bias as a mask that requires grad."""
    for shape in settings.shapes[:1]:
        _, heads, length, dim = shape
        for base in ([], ["causal"]):
            q, k, v, gradient = _inputs(shape, torch.float32)
            r1 = torch.rand(heads).mul(2).requires_grad_()
            r2 = torch.rand(heads).add(0.01).requires_grad_()
            params = {"kerple_log.r1": r1, "kerple_log.r2": r2}
            index = torch.arange(length)
            distance = (index[:, None] - index[None, :]).abs().float()
            hidden = torch.zeros(length, length)
            if base:
                hidden = hidden.masked_fill(index[None, :] > index[:, None], float("-inf"))

            def ours():
                return sextant.attention(q, k, v, base + ["kerple_log"], params)

            def torchs():
                bias = -r1[:, None, None] * torch.log1p(r2[:, None, None] * distance) + hidden
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, attn_mask=bias[None]
                )

            inputs = (q, k, v, r1, r2)
            rounds = Rounds(
                {"ours": _both(ours, inputs, gradient), "torch": _both(torchs, inputs, gradient)},
                max(3, settings.rounds // 2),
            )
            ratio = rounds.ratio("ours", "torch")
            # Full attention does twice the products for the same dense bias.
            most = peak("f32", settings.threads)
            rate = 3.5 * _flops(shape, bool(base)) / rounds.median("ours")
            yield Row(
                "learned bias vs a mask that requires grad",
                f"{shape} {'causal ' if base else ''}kerple_log forward + backward",
                settings.threads,
                ratio.median,
                goal=4.0 if base else None,
                low=ratio.low,
                high=ratio.high,
                note=f"{100 * rate / most:.0f} % of peak",
            )


def training(settings: Settings) -> Iterator[Row]:
    """A step of a 12-layer, 768-wide GPT on 2048 bytes, against eager PyTorch."""
    size = {"layers": 12, "width": 768, "heads": 12, "length": 2048}
    if settings.is_quick:
        size = {"layers": 2, "width": 128, "heads": 4, "length": 256}
    for encoding, goal in (("alibi", 1.1), ("kerple_log", 1.5)):
        ours, eager = gpt.steps(encoding, **size)
        rounds = Rounds({"ours": ours, "torch": eager}, max(3, settings.rounds // 2))
        ratio = rounds.ratio("ours", "torch")
        yield Row(
            "training step of a GPT vs eager PyTorch",
            f"{size['layers']} layers, width {size['width']}, length {size['length']}, {encoding}",
            settings.threads,
            ratio.median,
            goal=goal,
            low=ratio.low,
            high=ratio.high,
            note=f"{rounds.median('ours'):.2f} s per step",
        )


_COMPILE = """
import sys, time
import sextant, torch
both = sys.argv[1] == "both"
def call(dim, target="cpu"):
    q, k, v = (torch.randn(1, 1, 4, dim, requires_grad=both) for _ in range(3))
    start = time.perf_counter()
    out = sextant.attention(q, k, v, ["causal", "alibi"], target=target)
    if both:
        out.sum().backward()
    return time.perf_counter() - start
call(8, "reference") # PyTorch imports its own compiler at the first call
cold = call(64)
from sextant import plans
plans._plans.clear()
print(cold, call(64))
"""


def compiling(settings: Settings) -> Iterator[Row]:
    """One attention with an empty disk cache, and once more in that process from the
    disk cache; both run the kernel as well."""
    for phase, goal in (("forward", 0.5), ("both", 0.9)):
        times = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as cache:
                run = subprocess.run(
                    [sys.executable, "-c", _COMPILE, phase],
                    env={**os.environ, "XDG_CACHE_HOME": cache},
                    check=True,
                    capture_output=True,
                    text=True,
                )
            times.append([float(x) for x in run.stdout.split()])
        name = "forward" if phase == "forward" else "forward and backward"
        for column, work, limit in ((0, "cold", goal), (1, "from the disk cache", 0.010)):
            values = sorted(t[column] for t in times)
            yield Row(
                "compile one attention",
                f"{name}, {work}",
                1,
                values[1],
                "s",
                limit,
                values[0],
                values[-1],
                at_most=True,
            )


SECTIONS = {
    "attention": attention,
    "share": share,
    "encodings": encodings,
    "inside": inside,
    "columns": columns,
    "bias": dense_bias,
    "training": training,
    "compile": compiling,
}
