"""Checks of single arguments that are no tensors, whose errors name the argument. Nothing here
imports torch: settings of the command line are checked before they need it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from numbers import Integral

from .errors import nearest


def check_flag(label: str, value) -> None:
    """A bool where one is expected."""
    if not isinstance(value, bool):
        raise TypeError(f"{label} must be True or False, got {value!r}")


def check_count(label: str, value, least: int | None = 1) -> None:
    """A whole number that is large enough, if it has to be."""
    # A number of a graph that is traced is one of PyTorch's, told by its name.
    is_whole = isinstance(value, Integral) or type(value).__name__ == "SymInt"
    if isinstance(value, bool) or not is_whole:
        raise TypeError(f"{label} must be a whole number, got {value!r}")
    if least is not None and value < least:
        words = "must not be negative" if least == 0 else f"must be at least {least}"
        raise ValueError(f"{label} {words}, got {value}")


def check_choice(settings, name: str, choices: Sequence[str]) -> None:
    """A field of settings that is one of some names."""
    value = getattr(settings, name)
    if value not in choices:
        raise ValueError(f'unknown {name} "{value}"{nearest(value, choices)}')


def check_settings(names: Iterable[str], config: type) -> None:
    """Names of fields of a dataclass of settings."""
    known = [f.name for f in fields(config)]
    for name in names:
        if name not in known:
            raise ValueError(f'unknown setting "{name}"{nearest(name, known)}')


def check_seed(value) -> None:
    """A whole number of 64 bits."""
    check_count("seed", value, least=None)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"seed must fit 64 bits, got {value}")
