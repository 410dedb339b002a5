"""Which state of Sextant this is."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

VERSION = "0.1.0"


@functools.cache
def revision() -> str:
    """The version, and the commit where it is known: that of the source tree which
    holds this file, or which the installed package was built from."""
    commit = _of_the_tree(Path(__file__).resolve()) or _of_the_build(Path(__file__))
    return f"{VERSION} ({commit})" if commit else VERSION


def _of_the_tree(file: Path) -> str:
    """The commit, with a mark when tracked files differ; empty outside of a tree that
    tracks this file."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(file.parent), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", file.name)
        commit = git("rev-parse", "--short=10", "HEAD")
        return commit + (", changed" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _of_the_build(file: Path) -> str:
    try:
        return (file.parent / "commit.txt").read_text().strip()
    except OSError:
        return ""
