"""Gradients of the parameters that a caller keeps frozen are not computed: they are sums over
all pairs, which nobody takes."""

import pytest
import torch

import sextant
from sextant import backend, plans

pytest.importorskip("sextant._compiler")

USES = ["causal", "kerple_log"]
NAMES = ("kerple_log.r1", "kerple_log.r2")


def rows(*shape):
    return torch.randn(*(shape or (2, 2, 9, 8)))


def params_of(*recorded):
    """Those of `USES`; autograd records the ones that are named."""
    made = sextant.init_params(USES, heads=2, head_dim=8, seed=3)
    return {n: t.requires_grad_(n in recorded) for n, t in made.items()}


@pytest.fixture
def results(monkeypatch):
    """How many results each backward has that runs."""
    counts = []
    run = backend.Artifact.run

    def counted(self, function, inputs):
        found = run(self, function, inputs)
        if function == "backward":
            counts.append(len(found))
        return found

    monkeypatch.setattr(backend.Artifact, "run", counted)
    return counts


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("recorded", [(), NAMES[:1], NAMES[1:], NAMES], ids="-".join)
def test_what_is_recorded_alone_is_computed(results, target, recorded):
    leaves = [rows().requires_grad_() for _ in range(3)]
    seed = rows()

    def gradients(*recorded):
        params = params_of(*recorded)
        out = sextant.attention(*leaves, USES, params, target=target)
        return torch.autograd.grad(out, [*leaves, *(params[n] for n in recorded)], seed)

    want = dict(zip(("q", "k", "v", *NAMES), gradients(*NAMES)))
    got = gradients(*recorded)
    assert results == [5, 3 + len(recorded)]
    for name, gradient in zip(("q", "k", "v", *recorded), got):
        assert torch.equal(gradient, want[name]), name


def test_a_module_is_compiled_once_for_what_it_trains(results):
    """Also in its forwards without gradients, which any of its programs serves."""
    layer = sextant.nn.Attention(16, 2, ["causal", "fire"])
    layer.requires_grad_(False)
    layer.fire_w1.requires_grad_()
    x = rows(2, 21, 16)
    count = plans.compile_count()
    for _ in range(2):
        layer(x).sum().backward()
    with torch.no_grad():
        layer(x)
    assert plans.compile_count() == count + 1 and results == [4, 4]
    assert layer.fire_w1.grad.abs().sum() > 0
    assert layer.fire_w2.grad is None and layer.query.weight.grad is None
    layer.fire_w2.requires_grad_()
    layer(x).sum().backward()
    assert plans.compile_count() == count + 2 and results[-1] == 5
    layer.fire_w2.requires_grad_(False)
    layer(x).sum().backward()
    assert plans.compile_count() == count + 2 and results[-1] == 4


def test_row_maps():
    """Of a table of which no row is trained here."""
    x = rows(1, 5, 8).requires_grad_()
    made = sextant.init_params(["learned(rows=6)"], heads=1, head_dim=8)
    for recorded in (False, True):
        table = made["learned.table"].detach().requires_grad_(recorded)
        out = sextant.map_rows(x, ["learned(rows=6)"], {"learned.table": table})
        grads = torch.autograd.grad(out.square().sum(), [x, table] if recorded else [x])
        torch.testing.assert_close(grads[0], 2 * (x + made["learned.table"][:5]))
        assert list(plans._plans.values())[-1].wanted == (("learned.table",) if recorded else ())
    torch.testing.assert_close(grads[1][:5], grads[0][0])


def test_levels_of_functorch_record_apart(results):
    """An inner level asks for the gradient of a row, an outer one for that of a parameter."""
    q, k, v = (rows() for _ in range(3))
    params = params_of()

    def loss(params, q):
        return sextant.attention(q, k, v, USES, params).square().sum()

    by_hand = {n: t.clone().requires_grad_() for n, t in params.items()}
    want = torch.autograd.grad(loss(by_hand, q), list(by_hand.values()))
    results.clear()
    assert torch.func.grad(loss, argnums=1)(params, q).shape == q.shape
    assert results == [3]
    got = torch.func.grad(loss)(params, q)
    assert results == [3, 5]
    for a, b in zip(got.values(), want):
        assert torch.equal(a, b)
    each = torch.func.vmap(torch.func.grad(loss, argnums=1), (None, 0))(params, torch.stack([q, k]))
    assert results == [3, 5, 3]  # no sum over the batch is to be taken apart
    torch.testing.assert_close(each[0], torch.func.grad(loss, argnums=1)(params, q))


def test_a_compiled_graph_records_what_it_was_traced_with():
    leaves = [rows().requires_grad_() for _ in range(3)]
    params = params_of(NAMES[1])

    def call(q, k, v, r1, r2):
        return sextant.attention(q, k, v, USES, dict(zip(NAMES, (r1, r2))))

    want = torch.autograd.grad(call(*leaves, *params.values()).sum(), [*leaves, params[NAMES[1]]])
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    got = torch.autograd.grad(compiled(*leaves, *params.values()).sum(), [*leaves, params[NAMES[1]]])
    assert list(plans._plans.values())[-1].wanted == NAMES[1:]
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b)
