"""Definitions with a word changed: refused with an error, or computed as they say.

Mutants run in a child. One that ends it by a signal, hangs it, or gives other numbers on
a CPU target than in the float64 reference is printed with its seed. SEXTANT_SEED draws
others, SEXTANT_MUTANTS says how many.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from mutate import TOKEN, mutate_meaning

HERE = Path(__file__).parent
ENCODINGS = HERE.parents[1] / "dialects" / "Pos" / "Encodings"
SECONDS = 60  # of a mutant, on a busy machine


def drawn(source: random.Random, count: int) -> list[str]:
    files = sorted(ENCODINGS.rglob("*.mlir"))
    mutants = []
    for _ in range(count):
        tokens = TOKEN.findall(source.choice(files).read_text())
        for _ in range(source.choice([1, 1, 2])):
            tokens = mutate_meaning(tokens, source)
        mutants.append("".join(tokens))
    return mutants


def run(mutants: list[str], target: str, seed: int) -> list[str]:
    """What came of each; a child that dies is followed by another one."""
    results: list[str] = []
    while len(results) < len(mutants):
        rest = mutants[len(results) :]
        command = [sys.executable, HERE / "run_mutants.py", target, str(seed + len(results))]
        limit = SECONDS * len(rest)
        try:
            child = subprocess.run(command, input=json.dumps(rest), capture_output=True, text=True, timeout=limit)
            lines, end = child.stdout, f"exit code {child.returncode}: {child.stderr[-2000:]}"
        except subprocess.TimeoutExpired as hang:
            lines, end = (hang.stdout or b"").decode(), f"no end in {limit} s"
        found = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
        results += [entry["result"] for entry in found if "ends" in entry]
        if len(results) < len(mutants):
            results.append(end)
    return results


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_mutants_are_refused_or_right(target):
    from sextant import backend

    if target not in backend.compiler().list_targets():
        pytest.skip(f"this machine has no {target}")
    seed = int(os.environ.get("SEXTANT_SEED") or random.randrange(2**31))
    print(f"SEXTANT_SEED={seed}")
    mutants = drawn(random.Random(seed), int(os.environ.get("SEXTANT_MUTANTS") or 8))
    results = run(mutants, target, seed)
    guilty = [
        f"{result}, of:\n{mutant}"
        for mutant, result in zip(mutants, results)
        if result not in ("refused", "unstable", "same")
    ]
    print({kind: results.count(kind) for kind in ("refused", "unstable", "same")})
    assert not guilty, "\n\n".join(guilty)
