#!/usr/bin/env python3
"""Runs the cases of a kit on a GPU and holds each result to what the kit allows.

    check.py [--device cuda|cpu] [--match TEXT...] [--repeat N] [--sanitize]

Each case runs `--repeat` times, and all runs must give the same bits. `--sanitize` runs
a few cases again under NVIDIA's compute-sanitizer (memcheck, racecheck, initcheck).
`--device cpu` is for kits of the emulator. The last line is `N passed, N failed`.
"""

import argparse
import io
import lzma
import shutil
import subprocess
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from numeric_contract import error

TOOLS = ("memcheck", "racecheck", "initcheck")
SANITIZED = ("alibi-f32", "t5_bias-f32", "fire-bf16", "cope-f32", "dape-f32")


def run_case(case, handle, operands):
    """Results of forward and backward, in order."""
    run = torch.ops.sextant.run
    forward = run(handle, "forward", operands["forward"])
    for place, result in case["from_forward"].items():
        operands["backward"][place] = forward[result]
    return {"forward": forward, "backward": run(handle, "backward", operands["backward"])}


def differences(case, results):
    """What is farther from float64 than allowed."""
    found = []
    for function, wanted in case["expected"].items():
        for (name, exact, allowed), got in zip(wanted, results[function]):
            off = float(error(got.cpu(), exact))
            if not off <= allowed:
                found.append(f"{name}: {off:.3g} > {allowed:.3g}")
    return found


def check(case, handle, device, repeat):
    """What is wrong with a case."""
    operands = {
        function: [t.to(device) for t in tensors]
        for function, tensors in case["operands"].items()
    }
    first = run_case(case, handle, operands)
    wrong = differences(case, first)
    for _ in range(repeat - 1):
        for function, results in run_case(case, handle, operands).items():
            for number, (a, b) in enumerate(zip(results, first[function])):
                if not torch.equal(a.nan_to_num(), b.nan_to_num()):
                    return [*wrong, f"{function}, result {number}: other bits in another run"]
    return wrong


def check_file(path, device, repeat):
    """Prints a line for each case of a compiled attention; how many passed and failed."""
    file = torch.load(io.BytesIO(lzma.decompress(path.read_bytes())), weights_only=True)
    passed = failed = 0
    for case in file["cases"]:
        try:
            handle = int(torch.ops.sextant.load(file["artifact"]))
            wrong = check(case, handle, device, repeat)
            torch.ops.sextant.unload(handle)
        except RuntimeError as failure:
            wrong = [str(failure).splitlines()[0]]
        failed += bool(wrong)
        passed += not wrong
        label = f"{path.name.removesuffix('.pt.xz')} {case['shape']}"
        print(f"{label}: {'; '.join(wrong) or 'right'}", flush=True)
    return passed, failed


def sanitize(device):
    """Runs a few cases under each tool; what failed."""
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(program).exists():
        return ["compute-sanitizer is not installed"]
    failed = []
    for tool in TOOLS:
        command = [program, "--tool", tool, "--error-exitcode", "9", sys.executable, __file__]
        command += ["--device", device, "--repeat", "1", "--match", *SANITIZED]
        done = subprocess.run(command, capture_output=True, text=True)
        print(f"{tool}: {'no errors' if done.returncode == 0 else done.stdout[-2000:]}", flush=True)
        if done.returncode:
            failed.append(tool)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--match", nargs="+", default=[], metavar="TEXT")
    parser.add_argument("--repeat", type=int, default=100)
    parser.add_argument("--sanitize", action="store_true")
    options = parser.parse_args()
    torch.ops.load_library(str(HERE / "libsextant_torch.so"))
    name = torch.cuda.get_device_name() if options.device.startswith("cuda") else "this processor"
    print(f"{name}, PyTorch {torch.__version__}")
    paths = sorted((HERE / "cases").glob("*.pt.xz"))
    if options.match:
        paths = [p for p in paths if any(text in p.name for text in options.match)]
    passed = failed = 0
    for path in paths:
        right, wrong = check_file(path, options.device, options.repeat)
        passed, failed = passed + right, failed + wrong
    if options.sanitize:
        faults = sanitize(options.device)
        failed += len(faults)
        passed += max(len(TOOLS) - len(faults), 0)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
