"""Scores of all heads on the CPU, forward and backward, against float64.

Tolerance: C7, see numeric_contract.py; plain is the formula of heads_text.py in f32.
"""

import json
import sys
from pathlib import Path

import attention_contract
import pytest
import targets
import torch
from attention_contract import Inputs
from heads_text import module, parameters, plain
from numeric_contract import DRAWS, Comparison
from plain_attention import causal

import sextant

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))

from live_bytes import run_counted

pytest.importorskip("sextant._compiler")


@pytest.fixture(params=targets.F32)
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


def drawn(kind, heads, kv_heads, hidden, batch, lq, lk, dims, dtype):
    operands = [rows((batch, n, m, d), dtype) for n, m, d in
                ((heads, lq, dims[0]), (kv_heads, lk, dims[0]), (kv_heads, lk, dims[1]))]  # fmt: skip
    params = {str(n): p for n, p in enumerate(parameters(kind, heads, hidden))}
    return Inputs.drawn(*operands, params)


def names(inputs):
    return ["d query", "d key", "d value", *(f"d parameter {n}" for n in inputs.params)]


def kernel(program, inputs, arrange, positions=()):
    """Results of a program of heads_text.py, by name."""
    operands = [arrange(t) for t in (inputs.query, inputs.key, *inputs.values)]
    params = list(inputs.params.values())
    out, lse, stats = program.run("forward", [*operands, *params, *positions])
    grads = [arrange(inputs.output_grads[0]), inputs.lse_grad.masked_fill(lse == -torch.inf, 0.0)]
    got = program.run("backward", [*operands, out, stats, *grads, *params, *positions])
    return {"output": out, "lse": lse, **dict(zip(names(inputs), got))}


def formula(kind, inputs, stored, positions=None, **settings):
    """The same by the plain formula, in the type of the inputs; gradients from the
    output that a forward stored, as the backward has it."""
    leaves = [inputs.query, inputs.key, *inputs.values, *inputs.params.values()]
    leaves = [t.detach().requires_grad_() for t in leaves]
    if positions:
        settings["positions"] = [p[..., 0].to(inputs.query.dtype) for p in positions]
    out, lse = plain(kind, *leaves[:3], leaves[3:], **settings)
    dead = lse == -torch.inf
    out = out.masked_fill(dead[..., None], 0.0)
    do = inputs.output_grads[0]
    moved = ((stored["output"].to(out.dtype) - out.detach()) * do).sum(-1)
    loss = (out * do).sum() + (lse.masked_fill(dead, 0.0) * (inputs.lse_grad - moved)).sum()
    gradients = torch.autograd.grad(loss, leaves)
    return {"output": out.detach(), "lse": lse.detach(), **dict(zip(names(inputs), gradients))}


def compare(case, target, dtype=torch.float32, contiguous=False, positions=None):
    """Holds a case to C7; `positions` are those of queries and keys."""
    kind, heads, kv_heads, hidden, batch, lq, lk, dims, extra = case
    name = "bf16" if dtype == torch.bfloat16 else "f32"
    text = module(kind, heads, hidden, dims, extra, name, positions=bool(positions))
    program = sextant.compile(text, target=target)
    mask = MASKS.get(extra[0]) if extra else None
    settings = {"mask": mask, "rope": "rope" in extra, "positions": positions}
    first = drawn(kind, heads, kv_heads, hidden, batch, lq, lk, dims, dtype)

    def arrange(tensor):
        """Rows with the strides of a projection, or without gaps."""
        t = tensor if contiguous else tensor.transpose(1, 2)
        return t.contiguous() if contiguous else t.contiguous().transpose(1, 2)

    comparison = Comparison(torch.float32)
    for draw in range(DRAWS):
        inputs = first.neighbours(dtype, draw) if draw else first
        got = kernel(program, inputs.cast(dtype), arrange, positions or ())
        exact = formula(kind, inputs, got, **settings)
        literal = formula(kind, inputs.cast(torch.float32), got, **settings)
        comparison.add(got, literal, exact)
        if comparison.holds():
            break
        near = formula(kind, first.nudged(draw), comparison.first, **settings)
        comparison.add_other(near)
    comparison.check(f"{case} on {target}:")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_shapes(case, target):
    compare(case, target)


def test_rows_in_place(target):
    compare(("leaky", 4, 4, 8, 2, 128, 128, (32, 32), ("causal",)), target, contiguous=True)


def test_heads_that_share_sets_of_a_cache(target):
    """Rows of heads a power of two apart, more of them than stay in place, are read from
    copies: the same bits as of heads that lie side by side."""
    case = ("leaky", 8, 8, 8, 2, 1000, 40, (16, 16))
    program = sextant.compile(module("leaky", 8, 8, (16, 16), ("causal",)), target=target)
    inputs = drawn(*case, torch.float32).cast(torch.float32)

    def apart(tensor):
        memory = torch.full((*tensor.shape[:2], 1024, tensor.shape[3]), torch.nan)
        memory[:, :, : tensor.shape[2]] = tensor
        return memory[:, :, : tensor.shape[2]]

    together = kernel(program, inputs, lambda rows: rows)
    for name, value in kernel(program, inputs, apart).items():
        assert torch.equal(value, together[name]), name


def test_window_skips_tiles(target):
    case = ("leaky", 8, 8, 8, 1, 300, 300, (32, 32), ("window",))
    compare(case, target)


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
    inputs = Inputs.drawn(*operands, params)
    attention_contract.compare([score, staggered], inputs, target, torch.float32)


@pytest.mark.parametrize("case", [CASES[1], CASES[9]], ids=str)
def test_bf16_is_computed_in_f32(case, target):
    compare(case, target, torch.bfloat16)


def test_positions(target):
    length = 90
    given = [torch.randint(-50, 50, (2, length, 1), dtype=torch.int32) for _ in range(2)]
    case = ("leaky", 4, 4, 8, 2, length, length, (16, 16), ("causal",))
    compare(case, target, positions=given)


def test_same_bits_for_any_number_of_threads(target):
    kind, heads, hidden = "leaky", 4, 8
    program = sextant.compile(module(kind, heads, hidden, (32, 32), ("causal",)), target=target)
    inputs = [rows((2, heads, 300, 32)) for _ in range(3)]
    params = parameters(kind, heads, hidden)
    do, dlse = rows((2, heads, 300, 32)), torch.randn(2, heads, 300)

    def both(threads):
        torch.set_num_threads(threads)
        first = program.run("forward", [*inputs, *params])
        out, _, stats = first
        return [*first, *program.run("backward", [*inputs, out, stats, do, dlse, *params])]

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
    out, lse, stats = program.run("forward", [*inputs, *params])
    assert torch.equal(out, torch.zeros_like(out)) and (lse == -torch.inf).all()
    got = program.run(
        "backward", [*inputs, out, stats, torch.randn_like(out), torch.zeros_like(lse), *params]
    )
    for gradient in got:
        assert torch.equal(gradient, torch.zeros_like(gradient))


def test_scores_of_hidden_keys_reach_nothing(target):
    program = sextant.compile(module("leaky", 2, 4, (16, 16), ("causal",)), target=target)
    inputs = [rows((1, 2, 70, 16)) for _ in range(3)]
    inputs[1][:, :, 69] = torch.nan
    out, lse, _ = program.run("forward", [*inputs, *parameters("leaky", 2, 4)])
    assert out[:, :, :69].isfinite().all() and lse[:, :, :69].isfinite().all()
    assert out[:, :, 69].isnan().all()


MEMORY = """
import json, sys
import torch, sextant
from live_bytes import rises
torch.set_num_threads(1)
text, target, heads, lengths, params = json.loads(sys.argv[1])
program = sextant.compile(text, target=target)
params = [torch.tensor(p) for p in params]


def call(length):
    rows = [torch.randn(1, heads, length, 16) for _ in range(3)]
    out, lse, stats = program.run("forward", [*rows, *params])
    program.run("backward", [*rows, out, stats, out, lse, *params])


print(json.dumps(rises([lambda n=n: call(n) for n in lengths])))
"""


def test_memory_grows_with_the_length_only(target):
    """Blocks that live at the worst moment, in a process of its own. Twice the length
    takes twice the memory, where a score of each pair would take four times as much. Below
    4096 there are fewer chunks of keys, each with gradients of all queries."""
    heads = 4
    text = module("leaky", heads, 4, (16, 16), ("causal",))
    params = [p.tolist() for p in parameters("leaky", heads, 4)]
    done = run_counted(MEMORY, json.dumps([text, target, heads, [4096, 8192], params]))
    assert done.returncode == 0, done.stderr
    short, long = json.loads(done.stdout)
    assert 2**20 < short and long <= 2.2 * short, (short, long)
