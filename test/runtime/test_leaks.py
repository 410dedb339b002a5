"""Calls of torch.ops.sextant give back what they take: bytes in use, counted by
the C library, do not grow with their number."""

import ctypes
import gc
import statistics

import pytest

torch = pytest.importorskip("torch")

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS.split()]


# A list of them, whose words LibTorch deletes.
OPTIONAL_TENSORS = """
func.func @f(%w: tensor<?x2xf32>, %i: tensor<?xi64>, %x: tensor<?x2xf32>) {
  exec.dense "aten::_index_put_impl_"(%w, %i, %x : tensor<?x2xf32>, tensor<?xi64>, tensor<?x2xf32>)
    arguments [#exec.tensor<0>, #exec.tensors<[1]>, #exec.tensor<2>, true]
  return
}
"""


@pytest.fixture(scope="module")
def bytes_in_use():
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("the C library counts no bytes (mallinfo2)")
    libc.mallinfo2.restype = Mallinfo

    def count():
        gc.collect()
        info = libc.mallinfo2()
        return info.uordblks + info.hblkhd

    return count


@pytest.fixture(scope="module")
def calls(load_artifact, load, scale, ops):
    program = load_artifact(scale)
    dense = load(OPTIONAL_TENSORS)
    table, rows, indices = torch.zeros(5, 2), torch.ones(3, 2), torch.tensor([0, 4, 0])
    image = torch.frombuffer(bytearray(scale), dtype=torch.uint8)
    inputs = [torch.ones(2, 3), torch.ones(3)]

    def fail():
        try:
            ops.run(program.handle, "triple", inputs)
        except RuntimeError:
            return
        raise AssertionError("there is no such function")

    return {
        "run": lambda: ops.run(program.handle, "double", inputs),
        "dense": lambda: dense("f", table, indices, rows),
        "fail": fail,
        "profile": lambda: ops.profile(program.handle, "double", inputs),
        "manifest": lambda: ops.manifest(program.handle),
        "changed": lambda: ops.changed(program.handle, "double", inputs[0]),
        "operators": ops.operators,
        "initialize": lambda: ops.initialize(program.handle, "w", 1),
        "sample": lambda: ops.sample("normal", 0.0, 1.0, [3], "name", 1),
        "load": lambda: ops.unload(ops.load(image)),
    }


@pytest.mark.parametrize(
    "name",
    ["run", "dense", "fail", "profile", "manifest", "changed", "operators", "initialize", "sample", "load"],
)
def test_no_bytes_are_lost(calls, bytes_in_use, name):
    call, count = calls[name], 100
    for _ in range(50):
        call()
    growth = []
    for _ in range(5):
        before = bytes_in_use()
        for _ in range(count):
            call()
        growth.append((bytes_in_use() - before) / count)
    # The smallest allocation is 24 bytes. Every round grows by what each call
    # loses; by what is made once, or by another thread, a round or two.
    assert statistics.median(growth) < 12, growth
