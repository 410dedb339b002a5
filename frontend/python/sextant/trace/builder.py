"""The text of a definition, made op by op.

A `Builder` holds the lines of one `pos.encoding`. Pure ops of the same text in
the same region are one op, so that a traced function reads like a written one.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import CompileError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_CONTEXTLIB = contextlib.__file__

# How `Builder.sources` begins the text of a block argument.
ARGUMENT = "argument of "


@dataclass
class _Scope:
    """A region being written: what is defined in it, by the text that made it, the
    names of all its values, and, for a body inside a payload, what messages call it."""

    made: dict[str, str] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)
    what: str = ""


class Builder:
    """Writes ops; ``locations`` adds the Python line that each stands for."""

    def __init__(self, locations: bool = False):
        self.lines: list[str] = []
        self._locations = locations
        self._scopes = [_Scope()]
        self._depth = 1
        self._taken: set[str] = set()
        self._ops: dict[str, str] = {}
        # Values of regions that are written, with what messages call the region.
        self._past: dict[str, str] = {}

    @property
    def indent(self) -> str:
        return "  " * self._depth

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Inside, `current` is this one."""
        token = _at_work.set(self)
        try:
            yield
        finally:
            _at_work.reset(token)

    def name(self, hint: str) -> str:
        """A fresh SSA name."""
        name, count = hint, 1
        while name in self._taken:
            count += 1
            name = f"{hint}_{count}"
        self._taken.add(name)
        return f"%{name}"

    def pure(self, op: str, hint: str) -> str:
        """The result of an op without effects: one already there, or a new one.

        ``op`` is the text right of the ``=``.
        """
        for scope in reversed(self._scopes):
            if op in scope.made:
                return scope.made[op]
        result = self.name(hint)
        self.line(f"{result} = {op}")
        self._scopes[-1].made[op] = result
        return result

    def line(self, text: str) -> None:
        """An op on a line of its own."""
        result, is_value, op = text.partition(" = ")
        self._check_operands(op if is_value else text)
        self.lines.append(f"{self.indent}{text}{self._location()}")
        if is_value:
            self._define(result, op)

    def _define(self, name: str, op: str) -> None:
        self._ops[name] = op
        self._scopes[-1].values.add(name)

    def _check_operands(self, text: str) -> None:
        """A value is used in the region that makes it, or in one inside."""
        for name in re.findall(r"%\w+", text):
            if name in self._past and not any(name in s.values for s in self._scopes):
                what = self._past[name]
                raise trace_error(
                    f"a value that is made inside {what} is used outside of it",
                    hint="what the function returns is what comes out",
                )

    @contextlib.contextmanager
    def region(self, head: str, arguments: str = "", tail: str = "", what: str = ""):
        """An op with a region: ``head {`` ... ``} tail``.

        ``what``: for a body inside a payload, what messages call it.
        """
        first = len(self.lines)
        result, is_value, op = head.rpartition(" = ")
        self._check_operands(op)
        self.lines.append(f"{self.indent}{head} {{")
        if arguments:
            self.lines.append(f"{self.indent}^bb0({arguments}):")
        self._depth += 1
        self._scopes.append(_Scope(what=what))
        for name in re.findall(r"%\w+", arguments):
            self._define(name, f"{ARGUMENT}{op}")
        location = self._location()
        try:
            yield
        finally:
            scope = self._scopes.pop()
            self._past.update(dict.fromkeys(scope.values, what or "the function of a site"))
            self._depth -= 1
        self.lines.append(f"{self.indent}}}{' ' + tail if tail else ''}{location}")
        if is_value:
            self._define(result, "\n".join([op, *self.lines[first + 1 :]]))

    @property
    def nested(self) -> str:
        """What messages call the innermost body inside the payload, or empty."""
        return next((s.what for s in reversed(self._scopes) if s.what), "")

    def sources(self, name: str) -> Iterator[str]:
        """Texts of all ops that a value is made of, its own first; that of a block
        argument is `ARGUMENT` and the text of the op whose body takes it."""
        names = [name]
        for made_of in names:  # grows while it is walked
            op = self._ops.get(made_of)
            if op is not None:
                yield op
                names += [n for n in re.findall(r"%\w+", op) if n not in names]

    def _location(self) -> str:
        if not self._locations:
            return ""
        place = caller()
        return f' loc("{place[0]}":{place[1]}:1)' if place else ""


_at_work: contextvars.ContextVar[Builder | None] = contextvars.ContextVar("_at_work", default=None)


def current() -> Builder | None:
    """What the function writes that is being traced; None outside of one."""
    return _at_work.get()


def caller() -> tuple[str, int] | None:
    """File and line of the user's code that is being traced."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        ours = os.path.abspath(file).startswith(_PACKAGE + os.sep)
        if not ours and file != _CONTEXTLIB:
            if '"' in file or "\\" in file:
                return None
            return file, frame.f_lineno
        frame = frame.f_back
    return None


def trace_error(message: str, *, hint: str = "") -> CompileError:
    """A mistake in traced code, at the user's line."""
    place = caller()
    file, line = place if place else ("", 0)
    if hint:
        message = f"{message}; {hint}"
    return CompileError(message, file=file, line=line, column=1 if line else 0)
