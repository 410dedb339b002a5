"""How settings are spelled on the command line."""

from __future__ import annotations


def flag(name: str) -> str:
    """The flag of a setting: "--kv-heads" of "kv_heads"."""
    return "--" + name.replace("_", "-")
