"""Files that some tool has packed, by how they begin."""

from __future__ import annotations

import re

_TOOLS = (
    (rb"\x1f\x8b\x08", "gunzip"),
    (rb"BZh[1-9]1AY&SY", "bunzip2"),
    (rb"PK\x03\x04", "unzip"),
    (rb"\x28\xb5\x2f\xfd", "unzstd"),
    (rb"\xfd7zXZ\x00", "xz -d"),
)
# Bytes that are enough to know.
HEAD = 10


def unpacker(head: bytes) -> str:
    """The tool that unpacks a file that begins so; empty for one that is not packed."""
    return next((tool for begin, tool in _TOOLS if re.match(begin, head)), "")
