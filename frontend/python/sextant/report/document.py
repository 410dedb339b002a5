"""The frame of a page: self-contained HTML, readable on a small screen, and its parts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..files import replace_file
from .results import ReportError

# A word that a column of a phone does not hold, and where it may be parted: behind what joins
# the parts of a use, `kerple_multiplicative(heads=4,...)`.
_LONG_WORD = re.compile(r"[^\s<>&;]{17,}")
_JOINT = re.compile(r"(?<=\w)[_(=,/](?=\w)")

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto;
       padding: 0 1rem; color: #1a1a1a; overflow-wrap: anywhere; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right;
         vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
.words td, .words th { text-align: left; min-width: 8rem; }
.pairs td, .pairs th { min-width: 0; }
table:not(.words) td:not(:first-child) { white-space: nowrap; }
table:not(.words) :is(td, th):first-child { min-width: 6rem; overflow-wrap: anywhere; }
td.best { font-weight: 600; } .yes { color: #14692f; } .no { color: #a11d1d; }
.scroll { overflow-x: auto; margin: 1rem 0; }
.scroll td, .scroll th { overflow-wrap: normal; }
.scroll .pairs td { overflow-wrap: anywhere; }
.scroll svg { width: 100%; max-width: 34rem; height: auto; }
.scroll svg.wide { max-width: none; min-width: 60rem; }
.small { color: #555; font-size: 14px; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; } h1 { font-size: 1.6rem; } th, td { padding: .25rem .4rem; }
  table:not(.words) :is(td, th):first-child { position: sticky; left: 0; background: #fff;
    max-width: 9rem; overflow-wrap: break-word; }
  .words:not(.pairs) :is(td, th):first-child { min-width: 12rem; }
}
"""


def document(title: str, parts: Sequence[str]) -> str:
    """A page of parts, which are HTML."""
    head = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>",
    ]
    return "\n".join([*head, *parts, "</body></html>"])


def write_page(path: str | Path, text: str) -> None:
    """Writes a page, or a table beside it, atomically; raises `ReportError`."""
    try:
        replace_file(path, text.encode(errors="backslashreplace"))  # of paths that are no UTF-8
    except OSError as error:
        raise ReportError(f"cannot write {path}: {error.strerror or error}") from None


def picture(svg: str, label: str, wide: bool = False) -> str:
    """A figure that a small screen scrolls, with what a reader of the page says."""
    kind = " class=wide" if wide else ""
    head = f'<svg role="img" aria-label="{html.escape(label)}"{kind} '
    return f"<div class=scroll>{svg.replace('<svg ', head, 1)}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table that a small screen scrolls. Heads are text; a cell is one of `cell`."""
    shown = f" class='{kind}'" if kind else ""
    first = "".join(f"<th>{_breakable(name)}</th>" for name in head)
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<div class=scroll><table{shown}><tr>{first}</tr>{lines}</table></div>"


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Names, and what is said of each."""
    lines = "".join(
        f"<tr><th>{_breakable(name)}</th>{cell(text)}</tr>" for name, text in rows
    )
    return f"<div class=scroll><table class='words pairs small'>{lines}</table></div>"


def cell(text: str, kind: str = "") -> str:
    """A cell of text."""
    return f"<td{f' class={kind}' if kind else ''}>{_breakable(text)}</td>"


def _breakable(text: str) -> str:
    """A text that says where its long words may be parted, so that none is parted amid a
    name."""
    return _LONG_WORD.sub(
        lambda word: _JOINT.sub(lambda joint: f"{joint[0]}<wbr>", word[0]), html.escape(text)
    )
