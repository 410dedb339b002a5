"""Sizes at which papers are reproduced."""

from __future__ import annotations

from .paper import Scale

# ``toy``: the model of the demo, whose losses are known; ``tiny``: seconds, to see that all
# of it runs.
SCALES = {
    scale.name: scale
    for scale in (
        Scale(
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
        Scale(
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
}
