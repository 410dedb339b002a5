"""What tools/bench/bytes.py counts can be compiled and run: attention with encodings, one
head or those that a score sees, with values for parameters. Counting takes minutes."""

import importlib.util
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from sextant import definitions

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("count_bytes", ROOT / "tools/bench/bytes.py")
count_bytes = sys.modules["count_bytes"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(count_bytes)


@pytest.mark.parametrize(
    "kernel, uses",
    [
        ("decode", []),
        ("forward", ["forgetting"]),
        ("backward", ["causal", "dape(kerple_log)"]),
    ],
    ids=["decode", "forward", "backward"],
)
def test_counted_kernels_run(kernel, uses, tmp_path):
    arguments = Namespace(
        uses=uses, heads=None, batch=2, dim=16, element="f32", queries=None, keys=None
    )
    signature = definitions.signature(uses)
    problem = count_bytes.problem_of(kernel, arguments, signature)
    artifact = count_bytes.compiled(problem, signature, tmp_path)
    problem = replace(problem, queries=min(problem.queries, 8), keys=8)
    products = 5 if kernel == "backward" else 2
    assert problem.flops == 2 * products * 2 * problem.heads * problem.queries * 8 * 16
    command = ["sextant-run", str(artifact), *problem.inputs(signature, tmp_path)]
    done = subprocess.run(command, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "not finite" not in done.stdout
