"""Classifiers of images, as a kind of model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from . import image_model
from .augment import image_batch
from .config import TrainConfig
from .image_evaluation import evaluate_images
from .images import Images, Labelled, digest_of, load_images, spread
from .kind import Kind

_IMAGES, _LABELS = "images/held_out", "images/labels"
# On how many images a training takes the loss.
_VALIDATION_IMAGES = 256
_MEAN, _DEVIATION = "images/mean", "images/deviation"


class ImageKind(Kind[Images]):
    """Vision transformers."""

    noun, another, be, have = "images", "other images", "are", "have"
    held_out_names = (_IMAGES, _LABELS, _MEAN, _DEVIATION)
    extents = "batch, size"

    def check_uses(self, config: TrainConfig) -> None:
        image_model.check_uses(config)

    def training_bytes(self, config: TrainConfig) -> int:
        weights = config.layers * 12 * config.width**2
        weights += config.width * (config.channels * config.patch**2 + config.classes)
        # Of a layer: input and norm, q, k, v, output, norm, and the MLP's two wide rows.
        tokens = config.batch * image_model.tokens_of(config, config.size)
        return 4 * (4 * weights + tokens * config.layers * 15 * config.width)

    def load(self, config: TrainConfig) -> Images:
        return load_images(config.data, config.size)

    def completed(self, config: TrainConfig, data: Images) -> TrainConfig:
        _, size, _, channels = data.train.images.shape
        return replace(config, size=size, channels=channels, classes=len(data.classes))

    def digest(self, config: TrainConfig) -> str:
        return digest_of(config.data, config.size)

    def model(self, config: TrainConfig) -> image_model.ImageModel:
        return image_model.ImageModel(config)

    def batch(
        self, config: TrainConfig, data: Images, step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return image_batch(config, data, step)

    def validation_loss(self, model: image_model.ImageModel, data: Images) -> float:
        some = spread(data.held_out, _VALIDATION_IMAGES)
        size = model.config.size
        found = evaluate_images(model, replace(data, held_out=some), [size], progress=False)
        return found.losses[size]

    def held_out(self, data: Images) -> dict[str, torch.Tensor]:
        return {
            _IMAGES: data.held_out.images,
            _LABELS: data.held_out.labels,
            _MEAN: data.mean,
            _DEVIATION: data.deviation,
        }

    def restored(self, tensors: Mapping[str, torch.Tensor], source: str, digest: str) -> Images:
        """The held-out images, and what images are normalised by."""
        held_out = Labelled(tensors[_IMAGES], tensors[_LABELS])
        none = held_out.at(torch.arange(0))
        mean, deviation = tensors[_MEAN], tensors[_DEVIATION]
        return Images(none, held_out, len(held_out), (), source, digest, mean, deviation)

    def data_line(self, data: Images) -> str:
        _, height, width, channels = data.train.images.shape
        held_out = f"{data.held_out_of:,} held out"
        if data.held_out_of > len(data.held_out):
            held_out += f", of which the run stores {len(data.held_out):,}"
        return (
            f"images: {data.source}, {len(data.train):,} of {height} x {width} x {channels} to "
            f"train on, {held_out}; {len(data.classes)} classes"
        )

    def step_size(self, config: TrainConfig) -> str:
        return f"{config.batch} images of {config.size} x {config.size}"

    def position_lines(self, config: TrainConfig) -> list[str]:
        if not config.shift:
            return []
        drawn = f"one of {config.shift_windows}" if config.shift_windows else "drawn anew"
        return [
            f"positions: rows and columns from 0; in a step with probability {config.shift:g} from "
            f"another row and column per {config.shift_per}, {drawn}, all below {config.shift_range}"
        ]
