"""What a command says of an error: a line, whatever it is."""

from __future__ import annotations

import argparse
import builtins
import os
import sys
import traceback
from collections.abc import Sequence

from ..backend import reason
from ..errors import CompileError, RunError, SettingError
from .flags import flag

# Errors whose text stands by itself.
_TOLD = (CompileError, RunError, ImportError, OSError, ValueError, TypeError, MemoryError)


def message(error: Exception) -> str:
    """What went wrong, without where in the program."""
    text = str(error).strip()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, builtins.RuntimeError):  # PyTorch's have its stack behind them
        return reason(error).removeprefix("[enforce fail at ").strip() or type(error).__name__
    if isinstance(error, SettingError):
        return error.tell(lambda name, value: f"{flag(name)} {value}")
    if text and isinstance(error, _TOLD):
        return text
    if isinstance(error, MemoryError):
        return "out of memory; take smaller sizes"
    return f"{type(error).__name__}: {text}; with --debug, where it comes from".replace(": ;", ";")


def tell_error(error: Exception, options: argparse.Namespace) -> None:
    """Says what went wrong, and with --debug where."""
    trace(error, options)
    print(f"sextant: error: {message(error)}", file=sys.stderr)


def trace(error: Exception, options: argparse.Namespace) -> None:
    """With --debug, where an error comes from."""
    if getattr(options, "debug", False) or os.environ.get("SEXTANT_DEBUG"):
        traceback.print_exception(type(error), error, error.__traceback__)


class Failures:
    """What goes wrong with some of several ``things`` does not keep a command from the others:
    it is said behind all of them, also where one is interrupted. Of a single thing an error
    leaves at once."""

    def __init__(self, things: Sequence[str], options: argparse.Namespace):
        self.things, self.options = things, options
        self.said: list[str] = []

    def add(self, thing: str, error: Exception) -> None:
        """Raises the error of a single thing; keeps the text of another one, since an error
        holds on to all that was in memory when it came."""
        if len(self.things) == 1:
            raise error
        trace(error, self.options)
        self.said.append(f"{thing}: {message(error)}")

    @property
    def code(self) -> int:
        """With which the command ends."""
        return 1 if self.said else 0

    def __enter__(self) -> Failures:
        return self

    def __exit__(self, *details) -> None:
        for text in self.said:
            print(f"sextant: error: {text}", file=sys.stderr)
        if self.said:
            print(f"sextant: {len(self.said)} of {len(self.things)} failed", file=sys.stderr)
