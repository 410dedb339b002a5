"""What conftest.py and run.py promise of a run: seeds come back, nothing is silent."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

FILE = """
import os, random, time
import pytest, targets, torch

# A machine with one target only.
targets._of_this_machine = lambda: ["cpu:avx2"]


def test_draws(generator):
    numbers = [random.random(), torch.rand(()).item(), torch.rand((), generator=generator).item()]
    print("drawn", numbers)
    assert os.environ.get("PASS")


def test_leaves_threads():
    torch.set_num_threads(torch.get_num_threads() + 2)


def test_finds_its_own_number_again():
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("kernel", [("cpu:avx2", 1), ("cpu:avx512", 2)], ids=str)
def test_of_a_target(kernel):
    pass
"""

# By themselves: a worker that is begun anew need not load PyTorch first.
HANGING = """
import os


def test_hangs():
    # As a kernel: it leaves Python, without its lock, and does not return.
    import ctypes
    ctypes.CDLL(None).sleep(300)


def test_crashes():
    os.abort()


def test_after_it():
    pass
"""


def run(folder, *arguments, text=FILE, plugins=("-p", "conftest"), **environment):
    (folder / "test_them.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=line", "-p", "no:cacheprovider"]
    others = {n: v for n, v in os.environ.items() if not n.startswith("OMP_")}
    done = subprocess.run(
        [*command, *plugins, *arguments, str(folder / "test_them.py")],
        env={
            **others,
            "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
            **environment,
        },
        cwd=folder,
        text=True,
        capture_output=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_printed_seed_brings_the_numbers_back(tmp_path):
    def drawn(**environment):
        _, output = run(tmp_path, "-k", "draws", **environment)
        lines = output.splitlines()
        seed = next(x for x in lines if x.startswith("SEXTANT_SEED=")).partition("=")[2]
        return seed, next(x for x in lines if x.startswith("drawn"))

    seed, numbers = drawn()
    assert drawn(SEXTANT_SEED=seed) == (seed, numbers)
    assert drawn(SEXTANT_SEED=str(int(seed) + 1))[1] != numbers


def test_leaks_and_missing_targets_show(tmp_path):
    code, output = run(tmp_path, PASS="1")
    assert code == 1
    assert "the test leaves 3 threads, it found 1" in output
    assert "PASSED test_them.py::test_finds_its_own_number_again" in output
    assert "PASSED test_them.py::test_of_a_target[('cpu:avx2', 1)]" in output
    assert "SKIPPED [1]" in output and "this machine has no cpu:avx512" in output


def test_openmp_is_told_before_pytorch_is_loaded(tmp_path):
    _, output = run(tmp_path, "-k", "finds_its_own", OMP_DISPLAY_ENV="TRUE")
    assert "PASSED test_them.py::test_finds_its_own_number_again" in output
    shown = dict(re.findall(r"(OMP_\w+) = '([^']*)'", output))
    assert shown["OMP_NUM_THREADS"] == "1" and shown["OMP_WAIT_POLICY"] == "PASSIVE"


def test_a_hang_and_a_crash_fail_and_others_go_on(tmp_path):
    pytest.importorskip("xdist")
    start = time.monotonic()
    code, output = run(
        tmp_path, "-n", "2", "--timeout=5", "--timeout-method=thread",
        text=HANGING, plugins=(),
    )  # fmt: skip
    assert code == 1
    assert "FAILED test_them.py::test_hangs" in output
    assert "FAILED test_them.py::test_crashes" in output
    assert "PASSED test_them.py::test_after_it" in output
    assert time.monotonic() - start < 300, "the sleep ended, not the limit"
