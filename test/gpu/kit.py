#!/usr/bin/env python3
"""Packs what a machine with a GPU needs to check the kernels of every encoding there.

    test/gpu/kit.py [--target NAME...] [--output FOLDER] [--match TEXT...] [--draws N]

Such a machine has Python, PyTorch and a driver, but no compiler. So a kit holds the
runtime, and for each encoding in f32 and bf16 a compiled attention, its inputs, the
results of float64, and how far from these a kernel may be (C7, numeric_contract.py).
`check.py` of the kit runs them, and `bench.py` times a few larger attentions beside
PyTorch's. A kit for `cuda-emulated:sm_80` runs without a GPU.
"""

import argparse
import contextlib
import io
import lzma
import shutil
import sys
from pathlib import Path
from unittest import mock

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "test"), str(SOURCE / "test/conformance")]

import attention_contract
import torch
from cases import KERNEL_OPERANDS, Case, make_inputs, takes_groups
from numeric_contract import FACTOR, FLOOR, error, magnitude
from tqdm import tqdm

import sextant
from sextant import backend, definitions

# Lengths that are no multiples of a tile, and more of them than one.
SHAPES = (
    dict(batch=1, query=70, key=130, heads=2, kv_heads=2, label="tiles"),
    dict(batch=1, query=33, key=300, heads=2, kv_heads=1, label="grouped"),
)
HEAD_DIM, VALUE_DIM = 32, 16
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# What `bench.py` times; it knows these by name.
WORKS = {
    "causal": ["causal"],
    "t5_bias": ["causal", "t5_bias"],
    "kerple_log": ["causal", "kerple_log"],
    "dape": ["causal", "dape(kerple_log)"],
}
WORK = dict(batch=1, heads=16, kv_heads=16, query=8, key=8, head_dim=64, value_dim=64)
# What makes the results that the inputs of a backward are among.
HOST = "cpu"


class Recorder(contextlib.ExitStack):
    """Notes which text is compiled for the host and which tensors functions are given."""

    def __enter__(self):
        self.text, self.calls = "", {}
        compiler = backend.compiler()
        compile, run = compiler.compile, backend.Artifact.run

        def compile_noting(text, target, *rest):
            if target == HOST:
                self.text = text
            return compile(text, target, *rest)

        def run_noting(artifact, function, inputs):
            self.calls[function] = [t.detach().clone() for t in inputs]
            return run(artifact, function, inputs)

        self.enter_context(mock.patch.object(compiler, "compile", compile_noting))
        self.enter_context(mock.patch.object(backend.Artifact, "run", run_noting))
        return super().__enter__()


def expected(uses, first, stored, dtype, draws):
    """Results of float64 by name, those of the backward from the output that was
    ``stored``, and how far off a kernel may be: by what C7 says, where the error of plain
    code is the largest of some draws."""

    def reference(inputs):
        backward = attention_contract.backward(uses, inputs, stored, normalizes=True)
        return attention_contract.forward(uses, inputs) | backward

    exact = reference(first)
    plain: dict[str, torch.Tensor] = {}
    for draw in range(draws):
        inputs = first.neighbours(dtype) if draw else first
        want = reference(inputs) if draw else exact
        for name, got in reference(inputs.cast(torch.float32)).items():
            found = error(got, want[name]).nan_to_num(0.0, 0.0, 0.0)
            plain[name] = torch.maximum(plain.get(name, found), found)
    allowed = {
        name: float(FACTOR * plain[name] + FLOOR * max(1.0, magnitude(exact[name])))
        for name in exact
    }
    return exact, allowed


def make_case(case, inputs, dtype, draws, recorder):
    """Operands and results of one call, a dictionary of tensors, texts and numbers."""
    stored = attention_contract.run(case.uses, inputs.cast(dtype), HOST)
    operands = dict(recorder.calls)
    exact, allowed = expected(case.uses, inputs, stored, dtype, draws)
    trained = [p.name for p in definitions.signature(case.uses).params if p.trained]
    names = {
        "forward": ["output", "lse"],
        "backward": ["d query", "d key", "d value", *(f"d {n}" for n in trained)],
    }
    return {
        "shape": case.label,
        "operands": operands,
        # The operand of the backward that only the same target makes: statistics.
        "from_forward": {4: 2},
        "expected": {
            function: [(n, exact[n], allowed[n]) for n in of] for function, of in names.items()
        },
    }


def make_file(encoding, name, target, draws):
    """A compiled attention, which serves every shape, and its cases."""
    dtype = DTYPES[name]
    cases = []
    with Recorder() as recorder:
        for shape in SHAPES:
            case = Case(encoding, head_dim=HEAD_DIM, value_dim=VALUE_DIM, **shape)
            if case.heads != case.kv_heads and not takes_groups(encoding):
                continue
            torch.manual_seed(0)
            inputs = make_inputs(case, seed=1, dtype=dtype)
            cases.append(make_case(case, inputs, dtype, draws, recorder))
    data = backend.compiler().compile(
        recorder.text, target, definitions.first_folders(), "artifact", "<attention>"
    )
    return {"artifact": torch.frombuffer(bytearray(data), dtype=torch.uint8), "cases": cases}


def make_work(uses, name, target):
    """A compiled attention to be timed, and its parameters."""
    case = Case(uses[-1], before=tuple(uses[:-1]), **WORK)
    inputs = make_inputs(case, seed=1, dtype=DTYPES[name])
    inputs = inputs.cast(DTYPES[name])
    with Recorder() as recorder:
        attention_contract.run(case.uses, inputs, HOST)
    data = backend.compiler().compile(
        recorder.text, target, definitions.first_folders(), "artifact", "<attention>"
    )
    params = {p.name: p.trained for p in definitions.signature(case.uses).params}
    return {
        "artifact": torch.frombuffer(bytearray(data), dtype=torch.uint8),
        "params": [(n, inputs.params[n], trained) for n, trained in params.items()],
    }


def save(value, path):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    path.write_bytes(lzma.compress(buffer.getvalue()))


def encodings(match):
    """Those that act in attention."""
    names = [e.name for e in sextant.encodings()]
    names = [n for n in names if not definitions.signature([n]).operands - KERNEL_OPERANDS]
    return [n for n in names if not match or any(text in n for text in match)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="cuda:sm_90a", help="(cuda:sm_90a)")
    parser.add_argument("--output", type=Path, default=SOURCE / "build/gpu-kit")
    parser.add_argument("--match", nargs="+", default=[], metavar="TEXT")
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--draws", type=int, default=10, help="inputs of plain code (10)")
    options = parser.parse_args()

    folder = options.output
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("cases", "works"):
        (folder / part).mkdir(parents=True)
    shutil.copy(backend.PACKAGE / "libsextant_torch.so", folder)
    for name in ("gpu/check.py", "gpu/bench.py", "numeric_contract.py"):
        shutil.copy(SOURCE / "test" / name, folder)
    files = [(e, dtype) for e in encodings(options.match) for dtype in options.dtype]
    for encoding, dtype in tqdm(files, disable=None):
        file = make_file(encoding, dtype, options.target, options.draws)
        save(file, folder / "cases" / f"{encoding}-{dtype}.pt.xz")
    for name, uses in WORKS.items():
        if not options.match or any(text in name for text in options.match):
            for dtype in options.dtype:
                work = make_work(uses, dtype, options.target)
                save(work, folder / "works" / f"{name}-{dtype}.pt.xz")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{len(files)} attentions for {options.target}, {size / 2**20:.1f} MiB: {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
