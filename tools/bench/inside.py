"""Encodings that act inside attention, forward and backward with the gradients of
their parameters: against our own plain kernel, and against what a PyTorch user
writes (eager.py)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import eager
import torch
from rows import Row, Settings, both, inputs
from timing import Rounds

import sextant


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


@dataclass(frozen=True)
class Work:
    """One encoding: the share of our plain kernel's speed that it keeps at least, and
    how many times as fast as PyTorch it is."""

    use: str
    plain: float
    torchs: Callable
    eager: float = 1.1
    compiled: float = 1.1
    label: str = ""
    is_on_grid: bool = False
    gate: float = 0.0  # what is added to every score

    @property
    def name(self) -> str:
        return f"{self.use}{', ' if self.label else ''}{self.label}"


GRID = {"is_on_grid": True}
WORKS = (
    Work("rope_2d_mixed", 0.9, eager.rope_2d_mixed, **GRID),
    Work("xpos", 0.9, eager.xpos),
    Work("forgetting", 0.9, eager.forgetting),
    Work("swin", 0.9, eager.swin, **GRID),
    Work("fire", 0.8, eager.fire, 3, 3),
    Work("columns", 0.6, eager.columns),
    Work("shaw", 0.5, eager.shaw, 3, 3),
    Work("cope", 0.5, eager.cope, 3, 3, "gates that exit early"),
    Work("cope", 0.4, eager.cope, 3, 3, "never exits", gate=-12.0),
    Work("transformer_xl", 0.4, eager.transformer_xl, 3, 3),
    Work("two_values", 0.6, eager.two_values),
    Work("dape", 0.5, eager.dape, 12, 8, "kerple_log, width 32"),
    Work("dape(hidden=8)", 0.68, eager.dape, 12, 8, "kerple_log, width 8"),
    Work("talking_heads", 0.72, eager.talking_heads),
)


class Problem:
    """Tensors of one work at one shape, and its calls."""

    def __init__(self, work: Work, shape, tensors):
        self.work = work
        self.query, self.key, self.value, self.gradient = tensors
        batch, heads, length, dim = shape
        if work.gate:
            # The same number in every score, from a lane of its own.
            self.query, self.key = (t.detach().clone() for t in (self.query, self.key))
            self.query[..., -1], self.key[..., -1] = 1.0, work.gate * math.sqrt(dim)
            self.query.requires_grad_(), self.key.requires_grad_()
        self.shape = shape
        self.positions = {}
        if work.is_on_grid:
            grid = eager.grid(length).to(torch.int32)[None]
            self.positions = {"query_positions": grid, "key_positions": grid}
        self.uses, self.values = [work.use], self.value
        if work.use == "two_values":
            self.uses, params = [], {"second": torch.randn_like(self.value)}
            self.gradient = torch.cat([self.gradient, torch.randn_like(self.gradient)], -1)
        elif work.use == "columns":
            self.uses = [embedded(width=dim)]
            params = {f"embedded.{n}": torch.randn(heads, length, dim) * 0.1 for n in ("a", "b")}
        elif work.use == "forgetting":  # its gates are made by the graph
            params = {"forgetting.gate": torch.randn(batch, heads, length)}
        else:
            if work.use == "swin":
                self.uses = [f"swin(rows={eager.GRID_ROWS}, columns={length // eager.GRID_ROWS})"]
            elif work.use.startswith("dape"):
                options = work.use.removeprefix("dape").strip("()")
                self.uses = [f"dape(kerple_log{', ' if options else ''}{options})"]
            params = sextant.init_params(self.uses, heads=heads, head_dim=dim, seed=0)
        self.params = {n: t.detach().requires_grad_(t.is_floating_point()) for n, t in params.items()}
        self.leaves = [self.query, self.key, self.value]
        self.leaves += [t for t in self.params.values() if t.requires_grad]

    @functools.cached_property
    def constants(self) -> dict[str, torch.Tensor]:
        return eager.constants(self.shape)

    def ours(self) -> torch.Tensor:
        uses = ["causal", *self.uses]
        if self.work.use == "two_values":
            values = (self.value, self.params["second"])
            return torch.cat(sextant.attention(self.query, self.key, values, uses), -1)
        return sextant.attention(
            self.query, self.key, self.value, uses, self.params, **self.positions
        )

    def torchs(self, function) -> torch.Tensor:
        return function(self.query, self.key, self.value, self.params, self.constants)

    def check(self) -> None:
        """Both compute the same: what is compared is the same work."""
        with torch.no_grad():
            torch.testing.assert_close(
                self.ours(), self.torchs(self.work.torchs), rtol=1e-3, atol=1e-3
            )

    def call(self, run) -> Callable[[], object]:
        return both(run, self.leaves, self.gradient)


def inside(settings: Settings) -> Iterator[Row]:
    """Against our own plain kernel, causal."""
    shape = settings.inside
    for work in WORKS:
        tensors = inputs(shape, torch.float32)
        problem = Problem(work, shape, tensors)
        q, k, v, gradient = tensors
        plain = both(lambda: sextant.attention(q, k, v, ["causal"]), (q, k, v), gradient)
        rounds = Rounds({"ours": problem.call(problem.ours), "plain": plain}, settings.rounds)
        yield settings.ratio(
            "encodings inside attention vs our plain kernel",
            f"{shape} f32 causal {work.name} forward + backward",
            rounds,
            "ours",
            "plain",
            work.plain,
        )


def against_torch(settings: Settings) -> Iterator[Row]:
    """Against the same encoding in PyTorch, eager and compiled."""
    shape = settings.inside
    for work in WORKS:
        problem = Problem(work, shape, inputs(shape, torch.float32))
        problem.check()
        torch._dynamo.reset()
        compiled = torch.compile(work.torchs, dynamic=False)
        candidates = {
            "ours": problem.call(problem.ours),
            "eager": problem.call(lambda: problem.torchs(work.torchs)),
            "compiled": problem.call(lambda: problem.torchs(compiled)),
        }
        rounds = Rounds(candidates, settings.few)
        for other in ("eager", "compiled"):
            yield settings.ratio(
                "encodings inside attention vs the same in PyTorch",
                f"{shape} f32 causal {work.name} forward + backward vs {other}",
                rounds,
                "ours",
                other,
                getattr(work, other),
                f"{rounds.median('ours'):.3f} s",
            )
