"""What a report says of the biases that runs have after their training."""

from __future__ import annotations

import html
from collections.abc import Sequence

from . import figures
from .document import picture
from .groups import Group


def bias_parts(groups: Sequence[Group], level: int) -> list[str]:
    """By distance, and of patches by rows and columns, under headings of a ``level``."""
    parts = []
    for title, text, field, draw in (
        ("distance", "at a distance, relative to distance 0.", "biases", figures.biases),
        (
            "rows and columns",
            "where the key stands so many rows and columns before the query, relative to the "
            "query's own place; titles say which number has the darkest colour. Of more heads than "
            f"{figures.HEADS} the first ones.",
            "grid_biases",
            figures.grid_biases,
        ),
    ):
        shown = [g for g in groups if getattr(g.runs[0], field)]
        if shown:
            parts.append(f"<h{level}>Biases over {title}</h{level}>")
            parts.append(
                f"<p>After training, of the first seed: what the encodings add to a score {text}</p>"
            )
        for g in shown:
            drawn = picture(draw(g.runs[0]), f"{g.name}: bias over {title}", wide=True)
            parts.append(f"<h{level + 1}>{html.escape(g.name)}</h{level + 1}>{drawn}")
    return parts
