#!/usr/bin/env python3
"""Loads artifacts and runs their functions: the child of fuzz_artifacts.py.

    run_artifacts.py LIBRARY FILE...

Prints one line per file before it is loaded and one after it: what came of it
(`refused`, `failed` with the error of a function, `ran`). It ends by a signal when the
runtime crashes, takes too much time on a file, or corrupts the heap.
"""

import json
import math
import resource
import signal
import sys
from pathlib import Path

import torch

SECONDS = 20
BYTES = 4 << 30  # beside what the process has mapped at its start
MOST_ELEMENTS = 1 << 20
SIZES = {"batch": 2, "heads": 2, "kv_heads": 2, "length": 5}
DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u8": torch.uint8, "bool": torch.bool,
}


def make_input(argument):
    """A tensor that fits an argument; None if it would be too large."""
    sizes = [
        SIZES.get(name, 3) if dim is None else dim
        for dim, name in zip(argument["dims"], argument["dim_names"])
    ]
    if math.prod(max(size, 1) for size in sizes) > MOST_ELEMENTS:
        return None
    dtype = DTYPES[argument["dtype"]]
    if dtype.is_floating_point:
        return (torch.rand(sizes) * 0.1).to(dtype)
    return torch.randint(0, 2, sizes).to(dtype)


def run(operators, path):
    """What comes of a file, in a word and a line."""
    image = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    try:
        handle = operators.load(image)
    except RuntimeError as error:
        return "refused", str(error)
    outcome = "ran", ""
    manifest = json.loads(bytes(operators.manifest(handle).tolist()).decode("utf-8", "replace"))
    for parameter in manifest["parameters"]:
        if math.prod(parameter["dims"]) <= MOST_ELEMENTS:
            try:
                operators.initialize(handle, parameter["name"], 1)
            except RuntimeError as error:
                outcome = "failed", str(error)
    for function in manifest["functions"]:
        inputs = [make_input(argument) for argument in function["arguments"]]
        if any(tensor is None for tensor in inputs):
            outcome = "failed", "inputs are too large for a test"
            continue
        try:
            for result in operators.run(handle, function["name"], inputs):
                result.sum() if result.numel() <= MOST_ELEMENTS else None
        except RuntimeError as error:
            outcome = "failed", str(error)
    operators.unload(handle)
    return outcome


def main():
    library, *files = sys.argv[1:]
    torch.set_num_threads(1)
    torch.ops.load_library(library)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number, file in enumerate(files):
        print(json.dumps({"begin": number}), flush=True)
        torch.manual_seed(1)
        signal.alarm(SECONDS)
        outcome, message = run(torch.ops.sextant, Path(file))
        signal.alarm(0)
        print(json.dumps({"end": number, "outcome": outcome, "message": message[:300]}), flush=True)


if __name__ == "__main__":
    main()
