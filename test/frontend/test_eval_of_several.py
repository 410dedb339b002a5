"""`sextant eval` of several runs: one that cannot be evaluated keeps no other from it."""

import builtins

import pytest

pytest.importorskip("sextant._compiler")

from sextant.cli import main
from sextant.report.results import NotStoredError, RunResult
from sextant.training import runs


@pytest.fixture
def evaluated(monkeypatch):
    """Evaluates no run: "bad" ones fail, others have losses. Lists what was asked."""
    asked = []
    failing = {
        "bad": runs.EvaluationError("it gives no losses"),
        "torch": builtins.RuntimeError("can't allocate memory\nException raised from alloc (a.cpp)"),
        "asked to end": KeyboardInterrupt(),
    }

    def evaluate(folder, **settings):
        asked.append(folder)
        if folder in failing:
            raise failing[folder]
        result = RunResult(folder, {"length": 8}, {1: 2.0}, {1: 3.0})
        if folder == "read-only":
            raise NotStoredError("cannot write evaluation.json: Read-only file system", result)
        return result

    monkeypatch.setattr(runs, "evaluate_run", evaluate)
    return asked


def test_the_others_are_evaluated_and_all_failures_told(evaluated, capsys):
    folders = ["bad", "one", "torch", "read-only", "two"]
    assert main(["eval", *folders]) == 1
    assert evaluated == folders
    out, error = capsys.readouterr()
    shown = [line.partition(":")[0] for line in out.splitlines() if line.endswith(" 8 tokens")]
    assert shown == ["one", "read-only", "two"]
    assert error.splitlines() == [
        "sextant: error: bad: it gives no losses",
        "sextant: error: torch: can't allocate memory",
        "sextant: error: read-only: cannot write evaluation.json: Read-only file system",
        "sextant: 3 of 5 failed",
    ]


def test_failures_are_told_of_what_is_interrupted(evaluated, capsys):
    assert main(["eval", "bad", "asked to end", "one"]) == 130
    assert evaluated == ["bad", "asked to end"]
    said = "sextant: error: bad: it gives no losses\nsextant: 1 of 3 failed\nsextant: interrupted\n"
    assert capsys.readouterr().err == said


def test_of_a_single_run_the_error_is_all(evaluated, capsys):
    assert main(["eval", "bad"]) == 1
    assert capsys.readouterr().err == "sextant: error: it gives no losses\n"
    assert main(["eval", "one"]) == 0
    assert main(["--debug", "eval", "bad", "one"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Traceback") and "sextant: error: bad: it gives no losses" in error
