"""A kit for machines with a GPU: built here, run as it is run there."""

import contextlib
import io
import json
import lzma
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import check
import gpt_programs
import gpu_bench
import kit as packer
import peers
from draws import normal
from timings import timings_of
from torch.nn.attention import SDPBackend

# What a kit may take, all encodings with the runtime (the way to such a machine may be slow).
MOST_BYTES = 30 * 2**20
# Of a model's programs, with room: 0.3 MiB are the most that they take.
PROGRAM_BYTES = 2**19
# One encoding with a table and its gradient, and plain attention.
MATCH = ["--match", "t5_bias", "causal"]


def pack(*words):
    """Makes a kit; the lines that this prints. The packer notes what is compiled, which
    this process may have done before."""
    done = subprocess.run(
        [sys.executable, HERE / "kit.py", *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def interrupt(command, path):
    """Interrupts a command when a file has appeared. Tests that a shell began in the
    background ignore interruptions, which a process inherits: this one shall not."""
    process = subprocess.Popen(
        [sys.executable, *map(str, command)], stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    end = time.monotonic() + 300
    while not path.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=300)[1]
    assert process.returncode == 130, errors
    return errors


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    """A kit for the emulator, moved to another folder; the first call was interrupted."""
    made = tmp_path_factory.mktemp("made") / "gpu-kit"
    words = ["--target", packer.EMULATOR, "--output", made, "--dtype", "f32", *MATCH]
    first = made / "cases" / "causal.pt.xz"
    assert "the same command goes on" in interrupt([HERE / "kit.py", *words], first)
    before = first.stat().st_mtime_ns
    lines = pack(*words)
    assert lines[-1].startswith("2 encodings for cuda-emulated:sm_80, ")
    assert first.stat().st_mtime_ns == before
    assert not list(made.rglob("*.begun"))
    there = tmp_path_factory.mktemp("there") / "carried"
    shutil.move(made, there)
    return there


def test_a_kit_checks_its_cases(kit, run_there):
    lines, _ = run_there(kit, "check.py", "--device", "cpu", "--repeat", 2, "--jobs", 2)
    assert len([line for line in lines if line.endswith("cpu:avx2: right")]) == 4
    assert len([line for line in lines if line.endswith("cuda-emulated:sm_80: right")]) == 4
    assert lines[-1] == "8 passed, 0 failed"


def load(path):
    return torch.load(io.BytesIO(lzma.decompress(path.read_bytes())), weights_only=True)


@pytest.fixture
def wrong_kit(kit, tmp_path):
    """A kit whose causal attention is held to the definition of a window of 256 keys."""
    folder = tmp_path / "wrong"
    shutil.copytree(kit, folder)
    case = packer.cases_of("window")[0]
    with packer.Recorder() as recorder:
        window = packer.literal(case.uses, packer.make_inputs(case, seed=1), recorder)
    path = folder / "cases" / "causal.pt.xz"
    packer.save(load(path) | {"reference": window}, path)
    return folder


ROWS = ("expe", "exqpe", "learned", "sinusoidal")


@pytest.fixture(scope="module")
def rows_kit(tmp_path_factory):
    """Encodings of rows outside of attention, and one of them that is held to the
    definition of another wave length."""
    folder = tmp_path_factory.mktemp("rows") / "gpu-kit"
    packer.prepare(folder, "rows")
    made = {n: packer.maker_of(n)(n, ["f32", "bf16"], packer.EMULATOR) for n in ROWS}
    other = packer.make_rows_file("sinusoidal(base=100.0)", [], packer.EMULATOR)
    made["wrong"] = made["sinusoidal"] | {"reference": other["reference"]}
    for name, file in made.items():
        packer.save(file, folder / "cases" / f"{name}.pt.xz")
    return folder


def test_rows_outside_of_attention_are_checked(rows_kit, run_there):
    words = ["--match", "short bf16", "long f32"]
    lines, _ = run_there(rows_kit, "check.py", "--device", "cpu", "--repeat", 2, *words, code=1)
    *lines, last = lines[1:]
    targets = "cpu:avx2", packer.EMULATOR
    cases = [f"{shape} {t}" for shape in ("f32 long", "bf16 short") for t in targets]
    assert lines[:-4] == [f"{name} {case}: right" for name in ROWS for case in cases]
    for line, case in zip(lines[-4:], cases):
        assert line.startswith(f"wrong {case}: rows: ")
        assert "d rows" not in line  # the gradient of a sum
    assert last == "16 passed, 4 failed"


def test_a_wrong_result_is_named(wrong_kit, run_there):
    """Of 130 keys the window sees all, of 300 it does not."""
    command = ["check.py", "--device", "cpu", "--repeat", 1, "--match", "causal cpu"]
    lines, _ = run_there(wrong_kit, *command, code=1)
    assert lines[1] == "causal f32 tiles cpu:avx2: right"
    assert lines[2].startswith("causal f32 grouped cpu:avx2: output: ")
    assert lines[3:] == ["1 passed, 1 failed"]


def test_a_process_that_dies_is_named(kit, tmp_path, run_there):
    """The rest of the kit is checked in another process."""
    folder = tmp_path / "dying"
    shutil.copytree(kit, folder)
    script = folder / "check.py"
    text = script.read_text()
    begin = "    torch.set_num_threads(1)\n"
    assert begin in text
    dying = '    if "causal" in path.name: __import__("os").abort()\n'
    script.write_text(text.replace(begin, dying + begin))
    lines, _ = run_there(folder, "check.py", "--device", "cpu", "--repeat", 1, code=1)
    assert lines[1] == "causal: the process died"
    assert lines[-1] == "4 passed, 1 failed"


def test_words_choose_cases(kit, run_there):
    lines, _ = run_there(
        kit, "check.py", "--device", "cpu", "--repeat", 1, "--match", "t5_bias grouped cpu"
    )
    assert lines[1:] == ["t5_bias f32 grouped cpu:avx2: right", "1 passed, 0 failed"]


def test_words_without_a_case_are_named(kit, run_there):
    lines, errors = run_there(kit, "check.py", "--device", "cpu", "--match", "soup", code=1)
    assert errors == ["no case has the words 'soup'"]
    assert lines[-1] == "0 passed, 0 failed"


# Notes what it is to run, a line for each call, and finds a race.
SANITIZER = """#!/bin/sh
echo "$@" >> "$0.calls"
[ $2 != racecheck ] || { echo a hazard was found; exit 9; }
"""


# Where a machine has it, whatever its PATH says.
INSTALLED = "/usr/local/cuda/bin/compute-sanitizer"


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder with all programs that the machine has."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_cases_run_under_the_sanitizer(programs, capsys):
    program = programs / "compute-sanitizer"
    program.write_text(SANITIZER)
    program.chmod(0o755)
    assert check.sanitize("cuda:1") == ["racecheck"]
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "memcheck: no errors",
        "racecheck: a hazard was found",
        "",
        "initcheck: no errors",
    ]
    flags = "--error-exitcode 9 --target-processes all"
    script = f"{sys.executable} {HERE}/check.py --device cuda:1 --repeat 1 --match"
    assert Path(f"{program}.calls").read_text().splitlines() == [
        f"--tool {tool} {flags} {script} {' '.join(check.SANITIZED)}" for tool in check.TOOLS
    ]
    # Each is one of a kit.
    for words in check.SANITIZED:
        name, dtype, device = words.split()
        assert name in packer.encodings([]) and dtype in packer.DTYPES and device == "cuda"


@pytest.mark.skipif(Path(INSTALLED).exists(), reason="this machine has compute-sanitizer")
def test_without_the_sanitizer_its_checks_fail(kit, programs, run_there):
    case = ["--device", "cpu", "--repeat", 1, "--match", "causal tiles cpu"]
    lines, _ = run_there(kit, "check.py", *case, "--sanitize", code=1)
    assert lines[2].startswith("compute-sanitizer is not installed: ")
    assert lines[3:] == ["1 passed, 3 failed"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--target", "cuda:sm_70"], "unknown target 'cuda:sm_70', expected one of"),
        (["--match", "soup", "stew"], "no encoding, work or program has soup or stew in its name"),
    ],
)
def test_nothing_is_packed_for_what_is_unknown(arguments, message, tmp_path, capsys):
    words = ["kit.py", "--output", str(tmp_path / "kit"), *arguments]
    with mock.patch.object(sys, "argv", words), pytest.raises(SystemExit, match="2"):
        packer.main()
    assert message in capsys.readouterr().err
    assert not (tmp_path / "kit").exists()


@pytest.fixture(scope="module")
def gpu_kit(tmp_path_factory):
    """What goes to a machine with a GPU."""
    folder = tmp_path_factory.mktemp("gpu") / "gpu-kit"
    pack("--output", folder, "--match", "t5_bias", "--dtype", "f32")
    return folder


def test_a_kit_of_all_encodings_is_small(gpu_kit):
    """The runtime, and for each encoding and work half more than this one takes: of all
    encodings the mean was a tenth more. In the file of one, bf16 and f16 take less than half
    of f32 each, since only f32 has kernels of warps."""
    case = (gpu_kit / "cases" / "t5_bias.pt.xz").stat().st_size
    work = (gpu_kit / "works" / "t5_bias-f32.pt.xz").stat().st_size
    rest = sum(path.stat().st_size for path in gpu_kit.iterdir() if path.is_file())
    attentions = len(packer.encodings([])) * case * (1 + (len(packer.DTYPES) - 1) / 2)
    attentions += sum(len(timed.dtypes) for timed in packer.WORKS.values()) * work
    rest += (len(gpt_programs.PROGRAMS) + len(gpt_programs.TRAININGS)) * PROGRAM_BYTES
    assert 1.5 * attentions + rest < MOST_BYTES, (case, work, rest)


def test_a_kit_of_a_gpu_compares_the_cpu_without_one(gpu_kit, run_there):
    lines, _ = run_there(gpu_kit, "check.py", "--device", "cpu", "--repeat", 2)
    assert lines[-1] == "2 passed, 0 failed"
    assert all(line.endswith(" cpu:avx2: right") for line in lines[1:-1])


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("script", ["check.py", "gpu_bench.py"])
def test_without_a_gpu_the_cure_is_named(gpu_kit, script, run_there):
    _, errors = run_there(gpu_kit, script, code=1)
    assert len(errors) == 1
    assert errors[0].startswith(f"{script}: PyTorch {torch.__version__} ")
    assert "give --device cpu" in errors[0]


SMALL = ["--tokens", 20, "--length", 20, "--rounds", 1, "--sequences", 2, "--cached", 70]


@pytest.fixture(scope="module")
def works_kit(tmp_path_factory):
    """Works in bf16 and f16 for the emulator, of every peer that a GPU has."""
    folder = tmp_path_factory.mktemp("works") / "gpu-kit"
    packer.prepare(folder, "works")
    chosen = [(n, "bf16") for n in ("plain", "causal", "causal-unordered", "fire", "rope")]
    for name, dtype in [*chosen, ("causal", "f16")]:
        work = packer.make_work(packer.WORKS[name], dtype, packer.EMULATOR)
        packer.save(work, folder / "works" / f"{name}-{dtype}.pt.xz")
    return folder


def cells_of(lines, *places):
    rows = [[cell.strip() for cell in line.split("|")] for line in lines if line[:1] == "|"]
    return [tuple(row[place] for place in places) for row in rows[2:]]


def test_works_are_compared_before_they_are_timed(works_kit, tmp_path, run_there):
    lines, _ = run_there(works_kit, "gpu_bench.py", "--device", "cpu", *SMALL, "--output", tmp_path)
    rows = [(work.partition(" [")[0], *rest) for work, *rest in cells_of(lines, 1, 2, 3, 6)]
    forward, both = "forward", "forward + backward"

    def own(work, goal):
        """Beside PyTorch's own attention."""
        peers = ("flash", goal), ("cudnn", "")
        return [(work, direction, *peer) for peer in peers for direction in (forward, both)]

    assert rows == [
        *own("causal bf16", "0.95 x"),
        *own("causal f16", ""),
        *own("causal-unordered bf16", ""),
        ("fire bf16", both, "plain", ""),
        *own("plain bf16", "0.95 x"),
        ("decode bf16", forward, "sdpa", "1 x"),
        ("rope bf16", both, "plain", ""),
    ]
    (record,) = tmp_path.glob("*.json")
    recorded = json.loads(record.read_text())["rows"]
    assert [row["peer"] for row in recorded] == [r[2] for r in rows]
    # What was not timed says why.
    skipped = {row["peer"]: row["skipped"] for row in recorded if "ratio" not in row}
    assert skipped == {"cudnn": "cuDNN's attention runs on GPUs alone"}


def test_f16_and_sums_in_any_order_are_checked(works_kit, run_there):
    """CPUs have no kernels of these."""
    file = packer.make_file("causal", ["bf16", "f16"], packer.EMULATOR)
    packer.save(file, works_kit / "cases" / "causal.pt.xz")
    words = ["--match", "unordered", "f16"]
    lines, _ = run_there(works_kit, "check.py", "--device", "cpu", "--repeat", 2, *words)
    assert lines[1:] == [
        "causal bf16 tiles cuda-emulated:sm_80 unordered: right",
        "causal bf16 grouped cuda-emulated:sm_80 unordered: right",
        "causal f16 tiles cuda-emulated:sm_80: right",
        "causal f16 grouped cuda-emulated:sm_80: right",
        "4 passed, 0 failed",
    ]


def test_a_work_that_computes_something_else_is_not_timed(works_kit, tmp_path, run_there):
    folder = tmp_path / "wrong"
    shutil.copytree(works_kit, folder)
    works = folder / "works"
    shutil.copy(works / "causal-bf16.pt.xz", works / "plain-bf16.pt.xz")
    _, errors = run_there(
        folder, "gpu_bench.py", "--device", "cpu", *SMALL, "--match", "plain", code=1
    )
    assert errors[-1].startswith("plain-bf16: eager computes something else, off by ")


@pytest.mark.parametrize("peer", ["sdpa", "flash", "cudnn"])
def test_a_backend_is_asked_for_alone(peer, monkeypatch):
    asked = []

    @contextlib.contextmanager
    def note(backends):
        asked.extend(backends)
        yield

    monkeypatch.setattr(peers, "sdpa_kernel", note)
    rows = torch.randn(3, 1, 4, 6, 8)
    got = peers.sdpa("causal", peer)(*rows)
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    assert asked == [backends[peer]] if peer in backends else not asked
    torch.testing.assert_close(got, peers.eager("causal", {}, *rows))


def test_what_this_pytorch_lacks_is_named(monkeypatch):
    assert not peers.missing("flash", "cuda")
    monkeypatch.setattr(torch.backends.cudnn, "is_available", lambda: True)
    assert not peers.missing("cudnn", "cuda")
    monkeypatch.setattr(torch.backends.cudnn, "is_available", lambda: False)
    assert peers.missing("cudnn", "cuda") == f"PyTorch {torch.__version__} has no cuDNN"
    monkeypatch.setitem(peers.BACKENDS, "cudnn", "OF_ANOTHER_VERSION")
    assert peers.missing("cudnn", "cuda").endswith(" does not know cuDNN's attention")


def test_goals_of_a_gpu():
    """What is timed there at full length, and the least that is asked for."""
    timed = {
        (name, length): {
            (t.peer, t.direction, t.goal) for t in timings_of(name, "bf16", length, "cuda")
        }
        for name in ("plain-128", "rope", "fire", "kerple_log", "dape", "talking_heads")
        for length in (4096, 2048)
    }
    both = "forward + backward"
    own = {(p, d, g) for p, g in (("flash", 0.95), ("cudnn", None)) for d in ("forward", both)}
    assert timed["plain-128", 4096] == own
    assert timed["rope", 4096] == {("plain", both, 0.9)}
    assert timed["fire", 2048] == {("plain", both, 0.8), ("flex", both, 1.3)}
    assert ("eager", both, None) in timed["kerple_log", 4096]
    assert timed["dape", 4096] == {("plain", both, None), ("eager", both, None)}
    assert timed["talking_heads", 2048] == {("plain", both, None)}


def test_draws_are_the_same_everywhere():
    """Values that other versions of PyTorch must draw, too, and what they are drawn of."""
    first = normal(3, "query", (2, 2)) * 2**32
    assert first.tolist() == [[-3565553649, 1975983612], [-2886207345, 74598928]]
    many = normal(0, "key", (200_000,))
    # Five deviations of the mean and of the variance of so many.
    assert abs(many.mean()) < 5 / 200_000**0.5
    assert abs(many.var() - 1) < 5 * (2 / 200_000) ** 0.5
    assert abs(torch.corrcoef(torch.stack([many[1:], many[:-1]]))[0, 1]) < 5 / 200_000**0.5
    others = [normal(1, "key", (200_000,)), normal(0, "value", (200_000,))]
    assert (
        torch.corrcoef(torch.stack([many, *others])) - torch.eye(3)
    ).abs().max() < 5 / 200_000**0.5


@pytest.mark.parametrize("name", ["rope", *peers.BIASES, "fire"])
def test_formulas_of_peers(name):
    """What times are compared with computes the same attention, of as many heads as there
    are; the errors are of f32."""
    uses = packer.WORKS[name].uses
    shape = dict(batch=1, heads=3, kv_heads=3, query=40, key=40, before=uses[:1])
    inputs = packer.make_inputs(packer.Case(uses[1], **shape), seed=1)
    want = packer.Reference(list(uses)).forward(inputs)[0][0]
    got = peers.eager(name, inputs.params, inputs.query, inputs.key, inputs.values[0])
    torch.testing.assert_close(got, want, rtol=0, atol=1e-5 * float(want.abs().max()))


class HostEvent:
    """An event of a GPU, by the clock of the host."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 1e3 * (end.at - self.at)


def test_long_steps_are_timed_alone(monkeypatch):
    """And seldom; short ones several times together, behind two that are not counted."""
    monkeypatch.setattr(torch.cuda, "Event", HostEvent)
    monkeypatch.setattr(gpu_bench, "LONG", 0.02)
    calls = []

    def step(kind, length):
        calls.append(kind)
        time.sleep(length)

    timing = gpu_bench.Timing("eager", "forward")
    row = gpu_bench.race(
        "work", timing, lambda: step("ours", 0), lambda: step("other", 0.03), 7, "cuda"
    )
    assert row["peer"] == "eager" and row["ratio"] > 1
    warm, measured = 2, 3
    assert calls.count("other") == warm + measured
    assert calls.count("ours") == warm + measured * (2 + gpu_bench.QUEUED)
