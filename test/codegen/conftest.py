"""What several tests of kernels share."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sass():
    """The module of tools/bench/sass.py."""
    spec = importlib.util.spec_from_file_location("sass", ROOT / "tools/bench/sass.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["sass"] = module
    spec.loader.exec_module(module)
    return module
