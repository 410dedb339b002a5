"""What the command line waits for before it says anything: not for PyTorch, whose import takes
seconds, until a command that computes begins."""

import subprocess
import sys

import pytest

sextant = pytest.importorskip("sextant")

from sextant.cli import _COMMANDS

COMMANDS = [command.__name__.rsplit(".", 1)[1] for command in _COMMANDS]


def imported(*arguments):
    """What a process of Python imports, the code with which it ends, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip() for line in lines}, done.returncode, done.stdout


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=" ".join)
def test_help_waits_for_no_torch(command):
    modules, code, out = imported("-m", "sextant", *command, "--help")
    assert code == 0 and out.startswith("usage: sextant")
    assert "sextant.cli.train" in modules and "torch" not in modules


@pytest.mark.parametrize(
    "words, code",
    [
        (["encodings"], 0),
        (["encodings", "dape(kerple_log)"], 0),
        (["--version"], 0),
        (["train"], 2),
        (["train", "run", "--steps", "many"], 2),
        (["eva"], 2),
    ],
)
def test_what_computes_nothing_waits_for_no_torch(words, code):
    pytest.importorskip("sextant._compiler")
    modules, got, _ = imported("-m", "sextant", *words)
    assert got == code
    assert "sextant.cli.train" in modules and "torch" not in modules


def test_a_program_has_everything_at_once():
    """Also the operators by which programs name an attention."""
    text = "import sextant, sys; assert 'torch' in sys.modules; sys.modules['torch'].ops.sextant.attention"
    assert imported("-c", text)[1] == 0


AS_A_COMMAND = """
import sys
sys.argv[0] = "/usr/bin/sextant"
import sextant
assert "torch" not in sys.modules
assert {"attention", "nn", "rows"} <= set(dir(sextant))
from sextant import probe  # which imports what the names below are made of
from sextant import *
assert sextant.attention is attention and sextant.random_positions is random_positions
assert [name for name in sextant.__all__ if name not in globals()] == []
assert sextant.nn.Attention(8, 2)(sys.modules["torch"].zeros(1, 2, 8)).shape == (1, 2, 8)
try:
    sextant.atention
except AttributeError as error:
    assert 'did you mean "attention"?' in str(error)
else:
    raise AssertionError("no error")
"""


def test_files_that_a_command_imports_find_the_whole_package():
    """Such as the sampler of an encoding, which may use it as any program does."""
    pytest.importorskip("sextant._compiler")
    done = subprocess.run([sys.executable, "-c", AS_A_COMMAND], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_module_has_the_name_of_what_the_package_gives():
    """A module that is imported becomes an attribute of its package, in place of a function
    that is not there yet."""
    modules = {"models", "nn"}
    taken = {
        name
        for name in sextant.__all__
        if name not in modules and f"sextant.{name}" in sys.modules
    }
    assert taken == set()
