"""Remarks, written by a person: on orderings the likely reason of what is held or not, on
figures what they show.

A file of text: a line begins with the name of an ordering or figure and a colon, lines that are
indented go on, empty ones and those that begin with # are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..errors import nearest
from .listing import ReproduceError

FILE = "remarks.txt"


def read_remarks(path: str | Path, known: Iterable[str]) -> dict[str, str]:
    """Remarks by the name of the ordering or figure."""
    known = list(known)
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ReproduceError(f"cannot read {path}: {reason}") from None
    found: dict[str, str] = {}
    name = ""
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            if not name:
                raise ReproduceError(f"{path}:{number}: goes on with a remark, but none began")
            found[name] = f"{found[name]} {line.strip()}".strip()
            continue
        name, colon, text = (part.strip() for part in line.partition(":"))
        if not colon:
            raise ReproduceError(f'{path}:{number}: write "NAME: remark", got "{line}"')
        if name not in known:
            raise ReproduceError(f'{path}:{number}: no ordering or figure "{name}"{nearest(name, known)}')
        if name in found:
            raise ReproduceError(f'{path}:{number}: a second remark on "{name}"')
        found[name] = text
    return found
