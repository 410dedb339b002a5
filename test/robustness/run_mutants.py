"""Compiles and runs mutants of definitions, in a process that may end by a signal.

    run_mutants.py TARGET SEED < mutants.json

Prints a line of JSON before each mutant, and one after it with what came of it:
"refused" (an error of ours), "unstable" (f32 and float64 of the definition itself
disagree), "same", or what differs.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

import torch

import sextant
from sextant import definitions

EXTENTS = {"batch": 2, "heads": 4, "kv_heads": 4, "query": 7, "key": 19, "head_dim": 16, "value_dim": 16, "model": 64}
# Kernels in f32 against float64; what rounding moves further is unstable.
TOLERANCE = 1e-2


def draw_params(name: str) -> dict[str, torch.Tensor]:
    params = {}
    shapes = definitions.shapes(definitions.signature([name]), EXTENTS)
    for info in definitions.signature([name]).params:
        shape = shapes[info.name]
        if sum(shape) > 10**5:
            raise ValueError("a parameter that does not fit")
        integer = info.element == "i32"
        params[info.name] = torch.randint(-3, 25, shape, dtype=torch.int32) if integer else torch.rand(shape)
    return params


def run(name: str, params, operands, dtype, target) -> torch.Tensor:
    """Output and log-sum-exp, in float64 and in one row."""
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    given = {n: t if t.dtype == torch.int32 else t.to(compute) for n, t in params.items()}
    q, k, v = (t.to(dtype) for t in operands)
    if any("embedding" in o for o in definitions.signature([name]).operands):
        rows = q.transpose(1, 2).flatten(2)
        return sextant.map_rows(rows, "embedding", [name], given, heads=4, target=target).double().flatten()
    out, lse = sextant.attention(q, k, v, [name], given, return_lse=True, target=target)
    return torch.cat([out.double().flatten(), lse.double().flatten()])


def difference(name: str, target: str) -> str:
    try:
        params = draw_params(name)
        operands = [torch.randn(2, 4, n, 16) for n in (7, 19, 19)]
        exact = run(name, params, operands, torch.float64, "reference")
        plain = run(name, params, operands, torch.float32, "reference")
        got = run(name, params, operands, torch.float32, target)
    except (sextant.CompileError, sextant.RuntimeError, ValueError, TypeError) as error:
        return "refused" if "Traceback" not in str(error) else str(error)
    scale = exact[exact.isfinite()].abs().max().clamp(1.0, 1e6) if exact.isfinite().any() else 1.0
    steady = exact.isfinite() & plain.isfinite() & ((exact - plain).abs() < TOLERANCE / 10 * scale)
    if not steady.any():
        return "unstable"
    apart = (got - exact).abs()[steady] / scale
    return "same" if apart.max() < TOLERANCE else f"{target} is off by {apart.max():.3g} of {scale:.3g}"


def main() -> None:
    target, seed = sys.argv[1:3]
    for number, text in enumerate(json.load(sys.stdin)):
        print(json.dumps({"begins": number}), flush=True)
        torch.manual_seed(int(seed) + number)
        name = re.search(r"pos\.encoding @(\w+)", text)
        result = "refused"
        if name:
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / f"{name[1]}.mlir").write_text(text)
                os.environ["SEXTANT_PATH"] = folder
                definitions.resolve_located.cache_clear()
                result = difference(name[1], target)
        print(json.dumps({"ends": number, "result": result}), flush=True)


main()
