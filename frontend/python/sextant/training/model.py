"""A GPT of given settings, trained on bytes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .. import definitions
from ..models.gpt import IGNORED, Config, build, build_rows
from ..models.groups import Group
from ..models.tables import build_with_tables
from ..program import Program, compile
from ..uses import parse_use
from .compiled import CompiledModel, ModelError
from .config import GPT, NONE, TrainConfig
from .given import given_tensors
from .shift import Shift

VOCABULARY = 256


def uses_of(config: TrainConfig) -> tuple[str, ...]:
    """The encodings of a model, behind the mask of a text."""
    is_masked = config.model == GPT and config.mask != NONE
    return (*((config.mask,) if is_masked else ()), *config.encodings)


def check_uses(config: TrainConfig) -> None:
    """An encoding that needs more than a text and its places is a `ModelError`."""
    for use in uses_of(config):
        if (axes := definitions.axes([use])) > 1:
            raise ModelError(
                f'"{use}" reads positions of {axes} axes, such as rows and columns of an image; '
                "a text has one. Give such positions to sextant.attention as query_positions "
                "and key_positions"
            )
    _check_mask(config)
    if config.shift and not definitions.reads_positions(uses_of(config)):
        raise ModelError(
            f"shift {config.shift} changes nothing: no encoding of {config.name} reads positions"
        )


def _check_mask(config: TrainConfig) -> None:
    """A model whose tokens would see what they are to predict is a `ModelError`."""

    def masks(use: str) -> bool:
        return "mask" in definitions.describe(parse_use(use).encoding).places

    if config.mask != NONE and not masks(config.mask):
        raise ModelError(f'"{config.mask}" is no mask: it hides no token; give it as an encoding')
    if not any(masks(use) for use in uses_of(config)):
        raise ModelError(
            "without a mask a token sees the one that it is to predict: name one with --mask"
        )


def training_bytes(config: TrainConfig) -> int:
    """About what a training takes at least: weights with gradients and two moments, and
    per token what the backward needs of the forward."""
    weights = config.layers * 12 * config.width**2 + VOCABULARY * config.width
    # Of a layer: input and norm, q, k, v, output, norm, and the MLP's two wide rows;
    # of the head: logits, and their logarithms of probabilities.
    token = config.layers * 15 * config.width + 2 * VOCABULARY
    return 4 * (4 * weights + config.batch * config.length * token)


def _positions_of(config: TrainConfig) -> str:
    """Which positions the model is given (`models.gpt.Config`)."""
    if config.max_position:
        return config.positions_per
    if config.shift:
        return "sample" if config.shift_per == "sample" else "model"
    return "index"


class Model(CompiledModel):
    """A language model on bytes."""

    def __init__(self, config: TrainConfig):
        self.shape = Config(
            style=config.style,
            gelu=config.gelu,
            dtype=config.dtype,
            residual=config.residual,
            vocabulary=VOCABULARY,
            layers=config.layers,
            width=config.width,
            heads=config.heads,
            kv_heads=config.kv_heads,
            encodings=uses_of(config),
            shared=config.shared,
            beta1=config.beta1,
            beta2=config.beta2,
            decay=config.weight_decay,
            clip=config.clip,
            groups=tuple(map(Group.parse, config.groups)),
            trained=config.train,
            positions=_positions_of(config),
        )
        self.given = given_tensors(uses_of(config), config.given)
        extents = {"query": config.length, "batch": config.batch}
        super().__init__(config, build(self.shape), "<gpt>", uses_of(config), extents)
        self.shift = Shift(config) if config.shift else None
        # What gives losses of an evaluation, and the tensors of tables of positions that
        # it takes for so many tokens.
        self.evaluator = self.program
        self.tables: Callable[[int], dict[str, torch.Tensor]] = lambda length: {}

    def start_step(self, inputs: torch.Tensor, labels: torch.Tensor, rate: float) -> torch.Tensor:
        """One step of training on tokens (batch, length) i64; gives its loss."""
        step = int(self.state["step"])
        given, counted = self.make_given(self.program, "train_step", inputs, step)
        known = {"tokens": inputs, "labels": labels.masked_fill(~counted, IGNORED), **given}
        draw = self._draw(step)
        known |= self._positions(self.program, "train_step", inputs.shape[1], draw)
        if self.shift:
            known["positions"] = self.shift.positions(step)
        return self._train(known, rate)

    def first_positions(self, step: int) -> list[int] | None:
        return self.shift.starts(step) if self.shift else None

    def token_losses(
        self, tokens: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Losses (batch, length) in nats per byte, and which of them count, which is all of
        them unless an encoding's tensors say otherwise; the others are 0."""
        program, length = self.evaluator, tokens.shape[1]
        given, counted = self.make_given(program, "token_losses", tokens, 0)
        known = {"tokens": tokens, "labels": labels.masked_fill(~counted, IGNORED), **given}
        known |= self._positions(program, "token_losses", length, self.evaluation)
        known |= self.inputs(program, "token_losses", 0) | self.tables(length)
        return self.run(program, "token_losses", known)[0], counted

    def run_from(self, first: int) -> torch.Tensor:
        length = self.config.length
        tokens = torch.zeros(1, length, dtype=torch.long)
        at = torch.arange(first, first + length, dtype=torch.int32)[None, :, None]
        known = {"tokens": tokens, "labels": tokens}
        known |= dict.fromkeys(self._position_names(self.program, "token_losses"), at)
        known |= self.make_given(self.program, "token_losses", tokens, 0)[0]
        known |= self.inputs(self.program, "token_losses", 0)
        return self.run(self.program, "token_losses", known)[0]

    def take_tables(self, tables: Callable[[int], dict[str, torch.Tensor]]) -> None:
        """From now on evaluations take tables of positions, by their length, and do not
        make them."""
        text = build_with_tables(self.shape)
        self.evaluator = compile(text, target=self.config.target, file="<gpt>")
        self.tables = tables

    def attention_rows(
        self, tokens: torch.Tensor
    ) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]:
        """By layer, query [heads, length, head dim] and key [kv heads, length, head
        dim] of a text [length] before encodings act, and its positions if they are
        drawn. Compiles a program of its own."""
        program = compile(build_rows(self.shape), target=self.config.target, file="<gpt>")
        drawn = self._positions(program, "rows", len(tokens), self.evaluation)
        known = {"tokens": tokens.long()[None], **drawn}
        known |= self.inputs(program, "rows", 0)
        known |= self.make_given(program, "rows", known["tokens"], 0)[0]
        rows = self.run(program, "rows", known)
        at = [
            drawn.get(f"layers.{layer}.positions", drawn.get("positions"))
            for layer in range(self.config.layers)
        ]
        return [(q[0], k[0], p) for q, k, p in zip(rows[::2], rows[1::2], at)]

    def _positions(
        self, program: Program, function: str, length: int, draw: torch.Generator
    ) -> dict[str, torch.Tensor]:
        """Positions by the names of the function's arguments: random ones, or indices
        where functions of encodings ask for them."""
        names = self._position_names(program, function)
        if not self.config.max_position:
            return dict.fromkeys(names, torch.arange(length, dtype=torch.int32)[None, :, None])
        return {name: self._random(length, draw)[None, :, None] for name in names}

    def make_given(
        self, program: Program, function: str, tokens: torch.Tensor, step: int
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Tensors made of tokens that a function takes, for a step or, 0, an evaluation;
        and which predictions count."""
        asked = frozenset(program.arguments(function))
        tensors: dict[str, torch.Tensor] = {}
        all_counted = torch.ones_like(tokens, dtype=torch.bool)
        for maker in self.given:
            made, counted = maker.make(asked, tokens, self.config.seed, step)
            tensors |= made
            if counted is not None:
                all_counted &= counted
        return tensors, all_counted
