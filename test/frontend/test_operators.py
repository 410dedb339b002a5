"""The operators as PyTorch's transforms see them: functorch, autocast, narrow modules,
sharding rules."""

import pytest
import torch
from torch.autograd import forward_ad

import sextant

pytest.importorskip("sextant._compiler")

ENCODINGS = ["causal", "kerple_log"]


def rows(batch=2, heads=4, length=9, dim=8, **settings):
    return torch.randn(batch, heads, length, dim, **settings)


def kerple(heads=4):
    return {f"kerple_log.{n}": torch.rand(heads) + 0.5 for n in ("r1", "r2")}


@pytest.fixture(autouse=True)
def seeded(seed):
    torch.manual_seed(seed)


def stacked(function, *lists):
    """What torch.vmap means: a call for each element."""
    results = [function(*elements) for elements in zip(*lists)]
    flat = [torch.utils._pytree.tree_leaves(r) for r in results]
    return [torch.stack(leaves) for leaves in zip(*flat)]


def same(got, want):
    """Equal but for the order of sums over a batch of another size."""
    for a, b in zip(torch.utils._pytree.tree_leaves(got), want, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def attend(query, key, value, params):
    return sextant.attention(query, key, value, ENCODINGS, params)


def loss(query, key, value, params):
    return attend(query, key, value, params).square().sum()


def test_func_grad_is_backward():
    q, k, v, params = rows(), rows(), rows(), kerple()
    leaves = [t.clone().requires_grad_() for t in (q, k, v, *params.values())]
    named = dict(zip(params, leaves[3:]))
    want = torch.autograd.grad(loss(*leaves[:3], named), leaves)
    same(torch.func.grad(loss, argnums=(0, 1, 2, 3))(q, k, v, params), want)
    _, pull = torch.func.vjp(lambda q: loss(q, k, v, params), q)
    same(pull(torch.ones(()))[0], want[:1])


def test_vmap_over_rows_is_a_batch():
    many = [torch.randn(3, 2, 4, 9, 8) for _ in range(3)]
    params = kerple()
    call = lambda q, k, v: attend(q, k, v, params)  # noqa: E731
    same(torch.vmap(call)(*many), stacked(call, *many))
    # An axis that does not come first, and one tensor of all elements.
    moved = many[0].movedim(0, 2)
    got = torch.vmap(call, in_dims=(2, None, 0))(moved, many[1][0], many[2])
    same(got, stacked(call, many[0], [many[1][0]] * 3, many[2]))
    gradient = torch.func.grad(lambda q, k, v: sextant.attention(q, k, v, ["rope"]).sum(), (0, 1))
    same(torch.vmap(gradient)(*many), stacked(gradient, *many))
    several = lambda q, k, v: sextant.attention(q, k, [v, v[..., :3]], ["causal"])  # noqa: E731
    same(torch.vmap(several)(*many), stacked(several, *many))


def test_vmap_over_no_elements():
    """Which has shapes, those of the batch within among them, as PyTorch's own."""
    q, params = torch.randn(0, 2, 4, 9, 8), {n: t.expand(0, 4) for n, t in kerple().items()}
    alone = torch.vmap(lambda q: sextant.attention(q, q, q, ["causal"], return_lse=True))(q)
    assert [t.shape for t in alone] == [(0, 2, 4, 9, 8), (0, 2, 4, 9)]
    gradient = torch.func.grad(loss, argnums=(0, 3))
    dq, rest = torch.vmap(lambda q, p: gradient(q, q, q, p))(q, params)
    assert dq.shape == q.shape and {t.shape for t in rest.values()} == {(0, 4)}
    assert torch.vmap(lambda x: sextant.map_rows(x, ["sinusoidal"]))(q[:, :, 0]).shape == (0, 2, 9, 8)


def test_vmap_over_positions_and_elements_of_a_batch():
    q, k, v = torch.randn(3, 2, 4, 9, 8), rows(), rows()
    positions = torch.randint(0, 40, (3, 9)).sort().values
    both = torch.randint(0, 40, (3, 1, 9)).sort().values
    for given in (positions, both):
        call = lambda q, p: sextant.attention(  # noqa: E731
            q, k, v, ["causal", "alibi"], query_positions=p, key_positions=p
        )
        same(torch.vmap(call)(q, given), stacked(call, q, given))
    ids = torch.randint(0, 3, (3, 2, 9))
    call = lambda q, i: sextant.attention(q, k, v, ["document"], {"document.ids": i})  # noqa: E731
    same(torch.vmap(call)(q, ids), stacked(call, q, ids))
    rotate = lambda x, p: sextant.map_rows(x, ["sinusoidal"], positions=p)  # noqa: E731
    x = torch.randn(3, 2, 9, 8)
    same(torch.vmap(rotate)(x, positions), stacked(rotate, x, positions))
    gradient = torch.func.grad(lambda x, p: rotate(x, p).square().sum())
    same(torch.vmap(gradient)(x, positions), stacked(gradient, x, positions))


def test_vmap_over_params_and_gradients_per_example():
    q, k, v = torch.randn(3, 2, 4, 9, 8), rows(), rows()
    params = kerple()
    many = {n: torch.rand(3, 4) + 0.5 for n in params}
    each = [{n: t[i] for n, t in many.items()} for i in range(3)]
    call = lambda p: attend(q[0], k, v, p)  # noqa: E731
    same(torch.vmap(call)(many), stacked(call, each))
    gradient = torch.func.grad(lambda p, q: loss(q, k, v, p))
    same(torch.vmap(gradient, in_dims=(None, 0))(params, q), stacked(gradient, [params] * 3, q))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: sextant.attention(x, x, x, ["causal", "alibi"]),
        lambda x: sextant.map_rows(x[:, 0], ["sinusoidal"]),
    ],
    ids=["attention", "map_rows"],
)
def test_autograd_records_below_other_levels(call):
    """A level that sees a tensor without requires_grad, and one below that records."""
    many = torch.randn(3, 2, 4, 9, 8)

    def mapped(x):
        return torch.vmap(call)(x).square().sum()

    leaf = many.clone().requires_grad_()
    torch.stack([call(x) for x in leaf]).square().sum().backward()
    same(torch.func.grad(mapped)(many), [leaf.grad])
    other = many.clone().requires_grad_()
    mapped(other).backward()
    same(other.grad, [leaf.grad])
    compiled = torch.compile(torch.func.grad(mapped), backend="eager", fullgraph=True)
    same(compiled(many), [leaf.grad])


def test_gradients_of_a_batch_of_cotangents():
    """As `torch.autograd.functional.jacobian(vectorize=True)` asks for them."""
    q, params = rows(1, 2, 3, 4), {n: t.requires_grad_() for n, t in kerple(2).items()}
    leaves = [q.requires_grad_(), *params.values()]
    out, lse = sextant.attention(q, q, q, ENCODINGS, params, return_lse=True)
    seeds = [torch.randn(5, *t.shape) for t in (out, lse)]
    ask = lambda *seed, **how: torch.autograd.grad(  # noqa: E731
        (out, lse), leaves, seed, retain_graph=True, **how
    )
    same(ask(*seeds, is_grads_batched=True), stacked(ask, *seeds))
    many = [t.expand(2, *t.shape).contiguous() for t in seeds]
    each = lambda *seed: ask(*seed, is_grads_batched=True)  # noqa: E731
    nested = torch._vmap_internals._vmap(each)(*many)
    same(nested, stacked(lambda *seed: stacked(ask, *seed), *many))
    rotate = lambda x: sextant.map_rows(x, ["sinusoidal"])  # noqa: E731
    jacobian = torch.autograd.functional.jacobian(rotate, torch.randn(1, 2, 4), vectorize=True)
    same(jacobian.reshape(8, 8), [torch.eye(8)])


@pytest.mark.parametrize("label", ["sextant.attention", "sextant.map_rows"])
def test_forward_mode_and_second_derivatives_are_refused(label):
    x = torch.randn(2, 9, 8)
    if label == "sextant.map_rows":
        call = lambda x: sextant.map_rows(x, ["sinusoidal"])  # noqa: E731
    else:
        call = lambda x: sextant.attention(x[None], x[None], x[None])  # noqa: E731
    forward = f"{label} has no forward-mode derivative: use reverse mode"
    for ask in (
        lambda: torch.func.jvp(call, (x,), (x,)),
        lambda: torch.func.linearize(call, x),
        lambda: torch.func.jacfwd(call)(x),
    ):
        with pytest.raises(NotImplementedError, match=forward):
            ask()
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=forward):
        call(forward_ad.make_dual(x, x))
    x.requires_grad_()
    (grad,) = torch.autograd.grad(call(x).square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match=f"{label} has no second derivative: leave out"):
        grad.sum().backward()


def test_nodes_of_graphs_are_called_by_operators():
    q, x = rows().requires_grad_(), torch.randn(2, 9, 8).requires_grad_()
    nodes = [sextant.attention(q, q, q).grad_fn, sextant.map_rows(x, ["sinusoidal"]).grad_fn]
    names = [node.name() for node in nodes]
    assert names == ["Differentiable_attentionBackward", "Differentiable_map_rowsBackward"]
    assert all(name in repr(node) for name, node in zip(names, nodes))
    # torch._dynamo.compiled_autograd tells nodes apart by it.
    first, second = (node._compiled_autograd_key() for node in nodes)
    assert first != second


def test_autocast_narrows_rows_and_leaves_params():
    q, k, v = (rows().requires_grad_() for _ in range(3))
    params = {n: t.requires_grad_() for n, t in kerple().items()}
    with torch.autocast("cpu"):
        out = attend(q, k.bfloat16(), v, params)
    want = attend(*(t.bfloat16() for t in (q, k, v)), params)
    assert out.dtype == torch.bfloat16 and torch.equal(out, want)
    out.float().sum().backward()
    assert q.grad.dtype == torch.float32 and params["kerple_log.r1"].grad.dtype == torch.float32
    for dtype, target in ((torch.bfloat16, "reference"), (torch.float16, "cpu")):  # not theirs
        with torch.autocast("cpu", dtype=dtype):
            exact = sextant.attention(q, k.to(dtype), v, target=target)
        assert exact.dtype == torch.float32
    layer = sextant.nn.Attention(32, 4, ENCODINGS)
    with torch.autocast("cpu"):
        assert layer(torch.randn(2, 5, 32)).dtype == torch.bfloat16


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*torch.jit")
def test_a_traced_graph_has_gradients_where_they_are_asked_for():
    """PyTorch checks a graph by a second trace without gradients, which must be the same."""
    layer = sextant.nn.Attention(32, 4, ENCODINGS)
    x = torch.randn(2, 5, 32)
    want = torch.autograd.grad(layer(x).sum(), layer.query.weight)
    with torch.no_grad():
        early = torch.jit.trace(layer, (x,), check_trace=False)
    for graph in (torch.jit.trace(layer, (x,)), early):
        assert torch.equal(graph(x), layer(x))
        assert torch.equal(torch.autograd.grad(graph(x).sum(), layer.query.weight)[0], want[0])
    rows = torch.jit.trace(lambda x: sextant.map_rows(x, ["sinusoidal"]), (x.requires_grad_(),))
    assert rows(x).requires_grad and not rows(x.detach()).requires_grad


def test_a_module_of_bf16():
    layer = sextant.nn.Attention(32, 4, ENCODINGS).to(torch.bfloat16)
    layer(torch.randn(2, 5, 32).bfloat16()).float().square().sum().backward()
    assert {p.grad.dtype for p in layer.parameters()} == {torch.bfloat16}
    q, params = rows().bfloat16(), {n: t.bfloat16() for n, t in kerple().items()}
    wide = {n: t.float() for n, t in params.items()}
    assert torch.equal(attend(q, q, q, params), attend(q, q, q, wide))


@pytest.fixture
def mesh():
    """Two processes of which this is the first: collectives do nothing."""
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("torch.distributed is not built")
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield distributed.device_mesh.init_device_mesh("cpu", (2,))
    distributed.destroy_process_group()


def test_a_module_whose_parameters_are_cut_is_filled(mesh):
    """As after FSDP has cut a module of the meta device."""
    from torch.distributed.fsdp import fully_shard

    layer = sextant.nn.Attention(16, 4, ENCODINGS, device="meta")
    fully_shard(layer, mesh=mesh)
    layer.to_empty(device="cpu")
    with torch.no_grad():
        for value in layer.parameters():
            value.fill_(torch.nan)
    layer.reset_parameters()
    r1 = layer.kerple_log_r1
    assert r1.shape == (4,) and len(r1.to_local().unique()) == 2
    assert all(p.to_local().isfinite().all() for p in layer.parameters())


def register_sharding_rules():
    """Rows are cut along the batch or the heads, parameters of heads with them."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
    from torch.distributed.tensor._ops.utils import expand_to_full_mesh_op_strategy
    from torch.distributed.tensor.experimental import register_sharding

    ways = ((Replicate(), Replicate(), Replicate()), (Shard(0), Replicate(), Partial()),
            (Shard(1), Shard(0), Shard(0)))  # fmt: skip

    @register_sharding(torch.ops.sextant.attention.default)
    def forward(query, key, value, params, *settings):
        return [
            ([row] * 3, [row] * 3 + [param] * len(params) + [None] * len(settings))
            for row, param, _ in ways
        ]

    def backward(schema):
        _, _, values, results, gradients, params = (
            getattr(a, "children", a) for a in schema.args_schema[:6]
        )
        inputs = 2 + len(values) + len(results) + len(gradients)
        outputs = 2 + len(values) + len(params)
        placements = [
            [row] * (outputs - len(params)) + [grad] * len(params)
            + [row] * inputs + [param] * len(params)
            for row, param, grad in ways
        ]  # fmt: skip
        return expand_to_full_mesh_op_strategy(
            schema.get_mesh_from_args(), schema, placements, input_index=outputs
        )

    DTensor._op_dispatcher.sharding_propagator.register_op_strategy(
        torch.ops.sextant.attention_backward.default,
        backward,
        RuntimeSchemaInfo(6, needs_pytree=True),
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_sharding_rules_over_the_batch_and_the_heads(mesh, axis):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    register_sharding_rules()
    leaves = [t.requires_grad_() for t in (rows(), rows(), rows(), *kerple().values())]
    want, lse = sextant.attention(
        *leaves[:3], ENCODINGS, dict(zip(kerple(), leaves[3:])), return_lse=True
    )
    shards = [
        distribute_tensor(t.detach(), mesh, [p]).requires_grad_()
        for t, p in zip(leaves, [Shard(axis)] * 3 + [Shard(0) if axis else Replicate()] * 2)
    ]
    got, got_lse = sextant.attention(
        *shards[:3], ENCODINGS, dict(zip(kerple(), shards[3:])), return_lse=True
    )
    assert got.shape == want.shape and got.placements == (Shard(axis),)
    first = want.shape[axis] // 2
    same(got.to_local(), [want.narrow(axis, 0, first)])
    same(got_lse.to_local(), [lse.narrow(axis, 0, first)])
    seed = torch.randn_like(want)
    seed.narrow(axis, first, first).zero_()
    grads = torch.autograd.grad(want, leaves, seed)
    sharded = torch.autograd.grad(got, shards, distribute_tensor(seed, mesh, [Shard(axis)]))
    for a, b, shard in zip(sharded, grads, shards):
        cut = shard.placements[0]
        part = b.narrow(cut.dim, 0, b.shape[cut.dim] // 2) if cut.is_shard() else b
        same(a.to_local(), [part])


def test_heads_of_a_process_do_not_stand_for_all(mesh):
    """Slopes of ALiBi follow from the number of all heads."""
    from torch.distributed.tensor import Shard, distribute_tensor

    register_sharding_rules()
    whole = rows()
    q = distribute_tensor(whole, mesh, [Shard(1)])
    with pytest.raises(ValueError, match='parameter "alibi.slopes" is made from the heads that'):
        sextant.attention(q, q, q, ["alibi"])
    with pytest.raises(ValueError, match="sandwich computes with the number of its head"):
        sextant.attention(q, q, q, ["sandwich"])
    made = sextant.init_params(["alibi"], heads=4, head_dim=8, frozen=True)
    cut = {n: distribute_tensor(t, mesh, [Shard(0)]) for n, t in made.items()}
    got = sextant.attention(q, q, q, ["alibi"], cut)
    same(got.to_local(), [sextant.attention(whole, whole, whole, ["alibi"])[:, :2]])
