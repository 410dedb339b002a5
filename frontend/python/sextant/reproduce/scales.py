"""Sizes at which papers are reproduced: ``toy``, a minute or two for each run; ``mini``, a
fraction of that; and ``tiny``, seconds, to see that all of it runs."""

from __future__ import annotations

from collections.abc import Mapping

from .scale import ImageScale, Scale, TextScale


def _by_name(*scales: Scale) -> Mapping[str, Scale]:
    return {scale.name: scale for scale in scales}


# The toy model is the demo's, whose losses are known.
TEXT = _by_name(
    TextScale(
        "toy",
        {
            "residual": "plain",
            "layers": 4,
            "width": 128,
            "heads": 4,
            "length": 128,
            "batch": 32,
            "steps": 400,
            "warmup": 50,
        },
    ),
    TextScale(
        "mini",
        {
            "residual": "plain",
            "layers": 2,
            "width": 64,
            "heads": 4,
            "length": 64,
            "batch": 16,
            "steps": 800,
            "warmup": 50,
        },
        last=32,
    ),
    TextScale(
        "tiny",
        {
            "residual": "plain",
            "layers": 2,
            "width": 32,
            "heads": 2,
            "length": 16,
            "batch": 4,
            "steps": 4,
            "warmup": 1,
        },
        last=8,
        blocks=4,
    ),
)

# Sizes of evaluations are the paper's multiples of the training size: 1, 1.43, 1.71 and 2.
IMAGES = _by_name(
    ImageScale(
        "toy",
        {
            "model": "vit",
            "residual": "plain",
            "layers": 4,
            "width": 128,
            "heads": 4,
            "size": 28,
            "patch": 4,
            "batch": 64,
            "steps": 400,
            "warmup": 50,
        },
        points=(28, 40, 48, 56),
    ),
    ImageScale(
        "mini",
        {
            "model": "vit",
            "residual": "plain",
            "layers": 2,
            "width": 64,
            "heads": 4,
            "size": 28,
            "patch": 4,
            "batch": 32,
            "steps": 400,
            "warmup": 50,
        },
        points=(28, 40, 48, 56),
    ),
    ImageScale(
        "tiny",
        {
            "model": "vit",
            "residual": "plain",
            "layers": 2,
            "width": 32,
            "heads": 2,
            "size": 28,
            "patch": 4,
            "batch": 4,
            "steps": 4,
            "warmup": 1,
        },
        points=(28, 40, 48, 56),
    ),
)
