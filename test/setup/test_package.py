"""What pip is told of the package, the licence and its text, and what it installs."""

import email
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SEXTANT_BUILD_DIR", ROOT / "build"))

# What pip asks of the build system for a wheel, without building one.
PREPARE = """
import sys
from scikit_build_core.build import prepare_metadata_for_build_wheel
prepare_metadata_for_build_wheel(sys.argv[1])
"""


def test_a_wheel_names_and_ships_the_licence(tmp_path):
    pytest.importorskip("scikit_build_core")
    subprocess.run([sys.executable, "-c", PREPARE, str(tmp_path)], cwd=ROOT, check=True)
    (info,) = tmp_path.glob("sextant-*.dist-info")
    metadata = email.message_from_string((info / "METADATA").read_text())
    assert metadata["License-Expression"] == "Apache-2.0 WITH LLVM-exception"
    shipped = (info / "licenses" / "LICENSE").read_text()
    assert shipped == (ROOT / "LICENSE").read_text()
    # Both halves of the text, in their order.
    assert shipped.index("Apache License") < shipped.index("LLVM Exceptions to the Apache 2.0 License")


def test_encodings_are_installed_with_their_folders(tmp_path):
    command = ["cmake", "--install", BUILD, "--component", "python", "--prefix", tmp_path]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def texts(folder):
        files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return {str(path.relative_to(folder)): path.read_text() for path in files}

    sources = texts(ROOT / "dialects/Pos/Encodings")
    assert any("/" in name for name in sources)
    assert texts(tmp_path / "sextant/encodings") == sources
    assert not list(tmp_path.rglob("__pycache__"))
