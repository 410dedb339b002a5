"""What an encoding needs of the attention that uses it: `requires` of a decorator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import CompileError, nearest
from .at import axis_text
from .builder import Builder
from .parameters import write_dim
from .values import Value, type_name


@dataclass(frozen=True)
class Requirement:
    """Made by `require`, `require_span` and `require_past`. ``value`` and ``at_most``
    are written as dims of a `Param` are."""

    kind: str
    message: str
    value: str | int = ""
    at_most: str | int = ""
    axis: int = 0


def require(value: str | int, at_most: str | int, message: str) -> Requirement:
    """``value`` is at most ``at_most``: extents, options, whole numbers, or arithmetic
    on these as text. What only a call knows (how many keys there are) is an extent by
    itself.

    >>> @sextant.encoding(requires=sextant.require("key", 4096, "the table ends"))
    """
    return Requirement("require", message, value, at_most)


def require_span(at_most: str | int, message: str, axis: int = 0) -> Requirement:
    """From the least to the greatest position of a call there are at most ``at_most``,
    an option, a whole number, or arithmetic on these as text.

    >>> sextant.require_span("64 * scale_base", "positions beyond the safe range")
    """
    return Requirement("require_span", message, at_most=at_most, axis=axis)


def require_past(message: str) -> Requirement:
    """No query sees a key after it: some mask of the attention says so, such as causal.

    >>> sextant.require_past("the decay needs a mask such as causal")
    """
    return Requirement("require_past", message)


def check_requirements(requires: Requirement | Sequence[Requirement]) -> tuple[Requirement, ...]:
    """One or several as a tuple; a `CompileError` for what is none, or says nothing."""
    listed = (requires,) if isinstance(requires, (Requirement, str)) else tuple(requires)
    for one in listed:
        if not isinstance(one, Requirement):
            known = ("require", "require_span", "require_past")
            raise CompileError(
                f"requires lists {', '.join('sextant.' + k for k in known)}, got "
                f"{type_name(one)}" + (nearest(one, known) if isinstance(one, str) else "")
            )
        if not isinstance(one.message, str) or not one.message:
            raise CompileError(f"sextant.{one.kind} needs a message: what is wrong where it does not hold")
    return listed


def write_requirement(builder: Builder, one: Requirement, options: dict[str, Value]) -> None:
    """Writes its op; dims are resolved as those of parameters."""
    message = json.dumps(one.message, ensure_ascii=False)
    if one.kind == "require_past":
        builder.line(f"pos.require_past {message}")
        return
    value = ""
    if one.kind == "require":
        value = f" {write_dim(builder, one.value, options).name}"
    else:
        value = axis_text("sextant.require_span", one.axis)
    limit = write_dim(builder, one.at_most, options).name
    builder.line(f"pos.{one.kind}{value} at_most {limit}, {message}")
