"""Bars of progress: one line that changes on a terminal, lines in a file."""

import sys

import pytest

pytest.importorskip("torch")

from sextant import bars


def shown(monkeypatch, capsys, is_terminal, **settings):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    with bars.bar(range(5), desc="rope", **settings) as bar:
        for _ in bar:
            pass
    return capsys.readouterr().err


def test_a_file_has_lines_from_time_to_time(monkeypatch, capsys):
    """The log of a job that runs for hours is to be read, and not to grow with each step."""
    found = shown(monkeypatch, capsys, False)
    assert "\r" not in found
    first, last = found.splitlines()
    assert first.startswith("rope:   0%") and last.startswith("rope: 100%") and "5/5" in last
    monkeypatch.setattr(bars, "_IN_A_FILE", {"mininterval": 0.0, "miniters": 1})
    assert len(shown(monkeypatch, capsys, False).splitlines()) == 7
    # What is to vanish leaves no empty line.
    assert all(line.startswith("rope: ") for line in shown(monkeypatch, capsys, False, leave=False).splitlines())
    assert not shown(monkeypatch, capsys, False, shown=False)


def test_a_terminal_has_one_line(monkeypatch, capsys):
    found = shown(monkeypatch, capsys, True)
    assert found.startswith("\rrope:   0%") and found.count("\n") == 1
