"""What goes wrong, as exceptions that say where and why."""

from __future__ import annotations

import builtins
import difflib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """A remark of a diagnostic, at a place of its own."""

    message: str
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{_place(self.file, self.line, self.column)}note: {self.message}"


class CompileError(Exception):
    """A program, an encoding or a use of one cannot be compiled.

    Attributes: ``file`` (empty when the text has no file), ``line`` and
    ``column`` (from 1; 0 when unknown), ``message``, ``notes`` (of `Note`) and
    ``excerpt`` (the guilty line with a caret below, or empty).
    """

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        line: int = 0,
        column: int = 0,
        notes: Iterable[Note] = (),
        excerpt: str = "",
    ):
        self.message = message
        self.file = file
        self.line = line
        self.column = column
        self.notes = list(notes)
        self.excerpt = excerpt
        super().__init__(self._text())

    def _text(self) -> str:
        place = _place(self.file, self.line, self.column)
        lines = [f"{place}{self.message}"]
        if self.excerpt:
            lines.append(self.excerpt)
        lines += [str(note) for note in self.notes]
        return "\n".join(lines)


class RuntimeError(builtins.RuntimeError):
    """A compiled program cannot be loaded or run."""


# Behind what was found: why a loss of a run is not finite.
NOT_FINITE = (
    "numbers that grow too large take a lower learning rate; a read outside of a parameter, such "
    "as a table of fewer positions, is named under SEXTANT_CHECK=reads"
)


class RunError(Exception):
    """A run cannot be trained, read, evaluated or reported on."""


class SettingError(ValueError):
    """Settings of a model that do not go together.

    ``{cure}`` in the message stands for settings that do, which are given by name: as a
    caller in Python writes them, or in another spelling, as flags of the command line.

    >>> print(SettingError("rows are given by {cure}", positions="grid"))
    rows are given by positions="grid"
    """

    def __init__(self, message: str, **cure: object):
        self.message, self.cure = message, cure
        super().__init__(self.tell(lambda name, value: f"{name}={json.dumps(value)}"))

    def tell(self, spell: Callable[[str, object], str]) -> str:
        """The message with the settings as ``spell`` writes them."""
        cure = ", ".join(spell(name, value) for name, value in self.cure.items())
        return self.message.replace("{cure}", cure)


def _place(file: str, line: int, column: int) -> str:
    if not file and not line:
        return ""
    return f"{file or '<text>'}:{line}:{column}: "


def nearest(name: str, known: Iterable[str], lists: bool = True) -> str:
    """The end of a message about an unknown name: the nearest known ones, or, where none is
    near, all of them if it ``lists`` them.

    >>> nearest("kerple_lag", ["kerple_log", "alibi"])
    '; did you mean "kerple_log"?'
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return "; did you mean " + " or ".join(f'"{c}"' for c in close) + "?"
    if known and lists:
        return "; known are " + ", ".join(f'"{k}"' for k in sorted(known))
    return ""
