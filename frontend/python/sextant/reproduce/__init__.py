"""What papers compare, trained and evaluated here, beside their numbers."""

from __future__ import annotations

from pathlib import Path

from ..report.document import write_page
from . import markdown, page
from .engine import Reproduction
from .outcome import Outcome, collect
from .papers import PAPERS
from .results import RESULTS, dump_results

__all__ = ["PAPERS", "Outcome", "Reproduction", "collect", "write_reports"]

PAGE = "report.html"
TABLE = "table.md"


def write_reports(outcome: Outcome) -> tuple[Path, Path, Path]:
    """Writes page, tables and results of an outcome into its folder; gives their files."""
    reproduction = outcome.reproduction
    folder = reproduction.folder
    found = folder / PAGE, folder / TABLE, folder / RESULTS
    write_page(found[2], dump_results(reproduction, reproduction.results()))
    write_page(found[1], markdown.render(outcome))
    write_page(found[0], page.render(outcome))
    return found
