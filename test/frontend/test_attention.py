"""`sextant.attention` as PyTorch sees it: shapes, gradients, compilation, errors."""

import math

import pytest
import torch

import sextant
from sextant import plans

pytest.importorskip("sextant._compiler")

ENCODINGS = ["causal", "kerple_log"]


def rows(batch=2, heads=4, length=16, dim=8, **settings):
    return torch.randn(batch, heads, length, dim, **settings)


def kerple(heads=4, **settings):
    return {
        "kerple_log.r1": torch.rand(heads, **settings) + 0.5,
        "kerple_log.r2": torch.rand(heads, **settings) + 0.5,
    }


def plain_kerple(query, key, value, params, causal=True):
    """The same by hand: softmax(q k / sqrt d - r1 log(1 + r2 |i - j|)) v."""
    group = query.shape[1] // key.shape[1]
    key, value = (t.repeat_interleave(group, 1) for t in (key, value))
    lq, lk = query.shape[2], key.shape[2]
    i = torch.arange(lk - lq, lk)[:, None]
    j = torch.arange(lk)[None]
    r1, r2 = (params[f"kerple_log.{n}"][:, None, None] for n in ("r1", "r2"))
    score = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    score = score - r1 * torch.log1p(r2 * (i - j).abs())
    if causal:
        score = score.masked_fill(j > i, -torch.inf)
    return torch.softmax(score, -1) @ value


def test_forward_and_backward_equal_plain_pytorch():
    q, k, v = rows(heads=6), rows(heads=2, length=24), rows(heads=2, length=24, dim=5)
    params = kerple(6)
    leaves = [t.requires_grad_() for t in (q, k, v, *params.values())]
    out = sextant.attention(q, k, v, ENCODINGS, params, enable_gqa=True)
    want = plain_kerple(q, k, v, params)
    torch.testing.assert_close(out, want, atol=1e-5, rtol=1e-5)
    grad = torch.randn_like(out)
    got = torch.autograd.grad(out, leaves, grad)
    for a, b in zip(got, torch.autograd.grad(want, leaves, grad)):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=2e-5)


def test_lse_and_its_gradient():
    q, k, v = (rows().requires_grad_() for _ in range(3))
    _, lse = sextant.attention(q, k, v, return_lse=True)
    want = torch.logsumexp(q @ k.transpose(-1, -2) / math.sqrt(8), -1)
    torch.testing.assert_close(lse, want, atol=1e-5, rtol=1e-5)
    grad = torch.randn_like(lse)
    for a, b in zip(
        torch.autograd.grad(lse, (q, k), grad, retain_graph=True),
        torch.autograd.grad(want, (q, k), grad),
    ):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_gradcheck_through_the_reference():
    q, k, v = (rows(1, 2, 5, 4, dtype=torch.float64).requires_grad_() for _ in range(3))
    params = {n: t.requires_grad_() for n, t in kerple(2, dtype=torch.float64).items()}

    def call(q, k, v, r1, r2):
        named = {"kerple_log.r1": r1, "kerple_log.r2": r2}
        return sextant.attention(
            q, k, v, ENCODINGS, named, return_lse=True, target="reference"
        )

    assert torch.autograd.gradcheck(call, (q, k, v, *params.values()))


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_operator_is_registered_as_torch_wants(target):
    q, k, v = (rows().requires_grad_() for _ in range(3))
    params = {n: t.requires_grad_() for n, t in kerple().items()}
    names, uses = "\n".join(params), "\n".join(ENCODINGS)
    rest = (None, None, None, None, None, 0, False, target, names)
    settings = (list(params.values()), names, uses, "", *rest)
    torch.library.opcheck(torch.ops.sextant.attention.default, (q, k, v, *settings))
    torch.library.opcheck(torch.ops.sextant.attention_values.default, (q, k, [v, v], *settings))


@pytest.mark.parametrize("deterministic", [True, False])
def test_full_graph_compilation(deterministic):
    q, k, v = (rows() for _ in range(3))
    params = kerple()

    def step(q, k, v, r1, r2):
        named = {"kerple_log.r1": r1.abs(), "kerple_log.r2": r2}
        uses = ["causal", "kerple_log"]
        return sextant.attention(q.sin(), k, v, uses, named, deterministic=deterministic).cos()

    leaves = [t.requires_grad_() for t in (q, k, v, *params.values())]
    want = step(*leaves)
    expected = torch.autograd.grad(want.sum(), leaves)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    got = compiled(*leaves)
    torch.testing.assert_close(got, want)
    for a, b in zip(torch.autograd.grad(got.sum(), leaves), expected):
        torch.testing.assert_close(a, b)


def test_compilation_by_the_default_backend():
    """Inductor makes C++ of what feeds the operator and plans the memory around it. A
    sum has no loop in the backward: compiling one takes most of the test's time."""
    from torch._inductor import cpp_builder, exc

    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler:
        pytest.skip("inductor finds no C++ compiler")
    q, k, v = (rows(1, 2) for _ in range(3))
    params = kerple(2)

    def step(q, k, v, r1, r2):
        named = {"kerple_log.r1": r1, "kerple_log.r2": r2}
        return sextant.attention(q, k + 0.5, v, ENCODINGS, named)

    leaves = [t.requires_grad_() for t in (q, k, v, *params.values())]
    want = step(*leaves)
    grad = torch.randn_like(want)
    expected = torch.autograd.grad(want, leaves, grad)
    # What PyTorch keeps of earlier graphs does not know what our shape functions said then.
    with (
        torch._functorch.config.patch(enable_autograd_cache=False),
        torch._inductor.config.patch(fx_graph_cache=False),
    ):
        got = torch.compile(step, fullgraph=True)(*leaves)
        torch.testing.assert_close(got, want)
        found = torch.autograd.grad(got, leaves, grad)
    for a, b in zip(found, expected, strict=True):
        assert b.abs().max() > 0
        torch.testing.assert_close(a, b)


def test_full_graph_compilation_of_a_traced_encoding():
    @sextant.encoding
    def rooted(score, at, slope: sextant.PerHead):
        return score - slope[at.head] * sextant.sqrt(abs(at.offset) + 1.0)

    q, slope = rows(), torch.rand(4)
    call = lambda q, m: sextant.attention(q, q, q, [rooted], {"rooted.slope": m})  # noqa: E731
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, slope), call(q, slope))


def test_one_compile_serves_all_shapes():
    before = plans.compile_count()
    for count in range(20):
        batch, heads, length = 1 + count % 3, 2 * (1 + count % 4), 1 + 7 * count
        q = rows(batch, heads, length, 12).requires_grad_()
        k = rows(batch, 2, length + count % 5, 12)
        out = sextant.attention(q, k, k, ["causal", "alibi"], enable_gqa=True)
        out.sum().backward()
        assert out.shape == q.shape and q.grad.shape == q.shape
    assert plans.compile_count() - before == 1


def test_no_grad_and_inference_mode():
    q = rows().requires_grad_()
    with torch.no_grad():
        assert not sextant.attention(q, q, q, ["causal"]).requires_grad
    with torch.inference_mode():
        plain = rows()
        sextant.attention(plain, plain, plain, ["causal"])


@pytest.mark.parametrize("kind", ["transposed", "sliced", "expanded", "flipped_dims"])
def test_any_strides(kind):
    make = {
        "transposed": lambda: torch.randn(2, 16, 4, 8).transpose(1, 2),
        "sliced": lambda: torch.randn(2, 8, 40, 20)[:, ::2, 3:35:2, 5:13],
        "expanded": lambda: torch.randn(1, 1, 16, 8).expand(2, 4, 16, 8),
        "flipped_dims": lambda: torch.randn(8, 16, 4, 2).permute(3, 2, 1, 0),
    }[kind]
    q, k, v = make(), make(), make()
    params = kerple()
    results = []
    for arrange in (lambda t: t, torch.Tensor.contiguous):
        leaves = [arrange(t).detach().requires_grad_() for t in (q, k, v)]
        out = sextant.attention(*leaves, ENCODINGS, params)
        results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    # The same sums in the same order, of operands copied in another way.
    for strided, dense in zip(*results):
        torch.testing.assert_close(strided, dense, atol=1e-6, rtol=1e-6)


def test_bf16():
    q, k, v = (rows(length=40, dim=32).bfloat16() for _ in range(3))
    params = kerple()
    out = sextant.attention(q, k, v, ENCODINGS, params)
    want = plain_kerple(q.double(), k.double(), v.double(), params)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), want, atol=2e-2, rtol=2e-2)


def test_positions_shift_nothing_in_a_relative_encoding():
    q, k, v = (rows() for _ in range(3))
    params = kerple()
    here = torch.arange(16)
    want = sextant.attention(q, k, v, ENCODINGS, params)
    for positions in (here + 100, (here - 7).expand(2, 16), here.int()[None, :, None]):
        got = sextant.attention(
            q, k, v, ENCODINGS, params, query_positions=positions, key_positions=positions
        )
        torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.3, 1e-5, 2, 2.5e-17])
def test_scale(scale):
    q, k, v = (rows() for _ in range(3))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)
    torch.testing.assert_close(
        sextant.attention(q, k, v, scale=scale), want, atol=1e-5, rtol=1e-5
    )


def test_a_scale_that_changes_is_compiled():
    call = lambda q, scale: sextant.attention(q, q, q, scale=scale)  # noqa: E731
    q, compiled = rows(), torch.compile(call, fullgraph=True, backend="eager")
    for scale in (0.3, 0.5, 2):
        torch.testing.assert_close(compiled(q, scale), call(q, scale))


def test_params_that_are_not_trained_get_no_gradient():
    q = rows()
    slopes = torch.rand(4)
    explicit = sextant.attention(q, q, q, ["alibi"], {"alibi.slopes": slopes})
    default = sextant.attention(q, q, q, ["alibi"])
    made = sextant.init_params(["alibi"], heads=4, head_dim=8, frozen=True)
    again = sextant.attention(q, q, q, ["alibi"], made)
    assert torch.equal(default, again) and not torch.allclose(default, explicit)


def test_frozen_params_have_no_gradient():
    """None, as what PyTorch does not differentiate, and not zeros, which are a wrong
    gradient: by them an optimizer takes steps of its weight decay."""

    @sextant.rows(of="embedding", group="single")
    def lifted(
        x, at, by: sextant.Param("model", frozen=True, init=lambda t: 1.0), to: sextant.Param("model")
    ):
        return x * to[at.lane] + by[at.lane]

    def both(q, slopes, r1, r2, by, to):
        params = {"kerple_log.r1": r1, "alibi.slopes": slopes, "kerple_log.r2": r2}
        x = sextant.attention(q, q, q, ["alibi", "kerple_log"], params)[:, 0]
        return sextant.map_rows(x, [lifted], {"lifted.by": by, "lifted.to": to})

    q, slopes, r1, r2 = rows(), *(torch.rand(4) for _ in range(3))
    leaves = [q, slopes, r1, r2, torch.rand(q.shape[-1]), torch.rand(q.shape[-1])]
    for leaf in leaves:
        leaf.requires_grad_()
    both(*leaves).square().sum().backward()
    given = [t.grad is not None and bool(t.grad.count_nonzero()) for t in leaves]
    assert given == [True, False, True, True, False, True]
    assert [t.grad is None for t in leaves] == [not g for g in given]


def test_integer_params():
    q, k, v = (rows(length=6) for _ in range(3))
    ids = torch.tensor([[0, 0, 0, 1, 1, 1]])
    out = sextant.attention(q, k, v, ["document"], {"document.ids": ids})
    first = sextant.attention(q[:, :, :3], k[:, :, :3], v[:, :, :3])
    torch.testing.assert_close(out[:, :, :3], first, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("dim", [1, 3, 17, 65, 129, 257])
def test_odd_head_dims(dim):
    x = rows(1, 2, 33, dim).requires_grad_()
    y = x.detach().clone().requires_grad_()
    out = sextant.attention(x, x, x, ["causal"])
    want = torch.nn.functional.scaled_dot_product_attention(y, y, y, is_causal=True)
    out.sum().backward()
    want.sum().backward()
    torch.testing.assert_close(out, want, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(x.grad, y.grad, atol=1e-4, rtol=1e-4)


def test_module_trains():
    layer = sextant.nn.Attention(32, 4, ["causal", "kerple_log"], kv_heads=2)
    assert set(layer.encoding_params()) == {"kerple_log.r1", "kerple_log.r2"}
    before = layer.kerple_log_r1.detach().clone()
    optimizer = torch.optim.SGD(layer.parameters(), lr=10.0)
    x = torch.randn(2, 10, 32)
    layer(x).square().mean().backward()
    optimizer.step()
    layer.project_()
    assert not torch.equal(before, layer.kerple_log_r1)
    assert (layer.kerple_log_r1 >= 0.01).all()
    again = sextant.nn.Attention(32, 4, ["causal", "kerple_log"], kv_heads=2)
    again.load_state_dict(layer.state_dict())
    torch.testing.assert_close(again(x), layer(x))


def test_an_exported_module_keeps_statistics_for_gradients_alone(tmp_path):
    """And serves other sizes after it was stored."""
    layer = sextant.nn.Attention(32, 4, ["causal", "rope", "kerple_log"], kv_heads=2)
    sizes = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}}
    exported = torch.export.export(layer, (torch.randn(2, 9, 32),), dynamic_shapes=sizes)
    torch.export.save(exported, tmp_path / "layer.pt2")
    graph = torch.export.load(tmp_path / "layer.pt2").module()
    (call,) = (n for n in graph.graph.nodes if n.target == torch.ops.sextant.attention.default)
    assert call.args[-1] is None
    x = torch.randn(3, 14, 32)
    with torch.no_grad():
        torch.testing.assert_close(graph(x), layer(x))
    for module in (graph, layer):
        module(x).square().sum().backward()
    torch.testing.assert_close(graph.kerple_log_r1.grad, layer.kerple_log_r1.grad)


def test_initial_values_of_a_module_follow_the_generator():
    make = lambda: sextant.nn.Attention(32, 4, ["kerple_log", "t5_bias"])  # noqa: E731
    torch.manual_seed(11)
    first, second = make(), make()
    torch.manual_seed(11)
    again = make()
    for name, value in first.named_parameters():
        assert torch.equal(value, again.get_parameter(name)), name
        assert not torch.equal(value, second.get_parameter(name)), name


def test_a_module_built_on_the_meta_device():
    with torch.device("meta"):
        layer = sextant.nn.Attention(32, 4, ["causal", "kerple_log"])
    assert {p.device.type for p in layer.parameters()} == {"meta"}
    layer.to_empty(device="cpu")
    with torch.no_grad():
        for value in layer.parameters():
            value.fill_(torch.nan)
    torch.manual_seed(3)
    layer.reset_parameters()
    torch.manual_seed(3)
    linear = torch.nn.Linear(32, 32)
    assert torch.equal(layer.query.weight, linear.weight)
    r1 = layer.kerple_log_r1
    assert (r1 >= 0.01).all() and (r1 <= 2.0).all() and len(r1.unique()) == 4
    assert layer(torch.randn(2, 5, 32)).isfinite().all()


def test_a_learned_table_stretches_to_the_greatest_position():
    """Not to how many rows the call has."""
    table = {"learned.table": torch.randn(8, 6)}
    use, x = ["learned(rows=8, train_length=8)"], torch.randn(2, 16, 6)
    whole = sextant.map_rows(x, use, table)
    part = torch.tensor([0, 3, 15])
    torch.testing.assert_close(
        sextant.map_rows(x[:, part], use, table, positions=part), whole[:, part]
    )
    near = sextant.map_rows(x, use, table, positions=torch.arange(16) // 2)
    torch.testing.assert_close(near, x + table["learned.table"][torch.arange(16) // 2])
