"""The peers of the benchmark compute what is compared with them."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))

from inside import WORKS, Problem  # noqa: E402
from rows import inputs  # noqa: E402


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_pytorch_computes_the_same(work):
    """Outputs, and the gradients of every input and parameter: f32 sums of 64 terms."""
    shape = (2, 4, 64, 16)
    problem = Problem(work, shape, inputs(shape, torch.float32))
    problem.check()
    ours = problem.call(problem.ours)()
    torchs = problem.call(lambda: problem.torchs(work.torchs))()
    for mine, other in zip(ours, torchs, strict=True):
        size = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3 * size)
