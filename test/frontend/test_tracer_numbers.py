"""Numbers that decorators and annotations of traced encodings are given."""

import pytest

import sextant
from sextant import CompileError


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: sextant.constant_init("x"), "value of sextant.constant_init must be a number, got 'x'"),
        (lambda: sextant.normal(deviation=None), "deviation of sextant.normal must be a number"),
        (lambda: sextant.uniform("0", 1), "low of sextant.uniform must be a number, got '0'"),
        (lambda: sextant.PerHead(floor="0"), "floor of sextant.Param must be a number, got '0'"),
        (lambda: sextant.Range(at_least=0.5), "at_least of sextant.Range must be a whole number"),
        (lambda: sextant.Range(multiple_of=0), "multiple_of of sextant.Range must be at least 1"),
    ],
)
def test_arguments_that_are_no_numbers_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize("lanes", ["all", "04", 8, (0,), (0, 8.0), (0, True)])
def test_lanes_are_two_whole_numbers(lanes):
    with pytest.raises(CompileError, match="lanes must be two whole numbers.*got") as info:

        @sextant.rows(of="query", lanes=lanes)
        def f(x, y, at):
            return x, y

    assert info.value.file == __file__ and info.value.line > 0
