"""A kit for machines with a GPU, built for the emulator and run as it is run there."""

import io
import lzma
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).resolve().parent
# One encoding with a table and its gradient, and plain attention.
MATCH = ["--match", "t5_bias", "causal"]


def run(*command, code=0):
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kit") / "gpu-kit"
    lines = run(
        HERE / "kit.py", "--target", "cuda-emulated:sm_80", "--output", folder,
        "--dtype", "f32", "--draws", 3, *MATCH,
    )  # fmt: skip
    assert lines[-1].startswith("2 attentions for cuda-emulated:sm_80, ")
    return folder


def test_a_kit_checks_its_cases(kit):
    lines = run(kit / "check.py", "--device", "cpu", "--repeat", 2)
    assert lines[-1] == "4 passed, 0 failed"


def test_a_wrong_result_is_named(kit, tmp_path):
    """A kit whose expected gradients are off by a thousandth."""
    folder = tmp_path / "wrong"
    shutil.copytree(kit, folder)
    path = folder / "cases" / "t5_bias-f32.pt.xz"
    file = torch.load(io.BytesIO(lzma.decompress(path.read_bytes())), weights_only=True)
    for case in file["cases"]:
        case["expected"]["backward"][3][1].mul_(1.001)
    buffer = io.BytesIO()
    torch.save(file, buffer)
    path.write_bytes(lzma.compress(buffer.getvalue()))
    lines = run(
        folder / "check.py", "--device", "cpu", "--repeat", 1, "--match", "t5_bias", code=1
    )
    assert lines[1].startswith("t5_bias-f32 tiles: d t5_bias.table: ")
    assert lines[-1] == "0 passed, 2 failed"


def test_works_are_compared_before_they_are_timed(kit, tmp_path):
    lines = run(
        kit / "bench.py", "--device", "cpu", "--batch", 1, "--length", 40,
        "--rounds", 1, "--output", tmp_path,
    )  # fmt: skip
    assert [line.split("|")[2].strip() for line in lines[-2:]] == ["sdpa", "eager"]
    assert len(list(tmp_path.glob("*.json"))) == 1
