"""What tests of the kit share: a machine to carry it to."""

import pytest
from elsewhere import Elsewhere


@pytest.fixture(scope="session")
def elsewhere():
    with Elsewhere() as process:
        yield process


@pytest.fixture
def run_there(elsewhere):
    """Runs a script of a kit: lines of its output and of its errors."""

    def run(folder, *command, code=0):
        got, *texts = elsewhere.run(folder, *command)
        assert got == code, "".join(texts)
        return [text.splitlines() for text in texts]

    return run
