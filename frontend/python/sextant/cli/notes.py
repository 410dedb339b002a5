"""What commands say of runs that are not as they were trained."""

from __future__ import annotations

import sys


def tell_notes(folder: str, result) -> None:
    """A line for each note of a run's result, where errors go."""
    for note in result.notes:
        print(f"sextant: note: {folder}: {note}", file=sys.stderr)
