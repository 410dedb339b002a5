"""What the tests of encodings share."""

import pytest


@pytest.fixture
def draw(generator):
    """Random numbers of a test, under the name that formulas read well with."""
    return generator
