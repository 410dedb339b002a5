"""What an author of an encoding writes first, out of habit from PyTorch or for the first
time, and what the error says to write instead; and functions known by name elsewhere."""

import re

import pytest
import torch

import sextant
from sextant import CompileError

# The body of a function of a score, and what the error says.
BODIES = [
    ("return score, 1", "the function must return a number, got 2 values"),
    ("return score + slope", r"got a vector; index a parameter of one dim: slope\[at.head\]"),
    ("return score - min(abs(at.offset), 8)", "sextant.minimum and sextant.maximum"),
    ("return score + at.query_dot(tables[at.head, at.offset])",
     r'a part for each head is one of \("heads \* head_dim", 40\): tables\[:, i\]'),
    ("return sextant.log2(score)", r"write sextant.log\(x\) / math.log\(2\)"),
    ("return sextant.erf(score)", "module 'sextant' has no attribute 'erf'$"),
    ("return sextant.sigmoyd(score)", 'did you mean "sigmoid"'),
    ("return score.softplus()", r"write sextant.softplus\(x\)"),
]


@pytest.mark.parametrize("body, message", BODIES, ids=[body for body, _ in BODIES])
def test_errors_teach(body, message):
    source = (
        'def mine(score, at, slope: sextant.PerHead, tables: sextant.Param("heads", 40, "head_dim")):\n'
        f"    {body}\n"
    )
    scope = {"sextant": sextant}
    exec(compile(source, __file__, "exec"), scope)
    with pytest.raises((CompileError, AttributeError), match=message):
        sextant.encoding(scope["mine"])


def test_row_maps_say_what_they_got():
    def nothing(x, y, at):
        x * 2

    def one(x, y, at):
        return x * 2

    for function, got in ((nothing, "nothing"), (one, "a number")):
        with pytest.raises(CompileError, match=f"half groups returns 2 values, got {got}"):
            sextant.rows(of="query")(function)


def test_lists_of_uses():
    rows = torch.randn(3, 1, 1, 4, 16)

    def mine(score, at):
        return score

    with pytest.raises(TypeError, match="got list; a list of uses holds no lists"):
        sextant.attention(*rows, [["causal"], "rope"])
    with pytest.raises(TypeError, match=r"got function; put @sextant.encoding .* before mine"):
        sextant.attention(*rows, [mine])
    with pytest.raises(TypeError, match=re.escape("times that are none are read as a parameter")):
        times = torch.rand(4)
        sextant.attention(*rows, ["rope"], query_positions=times, key_positions=times)


@sextant.encoding
def soft(score, at):
    return -sextant.softplus(40.0 * score)


def test_softplus():
    """log(1 + exp(x)), with no exponential that overflows, smooth at 0."""
    q, k, v = (torch.randn(1, 1, 5, 16, dtype=torch.float64, requires_grad=True) for _ in range(3))
    with torch.no_grad():
        q[..., 0, :] = 0
    want = torch.softmax(-torch.nn.functional.softplus(40 * (q @ k.mT) / 4, threshold=1e3), -1) @ v
    got = sextant.attention(q, k, v, [soft], target="reference")
    torch.testing.assert_close(got, want)
    for a, b in zip(*(torch.autograd.grad(out.square().sum(), (q, k, v)) for out in (got, want))):
        torch.testing.assert_close(a, b)
