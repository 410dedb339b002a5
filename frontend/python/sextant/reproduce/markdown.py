"""A reproduction as a text of Markdown, to keep beside other documents."""

from __future__ import annotations

from .outcome import Outcome
from .tables import Table, tables


def render(outcome: Outcome) -> str:
    paper = outcome.reproduction.paper
    lines = [f"# {paper.title}", ""]
    lines += [f"* {name}: {text}" for name, text in outcome.origin()]
    for table in tables(outcome):
        lines += ["", f"## {table.title}", "", table.text, "", *_rows(table)]
    # Figures are drawn on the page alone; what a person saw there stands here, too.
    for drawing in paper.drawings:
        if drawing.name in outcome.remarks:
            said = (drawing.title, drawing.text, outcome.remarks[drawing.name])
            lines += ["", f"## {said[0]}", "", said[1], "", said[2]]
    return "\n".join(lines) + "\n"


def _rows(table: Table) -> list[str]:
    marks = [":--", *([":--" if table.words else "--:"] * (len(table.head) - 1))]
    return [_row(table.head), _row(marks), *(_row(row) for row in table.rows)]


def _row(cells) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
