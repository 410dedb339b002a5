"""What the tests of the Python package share."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SEXTANT_BUILD_DIR", ROOT / "build"))


@pytest.fixture(scope="session")
def sextant_opt():
    """Runs sextant-opt on text; gives its output or fails with its errors."""
    tool = BUILD / "bin" / "sextant-opt"
    if not tool.exists():
        pytest.skip(f"{tool} is not built")

    def run(text: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(tool), *arguments, "-"], input=text, text=True, capture_output=True
        )
        assert done.returncode == 0, f"{done.stderr}\n{text}"
        return done.stdout

    return run
