#!/usr/bin/env python3
"""Holds the kernels of a kit to C7 on a GPU and on the CPU beside it.

    check.py [--device cuda|cpu] [--match TEXT...] [--repeat N] [--jobs N] [--seed N]
             [--sanitize]

Each case is compared with the definition in float64 on inputs drawn by the seed, and runs
`--repeat` times on the same inputs, which must give the same bits, but for those whose
sums are `unordered`. Kernels of the CPU run
beside those of the GPU: where they fail as well, it is not the GPU. Two training steps of
a whole program are compared with the same ones on the CPU; on a GPU a step is also
replayed as a CUDA graph, if one can capture it, and called on another stream. `--sanitize` runs a
few cases again under NVIDIA's compute-sanitizer (memcheck, racecheck, initcheck).
`--device cpu` needs no GPU: it runs the kernels of the CPU, and those of the emulator
in a kit for it. `--match` takes words of a line (`t5_bias bf16`, `grouped`). A kernel that
faults, or does not end, ends a process of its own. The last line is `N passed, N failed`.
"""

import argparse
import collections
import concurrent.futures
import io
import lzma
import multiprocessing
import queue
import shutil
import subprocess
import sys
import threading
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import programs
from contract_inputs import Rule
from kernel_cases import KINDS

DTYPES = {
    "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64
}  # fmt: skip
TOOLS = ("memcheck", "racecheck", "initcheck")
SANITIZED = [
    f"{case} cuda" for case in ("alibi f32", "t5_bias f32", "fire bf16", "cope f32", "dape f32", "expe f32")
]
# How long the cases of an encoding may take before a kernel is taken for one that hangs.
SECONDS = 600


def differing(kernel, inputs, repeat):
    """The first result with other bits in another run."""
    first = kernel.results(inputs)
    for _ in range(repeat - 1):
        for name, got in kernel.results(inputs).items():
            if not torch.equal(got.nan_to_num(), first[name].nan_to_num()):
                return [f"{name}: other bits in another run"]
    return []


def wrong_of(kernel, reference, inputs, given, dtype, options):
    """What is wrong with a kernel on some inputs; `given` is what its file says of it."""
    torch.manual_seed(options.seed)  # of inputs beside these, see numeric_contract.py
    rule = Rule(DTYPES[dtype], DTYPES[given["products"]], given["roundings"])
    comparison = kernel.hold(inputs, reference, rule)
    repeat = options.repeat if given["is_ordered"] else 1
    return comparison.violations() + differing(kernel, inputs.cast(rule.dtype), repeat)


def check_file(path, options):
    """Lines for each case of an encoding on each of its kernels, or for each check of a
    program: a list of what is wrong, or why it was not run;
    then whether the GPU is still of use to this process."""
    torch.set_num_threads(1)
    torch.ops.load_library(str(HERE / "libsextant_torch.so"))
    file = torch.load(io.BytesIO(lzma.decompress(path.read_bytes())), weights_only=True)
    name = path.name.removesuffix(".pt.xz")
    check = check_program if file["kind"] == "program" else check_kernels
    return check(name, file, options)


def check_program(name, file, options):
    """As `check_file`, of training steps."""
    lines, is_lost = [], False
    for target in file["programs"]:
        is_gpu = target.startswith("cuda:")
        labels = {c: f"{name} f32 {c} {target}" for c in programs.CHECKS}
        wanted = [c for c, label in labels.items() if matches(label, options.match)]
        if target == file["host"] or not wanted:
            continue
        steps = None
        for what in wanted:
            why = programs.obstacle(file, what, target, options.device)
            if why:
                lines.append((labels[what], why))
                continue
            try:
                device = options.device if is_gpu else "cpu"
                steps = steps or programs.Steps(file, target, device, options.seed)
                wrong = getattr(steps, what)(options.repeat)
            except RuntimeError as failure:
                wrong, is_lost = [str(failure).splitlines()[0]], is_lost or is_gpu
            lines.append((labels[what], wrong))
        if steps and not is_lost:
            steps.close()
    return lines, is_lost


def check_kernels(name, file, options):
    """As `check_file`, of attentions and row maps."""
    kind, trained = KINDS[file["kind"]], file["trained"]
    images = {DTYPES[name]: image for name, image in file["reference"].items()}
    reference = kind(images, trained, "cpu")
    lines, is_lost = [], False
    for dtype, kernels in file["kernels"].items():
        for target, given in kernels.items():
            is_gpu = target.startswith("cuda:")
            if is_gpu and options.device == "cpu":
                continue
            for case in file["cases"]:
                label = f"{name} {dtype} {case['shape']['label']} {target}"
                if not matches(label, options.match):
                    continue
                try:
                    device = options.device if is_gpu else "cpu"
                    kernel = kind({DTYPES[dtype]: given["image"]}, trained, device)
                    inputs = kind.inputs_of(case, DTYPES[dtype], options.seed)
                    wrong = wrong_of(kernel, reference, inputs, given, dtype, options)
                    kernel.close()
                except RuntimeError as failure:
                    wrong, is_lost = [str(failure).splitlines()[0]], is_lost or is_gpu
                lines.append((label, wrong))
    return lines, is_lost


def matches(label, texts):
    """Whether all words of one of the texts are words of a label, where `cuda` stands for
    any GPU; of no texts, all are."""
    words = {part for word in label.split() for part in (word, word.partition(":")[0])}
    return not texts or any(set(text.split()) <= words for text in texts)


class Workers:
    """One process at a time, another one after a fault."""

    def __init__(self):
        self.pool = None

    def call(self, function, *arguments):
        """What a function gives in the process; an error if it dies or does not end."""
        if self.pool is None:
            context = multiprocessing.get_context("spawn")
            self.pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=context)
        try:
            return self.pool.submit(function, *arguments).result(timeout=SECONDS)
        except BrokenProcessPool:
            self.leave()
            raise RuntimeError("the process died") from None
        except TimeoutError:
            self.leave()
            raise RuntimeError(f"not done after {SECONDS} s") from None

    def leave(self):
        if self.pool is not None:
            for process in self.pool._processes.values():
                process.kill()
            self.pool.shutdown(wait=False)
        self.pool = None


def check_some(paths, options):
    """Takes files from a queue until there are none; yields the lines of each."""
    workers = Workers()
    while True:
        try:
            path = paths.get_nowait()
        except queue.Empty:
            break
        try:
            lines, is_lost = workers.call(check_file, path, options)
        except RuntimeError as failure:
            lines, is_lost = [(path.name.removesuffix(".pt.xz"), [str(failure)])], False
        if is_lost:
            workers.leave()
        yield lines
    workers.leave()


def check(paths, options):
    """Prints a line for each case, in the order in which files end; how many passed and
    failed."""
    counts = collections.Counter()
    waiting = queue.SimpleQueue()
    if options.jobs > 1:  # what takes longest starts first
        paths = sorted(paths, key=lambda path: -path.stat().st_size)
    for path in paths:
        waiting.put(path)
    lock = threading.Lock()

    def work():
        for lines in check_some(waiting, options):
            with lock:
                counts.update(print_line(*line) for line in lines)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as threads:
        for done in [threads.submit(work) for _ in range(options.jobs)]:
            done.result()
    return counts["passed"], counts["failed"]


def print_line(label, wrong):
    """What has become of a case."""
    if isinstance(wrong, str):
        print(f"{label}: skipped, {wrong}", flush=True)
        return "skipped"
    print(f"{label}: {'; '.join(wrong) or 'right'}", flush=True)
    return "failed" if wrong else "passed"


def sanitize(device):
    """Runs a few cases under each tool; what failed."""
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(program).exists():
        print("compute-sanitizer is not installed: it comes with NVIDIA's CUDA toolkit")
        return list(TOOLS)
    failed = []
    for tool in TOOLS:
        command = [program, "--tool", tool, "--error-exitcode", "9"]
        command += ["--target-processes", "all", sys.executable, __file__]
        command += ["--device", device, "--repeat", "1", "--match", *SANITIZED]
        done = subprocess.run(command, capture_output=True, text=True)
        print(f"{tool}: {'no errors' if done.returncode == 0 else done.stdout[-2000:]}", flush=True)
        if done.returncode:
            failed.append(tool)
    return failed


def describe(device, script):
    """What kernels run on; an error that says why they cannot."""
    if device == "cpu":
        return "this processor"
    if not torch.cuda.is_available():
        built = "finds no GPU" if torch.version.cuda else "is built without CUDA"
        raise SystemExit(
            f"{script}: PyTorch {torch.__version__} {built}: install NVIDIA's driver and a "
            "PyTorch with CUDA, or give --device cpu for the kernels that need none"
        )
    return torch.cuda.get_device_name(device)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="The last line is `N passed, N failed`; the exit status is 1 if any failed.",
    )
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 ..., or cpu (cuda)")
    parser.add_argument(
        "--match", nargs="+", default=[], metavar="TEXT", help="words of a line, such as 'fire bf16'"
    )
    parser.add_argument("--repeat", type=int, default=100, help="runs of each case (100)")
    parser.add_argument(
        "--jobs", type=int, default=1, help="processes that check files side by side (1)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (0)")
    parser.add_argument("--sanitize", action="store_true", help="also under compute-sanitizer")
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: at least 1")
    name = describe(options.device, "check.py")
    print(f"{name}, PyTorch {torch.__version__}, seed {options.seed}")
    paths = [p for part in ("cases", "programs") for p in sorted((HERE / part).glob("*.pt.xz"))]
    passed, failed = check(paths, options)
    if options.sanitize:
        faults = sanitize(options.device)
        failed += len(faults)
        passed += len(TOOLS) - len(faults)
    if not passed + failed:
        print(f"no case has the words {' or '.join(map(repr, options.match))}", file=sys.stderr)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
