"""Sizes at which papers are reproduced: ``toy``, minutes for each run, and ``tiny``, seconds, to
see that all of it runs."""

from __future__ import annotations

from collections.abc import Mapping

from .scale import Scale, TextScale


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
