"""Every encoding, on every backend, against the reference and finite differences."""

import pytest
import torch
from torch.autograd.gradcheck import GradcheckError

import sextant
from attention_contract import run
from cases import Case, compare, extents_of, make_inputs, make_params, takes_groups
from numeric_contract import Comparison
from sextant import definitions

# Shapes in three groups; those of a group run the same compiled kernel.
AMONG = dict(
    before=("past=causal",), after=("near=window(size=9)",), head_dim=24, value_dim=8
)
SHAPES = [
    dict(label="square"),
    dict(query=34, key=21, label="more-queries"),
    dict(query=1, key=1, batch=1, heads=1, kv_heads=1, label="single"),
    dict(query=1, key=65, label="decode"),
    dict(query=70, key=70, batch=1, heads=2, kv_heads=2, **AMONG, label="among"),
    dict(query=17, key=50, heads=6, kv_heads=2, **AMONG, label="grouped"),
    dict(query=40, key=40, transposed=True, **AMONG, label="transposed"),
    dict(query=21, key=34, positions="batch", label="positions"),
    dict(query=33, key=33, positions="shared", label="shared-positions"),
    dict(query=29, key=33, positions="random", label="random-positions"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s["label"])
def test_f32_matches_the_reference(encoding, f32_target, shape, seed):
    compare(Case(encoding, **shape), f32_target, torch.float32, seed)


@pytest.mark.parametrize("shape", SHAPES[:1] + SHAPES[4:7], ids=lambda s: s["label"])
def test_bf16_matches_the_reference(encoding, cpu_target, shape, seed):
    compare(Case(encoding, **shape), cpu_target, torch.bfloat16, seed)


def differs(encoding, seed):
    """What finite differences say against the gradients of the reference, if anything."""
    heads = 1 if takes_groups(encoding) else 2
    case = Case(encoding, batch=1, heads=2, kv_heads=heads, query=4, key=5, head_dim=4, value_dim=3)
    inputs = make_inputs(case, seed)
    trained = [p.name for p in definitions.signature([encoding]).params if p.trained]
    fixed = {n: t for n, t in inputs.params.items() if n not in trained}

    def call(query, key, value, *params):
        return sextant.attention(
            query,
            key,
            value,
            case.uses,
            {**fixed, **dict(zip(trained, params))},
            return_lse=True,
            target="reference",
        )

    leaves = [inputs.query, inputs.key, *inputs.values]
    leaves += [inputs.params[n] for n in trained]
    leaves = [t.detach().clone().requires_grad_() for t in leaves]
    try:
        torch.autograd.gradcheck(call, leaves, eps=1e-6, atol=1e-5)
    except GradcheckError as difference:
        return str(difference)
    return ""


def test_reference_matches_finite_differences(encoding, seed):
    """Exact derivatives of the definition agree to 1e-5, but where a difference spans
    a kink: one in some thousand inputs does, so one of two must agree."""
    first = differs(encoding, seed)
    assert not first or not differs(encoding, seed + 1), first


def test_masked_rows_are_zeros(encoding, cpu_target, seed):
    """C4: a row that sees no key gives zeros, lse of -inf and no gradient."""
    case = Case(encoding, batch=1, heads=2, kv_heads=2, query=9, key=4, **AMONG)
    inputs = make_inputs(case, seed)
    got = run(case.uses, inputs.cast(torch.float32), cpu_target)
    hidden = case.query - case.key
    assert (got["output"][:, :, :hidden] == 0).all()
    assert (got["lse"][:, :, :hidden] == -torch.inf).all()
    assert (got["d query"][:, :, :hidden] == 0).all()
    assert not any(t.isnan().any() for t in got.values())


def test_results_do_not_depend_on_threads(encoding, cpu_target, seed):
    """C9: the same bits from run to run and for any number of threads."""
    case = Case(encoding, query=100, key=100, **AMONG)
    inputs = make_inputs(case, seed).cast(torch.float32)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 2, 3):
            torch.set_num_threads(threads)
            results.append(run(case.uses, inputs, cpu_target))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for name, tensor in results[0].items():
            assert torch.equal(tensor, other[name]), name


def test_empty_lengths(encoding, cpu_target, seed):
    """Lengths of 0 give empty or zero results, not errors."""
    for query, key in ((0, 5), (5, 0), (0, 0)):
        case = Case(encoding, query=query, key=key)
        got = run(case.uses, make_inputs(case, seed).cast(torch.float32), cpu_target)
        assert got["output"].shape == (2, 4, query, 16)
        assert (got["output"] == 0).all()


def test_row_maps_match_the_reference(row_encoding, cpu_target, seed):
    """Encodings of embeddings: values and gradients, against the reference."""
    draw = torch.Generator().manual_seed(seed)
    case = Case(row_encoding, batch=3, heads=1, kv_heads=1, query=19, key=19, head_dim=12)
    extents = {**extents_of(case), "model": 12, "value_dim": 12}
    params = make_params([row_encoding], extents, draw)
    x = torch.randn(3, 19, 12, generator=draw, dtype=torch.float64).float().double()
    grad = torch.randn(3, 19, 12, generator=draw, dtype=torch.float64)
    trained = {p.name for p in definitions.signature([row_encoding]).params if p.trained}
    operand = next(iter(definitions.signature([row_encoding]).operands))

    def both(dtype, target):
        leaf = x.detach().to(dtype).requires_grad_()
        own = {
            n: (t.detach().to(dtype) if t.dtype.is_floating_point else t).requires_grad_(n in trained)
            for n, t in params.items()
        }
        y = sextant.map_rows(leaf, [row_encoding], own, of=operand, target=target)
        y.backward(grad.to(dtype))
        return [y.detach(), leaf.grad, *(own[n].grad for n in sorted(trained))]

    def named(tensors):
        return dict(enumerate(t.double() for t in tensors))

    want = named(both(torch.float64, "reference"))
    plain = named(both(torch.float32, "reference"))
    comparison = Comparison(torch.float32)
    comparison.add(named(both(torch.float32, cpu_target)), plain, want)
    comparison.check(f"results 0: y, 1: dx, then parameters; {row_encoding}:")
