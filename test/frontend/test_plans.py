"""Compiled plans: which are kept, when they are made again, and forks."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")

from sextant import backend, plans

TILT = """
pos.encoding @tilt {{
  pos.score {{
  ^bb0(%s: f32):
    %c = arith.constant {slope} : f32
    %o = pos.offset
    %d = arith.sitofp %o : i32 to f32
    %b = arith.mulf %c, %d : f32
    %t = arith.addf %s, %b : f32
    pos.yield %t : f32
  }}
}}
"""


def attend(q, *encodings):
    return sextant.attention(q, q, q, list(encodings), target="reference")


@pytest.fixture
def q():
    return torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of definitions on the search path, behind that of the user."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path / "mine"))
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def write_tilt(folder, slope):
    """A definition of another slope with as many bytes; its time is set, since two
    writes may fall into one tick of the file system's clock."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tilt.mlir"
    path.write_text(TILT.format(slope=f"{slope:.2f}"))
    os.utime(path, ns=(write_tilt.clock, write_tilt.clock))
    write_tilt.clock += 1_000_000


write_tilt.clock = time.time_ns()


def expected(q, slope):
    offset = torch.arange(5) - torch.arange(5)[:, None]
    scores = q @ q.mT / 8**0.5 + slope * offset
    return scores.softmax(-1) @ q


def test_another_target_of_the_environment_counts(q, monkeypatch):
    """A plan of what "cpu" was is not one of what it is."""
    monkeypatch.delenv("SEXTANT_TARGET", raising=False)
    sextant.attention(q, q, q, ["causal"])
    count = plans.compile_count()
    monkeypatch.setenv("SEXTANT_TARGET", "cpu:avx2")
    for _ in range(2):
        sextant.attention(q, q, q, ["causal"])
        assert plans.compile_count() == count + 1


def test_an_edited_definition_counts(q, folder):
    # Rounding of f32; a slope that is not the one asked for is 0.1 away.
    close = dict(atol=1e-5, rtol=1e-5)
    write_tilt(folder, 0.25)
    torch.testing.assert_close(attend(q, "tilt"), expected(q, 0.25), **close)
    count = plans.compile_count()
    attend(q, "tilt")
    assert plans.compile_count() == count
    write_tilt(folder, 0.75)
    torch.testing.assert_close(attend(q, "tilt"), expected(q, 0.75), **close)
    # A file that comes earlier on the path hides it, and goes again.
    earlier = folder.parent / "data" / "sextant" / "encodings"
    write_tilt(earlier, -0.5)
    torch.testing.assert_close(attend(q, "tilt"), expected(q, -0.5), **close)
    (earlier / "tilt.mlir").unlink()
    torch.testing.assert_close(attend(q, "tilt"), expected(q, 0.75), **close)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_a_backward_has_the_definition_of_its_forward(q, folder, target):
    """Though it was edited in between."""
    write_tilt(folder, 0.25)
    q.requires_grad_()
    (want,) = torch.autograd.grad(expected(q, 0.25).square().sum(), q)
    out = sextant.attention(q, q, q, ["tilt"], target=target)
    write_tilt(folder, 0.75)
    (grad,) = torch.autograd.grad(out.square().sum(), q)
    torch.testing.assert_close(grad, want, atol=1e-5, rtol=1e-5)  # roundings of f32


def count_mappings():
    return len(Path("/proc/self/maps").read_text().splitlines())


def test_the_least_recently_used_plan_goes(q, monkeypatch):
    monkeypatch.setattr(plans, "MOST_PLANS", 2)
    windows = [f"window(size={n})" for n in (2, 3, 4)]
    results = [attend(q, w) for w in windows]
    assert len(plans._plans) == 2
    count = plans.compile_count()
    attend(q, windows[1])  # the last but one: still there, and now the last
    assert plans.compile_count() == count
    for window, result in zip(windows, results):  # the first was dropped
        assert torch.equal(attend(q, window), result)
    assert plans.compile_count() > count


def test_steps_of_decoding_have_a_forward_alone():
    """Also behind a training, whose program has no products of few queries."""
    query, key = torch.randn(1, 2, 1, 8), torch.randn(1, 2, 40, 8)

    def attend(query):
        return sextant.attention(query, key, key, ["window(size=29)"])

    trained = attend(query.clone().requires_grad_())
    trained.sum().backward()
    count = plans.compile_count()
    many = attend(torch.randn(1, 2, 30, 8))
    assert plans.compile_count() == count and not many.requires_grad
    torch.testing.assert_close(attend(query), trained.detach())
    assert plans.compile_count() == count + 1
    assert not list(plans._plans.values())[-1].both
    attend(query)
    attend(torch.randn(1, 2, 16, 8))
    assert plans.compile_count() == count + 1


def test_hundreds_of_programs(q):
    """A loaded program holds no descriptor, and unloading gives its mappings back."""
    data = backend.compiler().compile(
        """
func.func @f(%q: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [] : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>,
    (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}""", "reference", "", "artifact", "<test>")
    expected = backend.Artifact(data).run("f", [q])[0]
    descriptors, mappings = len(os.listdir("/proc/self/fd")), count_mappings()
    programs = [backend.Artifact(data) for _ in range(300)]
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1
    assert count_mappings() >= mappings + 300  # each has its own code
    for program in programs:
        assert torch.equal(program.run("f", [q])[0], expected)
    programs.clear()
    del program
    assert count_mappings() < mappings + 100


def test_fork_while_a_thread_compiles(q):
    """Children compile, load and run, whatever the parent's threads hold."""
    stop = threading.Event()

    def work():
        number = 10
        while not stop.is_set():
            attend(q, f"window(size={number})")
            number += 1

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for attempt in range(8):
            child = os.fork()
            if child == 0:
                try:
                    attend(q, f"window(size={1000 + attempt})")
                    os._exit(0)
                finally:
                    os._exit(1)
            assert wait_for(child, 60) == 0, f"child {attempt} hangs or fails"
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def wait_for(child, seconds):
    """The exit code of a process; it is killed when it takes longer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def test_rows_of_f32_from_a_length_on_have_a_plan_of_their_own(monkeypatch):
    """Where tiles multiply them; elsewhere, and with a target that is named, one plan
    serves all lengths. The last ten queries of both lengths see the same keys."""
    draw = torch.Generator().manual_seed(1)
    rows = torch.randn(1, 1, 1024, 8, generator=draw)

    def attend_both(**given):
        """How many plans two lengths take, and how far the last rows are apart."""
        before = plans.compile_count()
        mask = ["causal", "window(size=10)"]
        long, short = (
            sextant.attention(q, q, q, mask, **given)[..., -10:, :] for q in (rows, rows[..., 1:, :])
        )
        torch.testing.assert_close(long, short, rtol=1e-5, atol=1e-5)
        return plans.compile_count() - before

    has_two = backend.compiler().least_long_rows() == 1024
    assert not has_two or "cpu:amx" in backend.compiler().list_targets()
    assert attend_both() == 1 + has_two
    assert attend_both() == 0
    assert attend_both(target="cpu:avx2") == 1
    monkeypatch.setenv("SEXTANT_TARGET", "cpu:avx2")
    assert backend.compiler().least_long_rows() > 2**60
    assert attend_both() == 1
