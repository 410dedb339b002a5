"""Every mutant of mutants.py still has its place: a change that moves one says so here,
and not after an hour of `make mutants`."""

import mutants
import pytest


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda m: m.name)
def test_text_of_a_mutant_stands_in_its_file(mutant):
    changed = mutants.check(mutant)
    assert mutant.new in changed
    for selection in mutant.tests:
        kind, _, what = selection.partition(":")
        assert kind in mutants.RUNNERS
        if kind == "pytest":
            assert (mutants.SOURCE / "test" / what.partition(" ")[0]).exists()


def test_there_are_enough():
    assert len(mutants.MUTANTS) >= 40
