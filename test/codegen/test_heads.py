"""Scores of all heads on the CPU, forward and backward, against float64.

Tolerances: f32 sums of a few hundred terms of size one, relative to the largest
element; lse and the gradients of parameters are sums over all scores. Of bf16
everything is computed in f32, so what remains is the rounding of inputs to gradients
(the output is given in bf16) and of results to 8 bits.
"""

import resource

import attention_contract
import pytest
import torch
from heads_text import module, parameters, plain
from plain_attention import causal

import sextant
from sextant import backend

pytest.importorskip("sextant._compiler")

TARGETS = [t for t in backend.compiler().list_targets() if t in ("cpu:avx2", "cpu:avx512")]


@pytest.fixture(params=TARGETS)
def target(request):
    return request.param


def window(i, j):
    return (j <= i) & (i - j < 20)


MASKS = {"causal": causal, "window": window}

# kind, heads, kv heads, hidden, batch, queries, keys, (head dim, value dim), encodings
CASES = [
    ("leaky", 4, 4, 8, 2, 7, 7, (16, 16), ()),
    ("leaky", 12, 12, 32, 1, 129, 129, (64, 64), ("causal",)),
    ("leaky", 4, 4, 8, 1, 1, 1, (16, 16), ("causal",)),
    ("leaky", 4, 2, 8, 2, 1, 300, (32, 64), ("causal",)),
    ("leaky", 3, 1, 5, 2, 300, 129, (33, 17), ("causal",)),
    ("tanh", 4, 2, 6, 2, 63, 65, (40, 24), ("causal",)),
    ("tanh", 5, 5, 5, 1, 130, 130, (16, 128), ("causal",)),
    ("tanh", 2, 2, 7, 1, 1000, 1000, (16, 16), ()),
    ("mix", 12, 12, 0, 2, 200, 200, (64, 64), ("causal",)),
    ("mix", 6, 3, 0, 1, 65, 130, (256, 20), ()),
    ("mix", 3, 3, 0, 1, 70, 70, (18, 7), ("causal", "rope")),
]


def rows(shape, dtype=torch.float32):
    """Rows [B, H, L, d] with the strides of a projection."""
    b, h, n, d = shape
    return torch.randn(b, n, h, d).transpose(1, 2).to(dtype)


def run(case, target, dtype=torch.float32, contiguous=False):
    """Results of ours, and of float64 on the same input."""
    kind, heads, kv_heads, hidden, batch, lq, lk, dims, extra = case
    name = "bf16" if dtype == torch.bfloat16 else "f32"
    program = sextant.compile(module(kind, heads, hidden, dims, extra, name), target=target)
    inputs = [rows((batch, heads, lq, dims[0]), dtype)]
    inputs += [rows((batch, kv_heads, lk, d), dtype) for d in dims]
    if contiguous:
        inputs = [t.contiguous() for t in inputs]
    params = parameters(kind, heads, hidden)
    out, lse = program.run("forward", [*inputs, *params])
    do, dlse = rows(out.shape, dtype), torch.randn(lse.shape)
    got = program.run("backward", [*inputs, out, lse, do, dlse, *params])

    leaves = [t.double().requires_grad_() for t in (*inputs, *params)]
    mask = MASKS.get(extra[0]) if extra else None
    exact, exact_lse = plain(kind, *leaves[:3], leaves[3:], mask, "rope" in extra)
    dead = exact_lse == -torch.inf
    exact = exact.masked_fill(dead[..., None], 0.0)
    finite = exact_lse.masked_fill(dead, 0.0)
    # The output that the backward is given was rounded to its type.
    rounding = ((out.double() - exact.detach()) * do.double()).sum(-1)
    loss = (exact * do).sum() + (finite * (dlse - rounding)).sum()
    wanted = torch.autograd.grad(loss, leaves)
    assert torch.equal(lse == -torch.inf, dead)
    return [(out, exact), (lse.masked_fill(dead, 0.0), finite), *zip(got, wanted)]


def check(results, tolerance):
    names = ["output", "lse", "dq", "dk", "dv", *range(9)]
    for name, (got, wanted) in zip(names, results):
        size = max(1.0, wanted.abs().max().item())
        error = (got.double() - wanted).abs().max().item() / size
        assert error <= tolerance, f"{name}: {error:.2e}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_shapes(case, target):
    check(run(case, target), 1e-5)


def test_rows_in_place(target):
    check(run(("leaky", 4, 4, 8, 2, 128, 128, (32, 32), ("causal",)), target, contiguous=True), 1e-5)


def test_window_skips_tiles(target):
    case = ("leaky", 8, 8, 8, 1, 300, 300, (32, 32), ("window",))
    check(run(case, target), 1e-5)


@sextant.mask
def staggered(at):
    """Each head sees one key more than the head before it."""
    return at.key - at.query <= at.head


@pytest.mark.parametrize("lengths", [(7, 7), (40, 65)], ids=str)
@pytest.mark.parametrize("score", ["talking_heads", "dape(kerple_log, hidden=5)"])
def test_masks_that_differ_between_heads(score, lengths, target):
    """A score that its own head does not see has its part in those of the others."""
    params = sextant.init_params([score], heads=3, head_dim=16)
    params = {n: t + 0.3 * torch.rand(t.shape) for n, t in params.items()}
    operands = [rows((2, 3, n, 16)) for n in (lengths[0], lengths[1], lengths[1])]
    inputs = attention_contract.Inputs.drawn(*operands, params)
    attention_contract.compare([score, staggered], inputs, target, torch.float32)


@pytest.mark.parametrize("case", [CASES[1], CASES[9]], ids=str)
def test_bf16_is_computed_in_f32(case, target):
    check(run(case, target, torch.bfloat16), 2e-2)


def test_positions(target):
    kind, heads, hidden, length = "leaky", 4, 8, 90
    text = module(kind, heads, hidden, (16, 16), ("causal",), positions=True)
    program = sextant.compile(text, target=target)
    inputs = [rows((2, heads, length, 16)) for _ in range(3)]
    params = parameters(kind, heads, hidden)
    given = [torch.randint(-50, 50, (2, length, 1), dtype=torch.int32) for _ in range(2)]
    out, lse = program.run("forward", [*inputs, *params, *given])
    do, dlse = torch.randn_like(out), torch.randn_like(lse)
    got = program.run("backward", [*inputs, out, lse, do, dlse, *params, *given])
    leaves = [t.double().requires_grad_() for t in (*inputs, *params)]
    positions = [p[..., 0].double() for p in given]
    exact, exact_lse = plain(kind, *leaves[:3], leaves[3:], causal, positions=positions)
    wanted = torch.autograd.grad((exact * do).sum() + (exact_lse * dlse).sum(), leaves)
    check([(out, exact), (lse, exact_lse), *zip(got, wanted)], 1e-5)


def test_same_bits_for_any_number_of_threads(target):
    kind, heads, hidden = "leaky", 4, 8
    program = sextant.compile(module(kind, heads, hidden, (32, 32), ("causal",)), target=target)
    inputs = [rows((2, heads, 300, 32)) for _ in range(3)]
    params = parameters(kind, heads, hidden)
    do, dlse = rows((2, heads, 300, 32)), torch.randn(2, heads, 300)

    def both(threads):
        torch.set_num_threads(threads)
        out, lse = program.run("forward", [*inputs, *params])
        return [out, lse, *program.run("backward", [*inputs, out, lse, do, dlse, *params])]

    before = torch.get_num_threads()
    try:
        once, again, spread = both(1), both(1), both(2)
    finally:
        torch.set_num_threads(before)
    for a, b, c in zip(once, again, spread):
        assert torch.equal(a, b) and torch.equal(a, c)


def test_parameters_of_another_head_count_are_refused(target):
    """The number of heads is compiled in; what a program is given must fit it."""
    program = sextant.compile(module("leaky", 4, 8, (16, 16), (), "f32"), target=target)
    q = rows((1, 4, 5, 16))
    params = parameters("leaky", 4, 8)
    for number, wrong in enumerate([params[0][:, :6], params[1][:7], params[2][:3], params[3][:3]]):
        given = [wrong if n == number else p for n, p in enumerate(params)]
        with pytest.raises((RuntimeError, ValueError), match=f"parameter {number} of 'pos"):
            program.run("forward", [q, q, q, *given])
    three = rows((1, 3, 5, 16))
    with pytest.raises((RuntimeError, ValueError), match="4"):
        program.run("forward", [three, three, three, *params])


@pytest.mark.parametrize("lengths", [(0, 7), (7, 0), (0, 0)], ids=str)
def test_empty(lengths, target):
    lq, lk = lengths
    program = sextant.compile(module("leaky", 2, 4, (16, 16)), target=target)
    inputs = [rows((2, 2, n, 16)) for n in (lq, lk, lk)]
    params = parameters("leaky", 2, 4)
    out, lse = program.run("forward", [*inputs, *params])
    assert torch.equal(out, torch.zeros_like(out)) and (lse == -torch.inf).all()
    got = program.run(
        "backward", [*inputs, out, lse, torch.randn_like(out), torch.zeros_like(lse), *params]
    )
    for gradient in got:
        assert torch.equal(gradient, torch.zeros_like(gradient))


def test_scores_of_hidden_keys_reach_nothing(target):
    program = sextant.compile(module("leaky", 2, 4, (16, 16), ("causal",)), target=target)
    inputs = [rows((1, 2, 70, 16)) for _ in range(3)]
    inputs[1][:, :, 69] = torch.nan
    out, lse = program.run("forward", [*inputs, *parameters("leaky", 2, 4)])
    assert out[:, :, :69].isfinite().all() and lse[:, :, :69].isfinite().all()
    assert out[:, :, 69].isnan().all()


def test_memory_grows_with_the_length_only(target):
    heads, length = 4, 8192
    program = sextant.compile(module("leaky", heads, 4, (16, 16), ("causal",)), target=target)
    inputs = [rows((1, heads, length, 16)) for _ in range(3)]
    params = parameters("leaky", heads, 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out, lse = program.run("forward", [*inputs, *params])
    program.run("backward", [*inputs, out, lse, out, lse, *params])
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    # The scores of one head alone would be 256 MiB.
    assert grown < 160 * 2**20
