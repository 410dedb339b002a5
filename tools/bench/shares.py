"""What an encoding of the whole model takes of a training step: its functions around
attention, forward and backward, over all of the step."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import torch
from rows import Row, Settings

import sextant
from sextant.models.gpt import Config, build
from sextant.training.samplers import samplers

SETS = ((16, 0.10), (32, 0.16))


class Step:
    """A training step of a GPT on random tokens, profiled."""

    def __init__(self, encoding: str, batch: int, length: int, **sizes: Any):
        uses = ("causal", encoding)
        self.program = sextant.compile(build(Config(encodings=uses, **sizes)))
        params = self.program.init_params(0)
        moments = {
            name: torch.zeros_like(params[name.rsplit(":", 1)[0]])
            for name in self.program.arguments("train_step")
            if name.endswith((":first_moment", ":second_moment"))
        }
        tokens, labels = torch.randint(0, sizes["vocabulary"], (2, batch, length)).unbind()
        asked = frozenset(self.program.arguments("train_step"))
        drawn = {
            name: tensor
            for sampler in samplers(uses, {"query": length, "batch": batch})
            for name, tensor in sampler.draw(asked, 0, 1).items()
        }
        self.known = {
            "tokens": tokens,
            "labels": labels,
            "learning_rate": torch.tensor(1e-4),
            "step": torch.tensor(1.0),
            "random.seed": torch.tensor(0),
            "random.step": torch.tensor(1),
            **params,
            **moments,
            **drawn,
        }

    def share(self, label: str) -> tuple[float, float]:
        """Of the time of a step, what instructions take whose label holds ``label``; and
        the seconds of the step."""
        inputs = [self.known[name] for name in self.program.arguments("train_step")]
        instructions = self.program.profile("train_step", inputs)[1]
        total = sum(i["ns"] for i in instructions)
        return sum(i["ns"] for i in instructions if label in i["label"]) / total, total / 1e9


def shares(settings: Settings) -> Iterator[Row]:
    """The encoder of digits and its losses in a step of a GPT with words for tokens."""
    sizes: dict[str, int] = {"layers": 12, "width": 768, "heads": 12, "vocabulary": 50257}
    batch, length = 8, 512
    if settings.is_quick:
        sizes = {"layers": 2, "width": 128, "heads": 2, "vocabulary": 1000}
        batch, length = 2, 64
    for sets, goal in SETS:
        numbers = ", ".join(f"{name} {size}" for name, size in sizes.items())
        work = f"{numbers}, {batch} x {length}, sets {sets} + {sets}"
        if not settings.wants(work):
            continue
        step = Step(
            f"seqpe(pivots={sets}, candidates={sets}, windows={sets}, offsets={sets})",
            batch, length, **sizes,
        )  # fmt: skip
        step.share("")
        found, seconds = zip(*(step.share("seqpe") for _ in range(settings.few)))
        yield Row(
            "share of functions around attention in a training step", work, settings.threads,
            statistics.median(found), "", None if settings.is_quick else goal,
            min(found), max(found), at_most=True, note=f"{statistics.median(seconds):.2f} s per step",
        )  # fmt: skip
