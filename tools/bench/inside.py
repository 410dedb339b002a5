"""Encodings that act inside attention, forward and backward with the gradients of
their parameters: against our own plain kernel, and against what a PyTorch user
writes (eager.py)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import eager
import torch
from rows import Row, Settings, both, inputs
from timing import Rounds

import sextant


@sextant.columns("width")
def embedded(
    at,
    a: sextant.Param("heads", "key", "width", given=True),  # type: ignore[valid-type]
    b: sextant.Param("heads", "key", "width", given=True),  # type: ignore[valid-type]
    *,
    width=64,
):
    """Position embeddings of each head, shared by the batch."""
    return a[at.head, at.query, at.lane], b[at.head, at.key, at.lane]


@dataclass(frozen=True)
class Work:
    """One encoding: what a PyTorch user writes for it, how many times as fast as that
    it is at least, eager and compiled, and the share of our plain kernel's speed that
    it keeps, where one is promised."""

    name: str
    torchs: Callable
    plain: float | None = None
    eager: float = 1.1
    compiled: float = 1.1
    use: str = ""  # unless it is the name; may hold {columns} and {trained} of the length
    places: str = ""  # "grid" or "random": positions that are not the index
    gate: float = 0.0  # what is added to every score
    is_slow: bool = False  # seconds per call, so fewer rounds


GRID: dict[str, Any] = {"places": "grid"}
NTK = f"scaling=ntk, factor={eager.FACTOR}"
DYNAMIC = f"scaling=ntk_dynamic, factor={eager.FACTOR}, train_length={{trained}}"
YARN = f"scaling=yarn, factor={eager.FACTOR}, train_length={{trained}}"
LEAKY = "threshold=64.0, activation=leaky_relu"
# What is promised of dape with its usual host; beside the others, of all such work.
DAPE: dict[str, Any] = {"eager": 12, "compiled": 8}
OTHER_DAPE: dict[str, Any] = {"eager": 3, "compiled": 3}
WORKS = (
    Work("rope, ntk", eager.rope_ntk, use=f"rope({NTK})"),
    Work("rope, ntk_dynamic", eager.rope_ntk_dynamic, use=f"rope({DYNAMIC})"),
    Work("rope, yarn", eager.rope_yarn, use=f"rope({YARN})"),
    Work("rope, random positions", eager.rope, use="rope", places="random"),
    Work("alibi, random positions", eager.alibi, use="alibi", places="random"),
    Work("rope_2d", eager.rope_2d, **GRID),
    Work("rope_2d_mixed", eager.rope_2d_mixed, 0.9, **GRID),
    Work("xpos", eager.xpos, 0.9),
    Work("liere", eager.liere, use=f"liere(unit={eager.UNIT})", is_slow=True, **GRID),
    Work("liere, blocks of 8", eager.liere, use=f"liere(block=8, unit={eager.UNIT})", **GRID),
    Work("forgetting", eager.forgetting, 0.9),
    Work("swin", eager.swin, 0.9, use=f"swin(rows={eager.GRID_ROWS}, columns={{columns}})", **GRID),
    Work("kerple_multiplicative", eager.kerple_multiplicative),
    Work("fire", eager.fire, 0.8, 3, 3),
    Work("fire, leaky_relu", eager.fire_leaky, 0.8, 3, 3, use=f"fire({LEAKY})"),
    Work("columns", eager.columns, 0.6),
    Work("shaw", eager.shaw, 0.5, 3, 3),
    Work("deberta", eager.deberta, 0.4, 3, 3),
    Work("cope, gates that exit early", eager.cope, 0.5, 3, 3, use="cope"),
    Work("cope, never exits", eager.cope, 0.4, 3, 3, use="cope", gate=-12.0),
    Work("transformer_xl", eager.transformer_xl, 0.4, 3, 3),
    Work("two_values", eager.two_values, 0.6),
    Work("dape(kerple_log)", eager.dape_kerple_log, 0.5, **DAPE),
    Work("dape(kerple_log, hidden=8)", eager.dape_kerple_log, 0.68, **DAPE),
    Work("dape(kerple_log, variant=concat)", eager.dape_concat, **OTHER_DAPE),
    Work("dape(alibi)", eager.dape_alibi, **OTHER_DAPE),
    Work("dape(fire)", eager.dape_fire, 0.4, **OTHER_DAPE),
    Work("dape(variant=add_residual)", eager.dape, **OTHER_DAPE),
    Work("talking_heads", eager.talking_heads, 0.72),
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
        self.place: torch.Tensor | None = None
        self.positions: dict[str, Any] = {}
        if work.places == "random":
            self.place = sextant.random_positions(length, 4 * length)
        if work.places:
            at = eager.grid(length).int() if self.place is None else self.place[:, None]
            self.positions = {"query_positions": at[None], "key_positions": at[None]}
        self.uses = []
        if work.name == "two_values":
            params = {"second": torch.randn_like(self.value)}
            self.gradient = torch.cat([self.gradient, torch.randn_like(self.gradient)], -1)
        elif work.name == "columns":
            self.uses = [embedded(width=dim)]
            params = {f"embedded.{n}": torch.randn(heads, length, dim) * 0.1 for n in ("a", "b")}
        else:
            numbers = {"columns": eager.columns_of(length), "trained": eager.trained(length)}
            self.uses = [(work.use or work.name).format(**numbers)]
            params = sextant.init_params(self.uses, heads=heads, head_dim=dim, seed=0)
            if work.name == "forgetting":  # its gates are made by the graph
                params["forgetting.gate"] = torch.randn(batch, heads, length)
        self.params = {n: t.detach().requires_grad_(t.is_floating_point()) for n, t in params.items()}
        self.leaves = [self.query, self.key, self.value]
        self.leaves += [t for t in self.params.values() if t.requires_grad]

    @functools.cached_property
    def constants(self) -> dict[str, torch.Tensor]:
        return eager.constants(self.shape, self.place)

    def ours(self) -> torch.Tensor:
        uses = ["causal", *self.uses]
        if self.work.name == "two_values":
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
        text = f"{shape} f32 causal {work.name} forward + backward"
        if not settings.wants(text):
            continue
        tensors = inputs(shape, torch.float32)
        problem = Problem(work, shape, tensors)
        q, k, v, gradient = tensors
        plain = both(lambda: sextant.attention(q, k, v, ["causal"]), (q, k, v), gradient)
        count = settings.few if work.is_slow else settings.rounds
        rounds = Rounds({"ours": problem.call(problem.ours), "plain": plain}, count)
        yield settings.ratio(
            "encodings inside attention vs our plain kernel",
            text,
            rounds,
            "ours",
            "plain",
            work.plain,
        )


def against_torch(settings: Settings) -> Iterator[Row]:
    """Against the same encoding in PyTorch, eager and compiled."""
    shape = settings.inside
    for work in WORKS:
        texts = {
            other: f"{shape} f32 causal {work.name} forward + backward vs {other}"
            for other in ("eager", "compiled")
        }
        texts = {other: text for other, text in texts.items() if settings.wants(text)}
        if not texts:
            continue
        problem = Problem(work, shape, inputs(shape, torch.float32))
        problem.check()
        torch._dynamo.reset()
        compiled = torch.compile(work.torchs, dynamic=False)
        peers = {"eager": work.torchs, "compiled": compiled}
        candidates = {"ours": problem.call(problem.ours)}
        for other in texts:
            candidates[other] = problem.call(lambda other=other: problem.torchs(peers[other]))
        rounds = Rounds(candidates, settings.few)
        for other, text in texts.items():
            yield settings.ratio(
                "encodings inside attention vs the same in PyTorch",
                text,
                rounds,
                "ours",
                other,
                getattr(work, other),
                f"{rounds.median('ours'):.3f} s",
            )
