#!/usr/bin/env python3
"""Packs what a machine with a GPU needs to check the kernels of every encoding there.

    test/gpu/kit.py [--target NAME...] [--output FOLDER] [--match TEXT...] [--dtype NAME...]

Such a machine has Python, PyTorch and a driver, but no compiler. So a kit holds the
runtime, and for each encoding compiled attentions in f32, bf16 and f16 (of rows outside of
attention, row maps in f32 and bf16): for the GPU, for the CPU beside it, and the definition
itself in float64 and f32, to which kernels are held there (C7, numeric_contract.py). A
few models are compiled for the GPU and the CPU, whose training steps are compared, and
larger ones for the GPU, whose steps are timed; parameters are drawn there.
Inputs are drawn there by a seed. `check.py` of the kit runs them, and `gpu_bench.py` times a
few larger attentions beside PyTorch's. A kit for `cuda-emulated:sm_80` runs without a GPU.
What an earlier call has made for the same target with the same compiler stays, so an
interrupted one loses at most a file.
"""

import argparse
import contextlib
import functools
import hashlib
import io
import json
import lzma
import os
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from unittest import mock

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "test"), str(SOURCE / "test/conformance")]

import attention_contract
import gpt_programs
import torch
from attention_contract import Reference
from cases import (
    KERNEL_OPERANDS,
    Case,
    extents_of,
    make_inputs,
    make_params,
    row_map,
    takes_groups,
)
from contract_inputs import Inputs, RowInputs
from tqdm import tqdm
from works import WORKS, Work

import sextant
from sextant import backend, definitions, targets

# Lengths that are no multiples of a tile, and more of them than one.
SHAPES = (
    dict(batch=1, query=70, key=130, heads=2, kv_heads=2, label="tiles"),
    dict(batch=1, query=33, key=300, heads=2, kv_heads=1, label="grouped"),
)
HEAD_DIM, VALUE_DIM = 32, 16
# Of rows outside of attention, which are longer than a warp.
ROW_SHAPES = (
    dict(batch=3, length=19, width=40, label="short"),
    dict(batch=2, length=300, width=40, label="long"),
)
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
ROW_DTYPES = ("f32", "bf16")
# Of a work while it is compiled, which serves every shape but for the head dim.
WORK = dict(batch=1, heads=16, kv_heads=16, query=8, key=8)
# Whose sums are checked in any order, too: without parameters, with mapped rows, a table, hinges.
UNORDERED = ("causal", "rope", "t5_bias", "fire")
# What any processor runs that a machine with a GPU has.
HOST = "cpu:avx2"
# What runs here where CPUs have no kernels: of f16, and of sums in any order.
EMULATOR = "cuda-emulated:sm_80"
# What a machine with a GPU is given besides files of cases, all of it from test/.
SCRIPTS = (
    "gpu/check.py", "gpu/kernel_cases.py", "gpu/gpu_bench.py", "gpu/peers.py", "gpu/draws.py",
    "gpu/eager_gpt.py", "gpu/programs.py", "gpu/timings.py", "contract_inputs.py", "numeric_contract.py",
)  # fmt: skip


class Recorder(contextlib.ExitStack):
    """Notes the last text that is compiled, and what its forward is given."""

    def __enter__(self):
        self.text, self.operands = "", []
        compiler = backend.compiler()
        compile, run = compiler.compile, backend.Artifact.run

        def compile_noting(text, *rest):
            self.text = text
            return compile(text, *rest)

        def run_noting(artifact, function, inputs):
            if function == "forward":
                self.operands = inputs
            return run(artifact, function, inputs)

        self.enter_context(mock.patch.object(compiler, "compile", compile_noting))
        self.enter_context(mock.patch.object(backend.Artifact, "run", run_noting))
        return super().__enter__()


def image_of(text: str, target: str) -> torch.Tensor:
    """A compiled module."""
    data = backend.compiler().compile(
        text, target, definitions.first_folders(), "artifact", "<attention>"
    )
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def cases_of(encoding: str) -> list[Case]:
    """The shapes that an encoding takes."""
    cases = [Case(encoding, head_dim=HEAD_DIM, value_dim=VALUE_DIM, **s) for s in SHAPES]
    return [c for c in cases if c.heads == c.kv_heads or takes_groups(encoding)]


def given_of(case: Case, inputs: Inputs, operands: list[torch.Tensor]) -> dict:
    """What a case is given that is not drawn: parameters in the order of operands, and
    positions; shapes of what is."""
    names = [p.name for p in definitions.signature(case.uses).params]
    rows = 2 + len(inputs.values)
    params = operands[rows : rows + len(names)]
    return {
        "shape": asdict(case),
        "params": {n: t.detach().clone() for n, t in zip(names, params)},
        "positions": [t.clone() for t in operands[rows + len(names) :]],
    }


def kernel_of(uses, dtype: str, text: str, target: str) -> dict:
    """A compiled attention and the rule of C7 that it is held to, which depends on whether
    it multiplies on tensor cores."""
    image = image_of(text, target)
    manifest = json.loads(backend.Artifact(image.numpy().tobytes()).manifest())
    fragments = any(name.endswith("_forward_fragments") for name in manifest["kernels"])
    rule = attention_contract.rule_of(uses, target, DTYPES[dtype], fragments)
    products = next(n for n, type in DTYPES.items() if type == rule.products)
    return {"image": image, "products": products, "roundings": rule.roundings, "is_ordered": True}


def compiled(uses, inputs: Inputs, dtype: str, target: str, recorder: Recorder) -> dict:
    """Attention with its gradients for the GPU, and for the CPU where it has such kernels.
    The text is the same."""
    recorder.text = ""
    is_for_host = dtype != "f16"
    attention_contract.run(uses, inputs.cast(DTYPES[dtype]), HOST if is_for_host else EMULATOR)
    assert recorder.text, "the text of an attention was compiled before"
    names = [HOST, target] if is_for_host else [target]
    return {name: kernel_of(uses, dtype, recorder.text, name) for name in names}


def unordered(uses, inputs: Inputs, dtype: str, target: str, recorder: Recorder) -> dict:
    """The same for the GPU alone, where gradients are summed up in any order."""
    recorder.text = ""
    free = replace(inputs, deterministic=False).cast(DTYPES[dtype])
    attention_contract.run(uses, free, EMULATOR)
    assert " unordered" in recorder.text, "sums have an order"
    kernel = kernel_of(uses, dtype, recorder.text, target)
    return {f"{target} unordered": kernel | {"is_ordered": False}}


def literal(uses, inputs: Inputs, recorder: Recorder) -> dict:
    """The definition itself, in both directions, by type."""
    images = {}
    for name, dtype in (("f64", torch.float64), ("f32", torch.float32)):
        recorder.text = ""
        Reference(uses).forward(inputs.cast(dtype))
        assert recorder.text, "the text of an attention was compiled before"
        images[name] = image_of(recorder.text, "reference")
    return images


def make_file(encoding: str, dtypes: list[str], target: str) -> dict:
    """Compiled attentions, which serve every shape, and cases for them."""
    cases = cases_of(encoding)
    uses = cases[0].uses
    with Recorder() as recorder:
        first = make_inputs(cases[0], seed=1)
        file = {
            "kind": "attention",
            "reference": literal(uses, first, recorder),
            "kernels": {d: compiled(uses, first, d, target, recorder) for d in dtypes},
            "trained": [p.name for p in definitions.signature(uses).params if p.trained],
            "cases": [],
        }
        if encoding in UNORDERED and "bf16" in dtypes:
            file["kernels"]["bf16"] |= unordered(uses, first, "bf16", target, recorder)
        for case in cases:
            inputs = make_inputs(case, seed=1)
            attention_contract.run(uses, inputs.cast(torch.float32), HOST)
            file["cases"].append(given_of(case, inputs, recorder.operands))
    return file


def make_rows_file(encoding: str, dtypes: list[str], target: str) -> dict:
    """A compiled row map outside of attention, and cases for it. They have the same
    parameters: a row's length says how large these are."""
    shape = ROW_SHAPES[0]
    case = Case(encoding, heads=1, kv_heads=1, head_dim=shape["width"])
    params = make_params([encoding], extents_of(case), torch.Generator().manual_seed(1))
    rows = torch.zeros(shape["batch"], shape["length"], shape["width"], dtype=torch.float64)
    first = RowInputs(rows, rows, params)
    with Recorder() as recorder:

        def text_of(dtype: str, target: str) -> str:
            recorder.text = ""
            row_map(encoding, target)(first.cast(DTYPES.get(dtype, torch.float64)))
            assert recorder.text, "the text of a row map was compiled before"
            return recorder.text

        reference = {d: image_of(text_of(d, "reference"), "reference") for d in ("f64", "f32")}
        kernels = {}
        for dtype in (d for d in dtypes if d in ROW_DTYPES):
            text = text_of(dtype, HOST)
            rule = {"products": "f32", "roundings": 1, "is_ordered": True}
            kernels[dtype] = {n: {"image": image_of(text, n)} | rule for n in (HOST, target)}
    signature = definitions.signature([encoding])
    given = {p.name: params[p.name] for p in signature.params}
    return {
        "kind": "rows",
        "reference": reference,
        "kernels": kernels,
        "trained": [p.name for p in signature.params if p.trained],
        "cases": [{"shape": s, "params": given} for s in ROW_SHAPES],
    }


def make_work(work: Work, dtype: str, target: str) -> dict:
    """A compiled attention to be timed, and its parameters."""
    uses = list(work.uses)
    case = Case(uses[-1] if uses else "causal", **WORK, head_dim=work.dim, value_dim=work.dim)
    inputs = make_inputs(case, seed=1, dtype=DTYPES[dtype])
    inputs = replace(inputs, deterministic=work.deterministic).cast(DTYPES[dtype])
    runs_here = HOST if dtype != "f16" and work.deterministic else EMULATOR
    with Recorder() as recorder:
        attention_contract.run(uses, inputs, runs_here)
    assert recorder.text, "the text of an attention was compiled before"
    assert work.deterministic or " unordered" in recorder.text, "sums have an order"
    params = {p.name: p.trained for p in definitions.signature(uses).params}
    return {
        "artifact": image_of(recorder.text, target),
        "params": [(n, inputs.params[n].float(), trained) for n, trained in params.items()],
        "dim": work.dim,
    }


def save(value, path: Path) -> None:
    """Writes a file, whole or not at all."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    begun = path.with_suffix(".begun")
    begun.write_bytes(lzma.compress(buffer.getvalue()))
    begun.replace(path)


def encodings(match: list[str]) -> list[str]:
    """Those that are checked."""
    names = [e.name for e in sextant.encodings()]
    return [n for n in names if not match or any(text in n for text in match)]


def maker_of(encoding: str):
    """What makes the file of an encoding, by whether it acts in attention."""
    outside = definitions.signature([encoding]).operands - KERNEL_OPERANDS
    return make_rows_file if outside else make_file


def works_of(match: list[str]) -> list[str]:
    """Those that are timed."""
    return [n for n in WORKS if not match or any(text in n for text in match)]


def programs_of(match: list[str]) -> list[str]:
    """Models whose training steps are checked."""
    return [n for n in gpt_programs.PROGRAMS if not match or any(text in n for text in match)]


def trainings_of(match: list[str]) -> list[str]:
    """Models whose training steps are timed."""
    return [n for n in gpt_programs.TRAININGS if not match or any(text in n for text in match)]


def key_of(target: str, dtypes: list[str]) -> str:
    """Changes with all that a file of cases depends on."""
    settings = target, dtypes, definitions.environment(), os.environ.get("SEXTANT_CODE")
    digest = hashlib.sha256(repr(settings).encode())
    sources = [Path(__file__), Path(attention_contract.__file__), *backend.PACKAGE.glob("*.so")]
    names = "gpu/works.py", "gpu/gpt_programs.py", "conformance/cases.py"
    sources += [SOURCE / "test" / name for name in names]
    for name in encodings([]):
        sources += [Path(path) for path, *_ in definitions.signature([name]).files]
    for path in sources:
        digest.update(path.read_bytes())
    for text in gpt_programs.texts():
        digest.update(text.encode())
    return digest.hexdigest()


def prepare(folder: Path, key: str) -> None:
    """A folder with the scripts and the runtime; files of another key go."""
    note = folder / "made-of.txt"
    if not (note.exists() and note.read_text() == key):
        shutil.rmtree(folder, ignore_errors=True)
    for part in ("cases", "works", "programs", "trainings"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    note.write_text(key)
    shutil.copy(backend.PACKAGE / "libsextant_torch.so", folder)
    for name in SCRIPTS:
        shutil.copy(SOURCE / "test" / name, folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="cuda:sm_90a", help="the GPU (cuda:sm_90a)")
    parser.add_argument("--output", type=Path, default=SOURCE / "build/gpu-kit", metavar="FOLDER")
    parser.add_argument(
        "--match", nargs="+", default=[], metavar="TEXT", help="of encodings, works and programs (all)"
    )
    parser.add_argument(
        "--dtype", nargs="+", choices=DTYPES, default=list(DTYPES), help="(all)"
    )
    options = parser.parse_args()
    try:
        targets.describe(options.target)
    except sextant.CompileError as error:
        parser.error(str(error))
    if not any(find(options.match) for find in (encodings, works_of, programs_of, trainings_of)):
        parser.error(
            f"no encoding, work or program has {' or '.join(options.match)} in its name"
        )

    folder, dtypes = options.output, options.dtype
    prepare(folder, key_of(options.target, dtypes))
    names = encodings(options.match)
    works = [(n, d) for n in works_of(options.match) for d in dtypes if d in WORKS[n].dtypes]
    jobs = {}
    for name in names:
        path = folder / "cases" / f"{name}.pt.xz"
        jobs[path] = functools.partial(maker_of(name), name, dtypes, options.target)
    for name, dtype in works:
        path = folder / "works" / f"{name}-{dtype}.pt.xz"
        jobs[path] = functools.partial(make_work, WORKS[name], dtype, options.target)
    for name in programs_of(options.match):
        path = folder / "programs" / f"{name}.pt.xz"
        make = functools.partial(gpt_programs.make_program, name, HOST, options.target)
        jobs[path] = make
    for name in trainings_of(options.match):
        sizes = gpt_programs.LARGE
        path = folder / "trainings" / f"{name}.pt.xz"
        make = functools.partial(gpt_programs.make_training, name, sizes, options.target)
        jobs[path] = make
    try:
        for path, make in tqdm(jobs.items(), disable=None, unit="file"):
            if not path.exists():
                save(make(), path)
    except KeyboardInterrupt:
        print(f"interrupted; the same command goes on with what is in {folder}", file=sys.stderr)
        return 130
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    count = len(list((folder / "cases").iterdir()))
    print(f"{count} encodings for {options.target}, {size / 2**20:.1f} MiB: {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
