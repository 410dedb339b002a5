"""Evaluation of classifiers at sizes of images: top-1 accuracy, and the mean loss in nats.

Held-out images are resized to each size from what the run stores, as large as there was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch.nn.functional import cross_entropy
from tqdm import tqdm

from ..bars import bar
from ..errors import NOT_FINITE
from .config import TrainConfig
from .evaluate import EvaluationError
from .image_model import ImageModel, tokens_of
from .images import Images
from .resize import resized

# Sizes are these multiples of the training's, rounded to whole patches.
MULTIPLES = (1.0, 1.25, 1.5, 2.0)
_TOKENS_AT_ONCE = 8192


@dataclass
class BySize:
    """``accuracy``, the share of images whose class has the greatest logit, and ``losses``,
    by size."""

    accuracy: dict[int, float] = field(default_factory=dict)
    losses: dict[int, float] = field(default_factory=dict)


def default_sizes(config: TrainConfig) -> list[int]:
    patches = config.size // config.patch
    sizes = [config.patch * int(patches * multiple + 0.5) for multiple in MULTIPLES]
    return list(dict.fromkeys(sizes))


def evaluate_images(
    model: ImageModel, images: Images, sizes: Sequence[int] = (), *, progress: bool = True
) -> BySize:
    """At ``sizes`` (default: `default_sizes`); one that the patch does not divide is an
    `EvaluationError`, and so is a loss that is not finite."""
    config = model.config
    sizes = list(dict.fromkeys(sizes)) or default_sizes(config)
    for size in sizes:
        if size < 1 or size % config.patch:
            raise EvaluationError(
                f"images of {size} x {size} are not divided by patch {config.patch} of "
                f"{config.name}: take multiples of {config.patch}"
            )
        if 0 < config.max_position < size // config.patch and config.positions_beyond == "error":
            raise EvaluationError(
                f"{config.name} draws rows and columns below {config.max_position} (--max-position), "
                f"of which images of {size} x {size} need {size // config.patch}: take smaller sizes, "
                "or train with a larger one or with --positions-beyond index"
            )
    found = BySize()
    total, name = len(images.held_out) * len(sizes), f"{config.name}: evaluate"
    with bar(total=total, desc=name, unit="image", shown=progress, leave=False) as shown:
        for size in sizes:
            # Drawn positions are those of the size, whatever was evaluated before.
            model.evaluation.manual_seed(config.seed)
            correct, loss = _counted(model, images, size, shown)
            if not math.isfinite(loss):
                known = ", ".join(f"{found.losses[n]:.3f} at {n} x {n}" for n in found.losses)
                raise EvaluationError(
                    f"{config.name}: the loss of images of {size} x {size} is {loss}"
                    f"{known and f' ({known})'}: {NOT_FINITE}"
                )
            found.accuracy[size] = correct / len(images.held_out)
            found.losses[size] = loss / len(images.held_out)
    return found


def _counted(model: ImageModel, images: Images, size: int, shown: tqdm) -> tuple[int, float]:
    """How many images of a size are classified rightly, and the sum of their losses."""
    rows = max(_TOKENS_AT_ONCE // tokens_of(model.config, size), 1)
    correct, loss = 0, 0.0
    held_out = images.held_out
    for pixels, labels in zip(held_out.images.split(rows), held_out.labels.split(rows)):
        logits = model.logits(images.normalised(resized(pixels, size)))
        correct += int((logits.argmax(1) == labels).sum())
        loss += float(cross_entropy(logits.double(), labels, reduction="sum"))
        shown.update(len(labels))
    return correct, loss
