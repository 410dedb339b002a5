"""The peers of the benchmark compute what is compared with them."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))

from gathers import ENCODINGS, Embedding  # noqa: E402
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


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_embeddings_with_positions_are_the_same(encoding):
    """Rows, fused and not, and the gradients of the tables: sums of 3 terms in f32."""
    embedding = Embedding(encoding, batch=3, length=10, width=12, vocabulary=20)
    want = embedding.torchs()
    (fused,) = embedding.run(embedding.fused, "forward")
    mapped, rows = embedding.run(embedding.separate, "forward")
    torch.testing.assert_close(fused, want, rtol=1e-6, atol=1e-6)
    assert torch.equal(fused, mapped)
    assert torch.equal(rows, embedding.table[embedding.tokens])
    for program in (embedding.fused, embedding.separate):
        *_, tokens, positions = embedding.run(program, "gradients")
        for mine, other in zip((tokens, positions), embedding.torch_gradients()):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)
