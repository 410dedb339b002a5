"""Batches of images: which ones a step takes, and how it changes them.

All of it is a pure function of the settings and the step, so that a run that goes on takes
what it would have taken.
"""

from __future__ import annotations

import hashlib
import random

import torch
from torch.nn.functional import one_hot, pad

from .config import TrainConfig
from .images import Images


def image_batch(
    config: TrainConfig, images: Images, step: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of a step, counted from 0, f32 [batch, channels, size, size], and labels i64
    [batch], or f32 [batch, classes] where targets are soft."""
    chosen = images.train.at(_chosen(len(images.train), config.batch, step, config.seed))
    draw = torch.Generator().manual_seed(_mix(f"images {config.seed} {step}"))
    pixels = _flipped(_cropped(chosen.images, config.crop, draw), config.flip, draw)
    inputs, labels = images.normalised(pixels), chosen.labels
    if not config.has_soft_targets:
        return inputs, labels
    shares = one_hot(labels, config.classes).float()
    shares = (1 - config.label_smoothing) * shares + config.label_smoothing / config.classes
    if config.mixup:
        # Each image with the next one of the batch, all in one ratio (Zhang et al. 2018).
        ratio = random.Random(_mix(f"mixup {config.seed} {step}")).betavariate(
            config.mixup, config.mixup
        )
        inputs = ratio * inputs + (1 - ratio) * inputs.roll(1, 0)
        shares = ratio * shares + (1 - ratio) * shares.roll(1, 0)
    return inputs, shares


def _mix(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def _chosen(count: int, batch: int, step: int, seed: int) -> torch.Tensor:
    """Indices of a step: passes over all images, each in an order of its own, one after
    the other."""
    first, end = step * batch, (step + 1) * batch
    parts = []
    for turn in range(first // count, (end - 1) // count + 1):
        draw = torch.Generator().manual_seed(_mix(f"pass {seed} {turn}"))
        order = torch.randperm(count, generator=draw)
        parts.append(order[max(first - turn * count, 0) : end - turn * count])
    return torch.cat(parts)


def _cropped(images: torch.Tensor, margin: int, draw: torch.Generator) -> torch.Tensor:
    """Each image from another place of itself with a black margin."""
    if not margin:
        return images
    count, height, width, _ = images.shape
    padded = pad(images, (0, 0, margin, margin, margin, margin))
    top, left = torch.randint(0, 2 * margin + 1, (2, count, 1), generator=draw)
    rows, columns = top + torch.arange(height), left + torch.arange(width)
    which = torch.arange(count)[:, None, None]
    return padded[which, rows[:, :, None], columns[:, None, :]]


def _flipped(images: torch.Tensor, probability: float, draw: torch.Generator) -> torch.Tensor:
    """Some of the images with left and right exchanged."""
    if not probability:
        return images
    is_flipped = torch.rand(len(images), generator=draw) < probability
    return torch.where(is_flipped[:, None, None, None], images.flip(2), images)
