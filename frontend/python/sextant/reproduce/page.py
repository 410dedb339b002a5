"""A reproduction as a page: tables beside the paper's, curves, and figures."""

from __future__ import annotations

import html

from ..report import figures
from ..report.document import cell, document, pairs, picture, table
from .outcome import Outcome
from .tables import Table, tables

_MARKS = {"held": "yes", "not held": "no"}


def render(outcome: Outcome) -> str:
    paper = outcome.reproduction.paper
    parts = [
        f"<h1>{html.escape(paper.title)}</h1>",
        pairs(outcome.origin()),
        "<h2>Curves</h2>",
        *(
            picture(protocol.figure(outcome.groups), protocol.title)
            for protocol in outcome.reproduction.scale.protocols.values()
            if protocol.figure
        ),
    ]
    for item in tables(outcome):
        parts += [
            f"<h2>{html.escape(item.title)}</h2>",
            f"<p>{html.escape(item.text)}</p>",
            _table(item),
        ]
    parts += [
        "<h2>Training</h2>",
        f"<p>{figures.TRAINING}</p>",
        picture(
            figures.training_curves(_trained(outcome), outcome.reproduction.scale.loss_unit),
            "training loss by step",
        ),
        picture(figures.step_times(_trained(outcome)), "time per training step"),
        *_drawings(outcome),
    ]
    return document(f"Sextant: {paper.title}", parts)


def _trained(outcome: Outcome):
    """The groups without variations, which were not trained."""
    own = {method.title for method in outcome.reproduction.paper.methods}
    return [group for group in outcome.groups if group.name in own]


def _table(item: Table) -> str:
    rows = [[cell(text, _kind(text)) for text in row] for row in item.rows]
    return table(item.head, rows, "words" if item.words else "")


def _kind(text: str) -> str:
    return next((kind for mark, kind in _MARKS.items() if text.startswith(mark)), "")


def _drawings(outcome: Outcome) -> list[str]:
    """The paper's figures, of the first seed that was trained here."""
    parts = []
    for drawing in outcome.reproduction.paper.drawings:
        folder = outcome.reproduction.trained_folder(drawing.method)
        if folder:
            chosen = (outcome.query,) if drawing.of_query else ()
            said = (drawing.text, outcome.remarks.get(drawing.name, ""))
            parts += [
                f"<h2>{html.escape(drawing.title)}</h2>",
                *(f"<p>{html.escape(text)}</p>" for text in said if text),
                picture(drawing.draw(folder, *chosen), drawing.title, wide=True),
            ]
    return parts
