"""A vision transformer of given settings, trained on images."""

from __future__ import annotations

import torch

from .. import definitions
from ..models import vit
from ..models.groups import Group
from ..program import Program
from .compiled import CompiledModel, ModelError
from .config import TrainConfig
from .given import asked_of_callers
from .shift import GridShift


def check_uses(config: TrainConfig) -> None:
    """An encoding that needs more than images and the places of patches is a `ModelError`."""
    for use in config.encodings:
        if params := asked_of_callers(use):
            raise ModelError(
                f'"{use}" needs the tensor "{params[0].name}" at every call, which a training on '
                "images does not have. Compile sextant.models.vit(encodings=[...]) and give it to "
                'Program.run("train_step", ...)'
            )
    if config.shift and not definitions.reads_positions(config.encodings):
        raise ModelError(
            f"shift {config.shift} changes nothing: no encoding of {config.name} reads positions"
        )


def tokens_of(config: TrainConfig, size: int) -> int:
    """Tokens of an image of a size."""
    return (size // config.patch) ** 2 + (config.head == vit.CLASS_HEAD)


def _positions_of(config: TrainConfig) -> str:
    """Which positions the model is given (`models.vit.Config`)."""
    if config.max_position:
        return config.positions_per
    if config.shift:
        return "sample" if config.shift_per == "sample" else "model"
    return config.positions


class ImageModel(CompiledModel):
    """A classifier of images. Settings say size, channels and classes."""

    def __init__(self, config: TrainConfig):
        self.shape = vit.Config(
            style=config.style,
            gelu=config.gelu,
            dtype=config.dtype,
            residual=config.residual,
            layers=config.layers,
            width=config.width,
            heads=config.heads,
            kv_heads=config.kv_heads,
            encodings=config.encodings,
            shared=config.shared,
            beta1=config.beta1,
            beta2=config.beta2,
            decay=config.weight_decay,
            clip=config.clip,
            groups=tuple(map(Group.parse, config.groups)),
            trained=config.train,
            positions=_positions_of(config),
            classes=config.classes,
            channels=config.channels,
            patch=config.patch,
            head=config.head,
            class_position=config.class_position,
            targets=vit.SOFT if config.has_soft_targets else vit.HARD,
        )
        extents = {"query": tokens_of(config, config.size), "batch": config.batch}
        text = vit.build(self.shape)
        super().__init__(config, text, "<vit>", config.encodings, extents)
        self.shift: GridShift | None = GridShift(config) if config.shift else None

    def start_step(self, inputs: torch.Tensor, labels: torch.Tensor, rate: float) -> torch.Tensor:
        """One step of training on images [batch, channels, height, width]; gives its loss."""
        step = int(self.state["step"])
        known = {"images": inputs, "labels": labels}
        rows, columns = (side // self.config.patch for side in inputs.shape[2:])
        known |= self._positions(self.program, "train_step", rows, columns, self._draw(step))
        if self.shift:
            corners = self.shift.corners(step)
            known["positions"] = torch.cat(
                [self._tokens(torch.arange(rows) + r, torch.arange(columns) + c) for r, c in corners]
            )
        return self._train(known, rate)

    def first_positions(self, step: int) -> list[list[int]] | None:
        return self.shift.corners(step) if self.shift else None

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [batch, classes] of images [batch, channels, height, width]."""
        rows, columns = (side // self.config.patch for side in images.shape[2:])
        known = {"images": images}
        known |= self._positions(self.program, "logits", rows, columns, self.evaluation)
        known |= self.inputs(self.program, "logits", 0)
        return self.run(self.program, "logits", known)[0]

    def run_from(self, first: int) -> torch.Tensor:
        config = self.config
        side = torch.arange(first, first + config.reach)
        names = self._position_names(self.program, "logits")
        known = {"images": torch.zeros(1, config.channels, config.size, config.size)}
        known |= dict.fromkeys(names, self._tokens(side, side))
        known |= self.inputs(self.program, "logits", 0)
        return self.run(self.program, "logits", known)[0]

    def _positions(
        self, program: Program, function: str, rows: int, columns: int, draw: torch.Generator
    ) -> dict[str, torch.Tensor]:
        """Positions by the names of the function's arguments: those of patches, or random
        rows and columns."""
        found = {}
        for name in self._position_names(program, function):
            if self.config.max_position:
                sides = [self._random(count, draw) for count in (rows, columns)]
            else:
                sides = [torch.arange(count) for count in (rows, columns)]
            found[name] = self._tokens(*sides)
        return found

    def _tokens(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Positions int32 [1, tokens, 2] of patches in rows and columns, the class token
        first: it stays where it is."""
        grid = torch.cartesian_prod(rows, columns).int()
        if self.shape.has_class_token:
            token = torch.tensor([vit.CLASS_POSITIONS[self.config.class_position]])
            grid = torch.cat([token.int(), grid])
        return grid[None]
