"""What all tests share: the seed, random numbers, the targets of this machine.

pytest puts the folder of a conftest.py on the path, so the modules beside this file
are importable from all folders of tests.
"""

import gc
import hashlib
import os
import random
import sys
import tempfile
from pathlib import Path

import pytest
import run

# OpenMP reads them when PyTorch is loaded, of a pytest by hand as of test/run.py.
for _name, _value in run.THREADS.items():
    os.environ.setdefault(_name, _value)

import targets


def pytest_configure(config):
    what = "quick_code: compiles quickly in conformance, too; other tests run optimized code"
    config.addinivalue_line("markers", what)


def pytest_collection_finish(session):
    """What is there now stays: the collector need not visit it again and again, which
    took some eighth of the time of short tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """SEXTANT_CODE as given; else "quick", but for conformance: most of the time of a test
    is that of machine code, made of the same LLVM IR in either case. Conformance compiles
    as users do: every encoding on every target, in both directions. What it compiles of an
    encoding beyond that is marked `quick_code`."""
    is_users = "conformance" in item.path.parts and not item.get_closest_marker("quick_code")
    is_chosen = "SEXTANT_CODE" not in os.environ and not is_users
    if is_chosen:
        os.environ["SEXTANT_CODE"] = "quick"
    yield
    if is_chosen:
        del os.environ["SEXTANT_CODE"]


@pytest.fixture(autouse=True)
def seed():
    """A fresh seed for random inputs, and that of the generators of Python, NumPy and
    PyTorch; printed, so that SEXTANT_SEED can bring a failure back."""
    value = int(os.environ.get("SEXTANT_SEED") or int.from_bytes(os.urandom(4), "big"))
    value %= 2**31
    print(f"SEXTANT_SEED={value}")
    random.seed(value)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(value)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(value)
    return value


@pytest.fixture
def generator(seed):
    """PyTorch's random numbers of a test."""
    import torch

    return torch.Generator().manual_seed(seed)


@pytest.fixture(autouse=True)
def same_threads():
    """No test leaves another number of threads to the next one."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else None
    yield
    if before is not None and torch.get_num_threads() != before:
        after = torch.get_num_threads()
        torch.set_num_threads(before)
        pytest.fail(f"the test leaves {after} threads, it found {before}")


@pytest.fixture
def search_path(monkeypatch):
    """Puts definitions, by name, on SEXTANT_PATH.

    The same texts stand in the same files in all tests, workers and runs: a folder of
    its own per test would be another key of every compiled kernel.
    """

    def put(texts):
        name = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or tempfile.gettempdir())
        folder = cache / "sextant-test-definitions" / name
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as made:
                whole = Path(made) / name
                whole.mkdir()
                for definition, text in texts.items():
                    (whole / f"{definition}.mlir").write_text(text)
                try:
                    whole.rename(folder)
                except OSError:  # another worker was first
                    assert folder.exists()
        monkeypatch.setenv("SEXTANT_PATH", str(folder))

    return put


def _named_targets(value):
    """Targets of the CPU in the parameters of a test."""
    if isinstance(value, str):
        return {value} if value in targets.CPU else set()
    if isinstance(value, (tuple, list)):
        return set().union(*map(_named_targets, value))
    return set()


def pytest_collection_modifyitems(items):
    """A test of a target that this machine lacks shows as skipped."""
    for item in items:
        given = getattr(item, "callspec", None)
        for target in _named_targets(list(given.params.values()) if given else []):
            if not targets.available(target):
                item.add_marker(pytest.mark.skip(reason=f"this machine has no {target}"))


def pytest_generate_tests(metafunc):
    """`cpu_target`: every target of the CPU. `f32_target`: those whose kernels of f32
    differ."""
    if "cpu_target" in metafunc.fixturenames:
        metafunc.parametrize("cpu_target", targets.CPU)
    if "f32_target" in metafunc.fixturenames:
        metafunc.parametrize("f32_target", targets.F32)
