"""Scores of all heads against plain PyTorch in float64: values and every gradient.

Nothing here is shared with Sextant but the names of parameters. Tolerance: f32
literals of a definition (LeakyReLU's slope) differ by 6e-8 of themselves; all
else is float64 rounding.
"""

import math

import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")

TOLERANCE = 1e-6
VARIANTS = ["concat_residual", "concat", "add_residual", "bias_residual"]


def normal(draw, *shape):
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def distances(lq, lk):
    """|i - j|, aligned at the end."""
    query = torch.arange(lq)[:, None] + lk - lq
    return (query - torch.arange(lk)[None]).abs().double()


def kerple_log(params, heads, lq, lk, prefix):
    r1, r2 = (params[f"{prefix}.{n}"][:, None, None] for n in ("r1", "r2"))
    return -r1 * torch.log1p(r2 * distances(lq, lk))


def alibi(params, heads, lq, lk, prefix):
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)])
    return -slopes.double()[:, None, None] * distances(lq, lk)


HOSTS = {"kerple_log": kerple_log, "alibi": alibi}


def network(params, inputs, name):
    """Linear, LeakyReLU, Linear over dimension 1."""
    hidden = torch.einsum("ug,bgij->buij", params[f"{name}.w1"], inputs)
    hidden = torch.nn.functional.leaky_relu(hidden + params[f"{name}.b1"][:, None, None], 0.01)
    out = torch.einsum("hu,buij->bhij", params[f"{name}.w2"], hidden)
    return out + params[f"{name}.b2"][:, None, None]


def dape(scores, params, hosts, variant, name="dape"):
    _, heads, lq, lk = scores.shape
    bias = torch.zeros(heads, lq, lk, dtype=torch.float64)
    for host in hosts:
        bias = bias + HOSTS[host](params, heads, lq, lk, f"{name}.{host}")
    bias = bias.expand_as(scores)
    if variant in ("add_residual", "bias_residual"):
        seen = scores + bias if variant == "add_residual" else bias
        return scores + bias + network(params, seen, name)
    out = scores + network(params, torch.cat([scores, bias], 1), name)
    return out if variant == "concat" else out + bias


def attention(q, k, v, score, causal):
    group = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    scores = score(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))
    lq, lk = scores.shape[-2:]
    if causal:
        visible = torch.arange(lk)[None] <= torch.arange(lq)[:, None] + lk - lq
        scores = scores.masked_fill(~visible, -torch.inf)
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)


def compare(draw, uses, score, params, shape=(2, 3, 3, 7, 9, 8), causal=True):
    """Shape is (B, H, Hkv, Lq, Lk, d)."""
    batch, heads, kv_heads, lq, lk, dim = shape
    params = {n: t.double() for n, t in params.items()}
    leaves = [
        normal(draw, batch, heads, lq, dim),
        normal(draw, batch, kv_heads, lk, dim),
        normal(draw, batch, kv_heads, lk, dim + 4),
    ]
    seeds = normal(draw, batch, heads, lq, dim + 4), normal(draw, batch, heads, lq)
    results = []
    for run in ("plain", "sextant"):
        own = {n: t.clone().requires_grad_() for n, t in params.items()}
        q, k, v = (t.clone().requires_grad_() for t in leaves)
        if run == "plain":
            out = attention(q, k, v, lambda s: score(s, own), causal)
        else:
            out = sextant.attention(
                q, k, v, uses + ["causal"] * causal, own, return_lse=True, enable_gqa=True,
                target="reference",
            )  # fmt: skip
        torch.autograd.backward(out, seeds)
        named = {"output": out[0], "lse": out[1], "dq": q.grad, "dk": k.grad, "dv": v.grad}
        results.append(named | {f"d {n}": t.grad for n, t in own.items()})
    want, got = results
    for name, tensor in want.items():
        torch.testing.assert_close(
            got[name].detach(), tensor.detach(), rtol=TOLERANCE, atol=TOLERANCE, msg=lambda m: f"{name}: {m}"
        )


def initial(draw, uses, heads):
    seed = int(torch.randint(0, 2**31, (), generator=draw))
    return sextant.init_params(uses, heads=heads, head_dim=8, seed=seed)


SHAPES = [(2, 3, 3, 7, 9, 8), (1, 4, 2, 5, 5, 8), (1, 1, 1, 1, 6, 8)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", [True, False])
def test_talking_heads(draw, shape, causal):
    params = {"talking_heads.pre": normal(draw, shape[1], shape[1])}

    def score(s, own):
        return torch.einsum("hg,bgij->bhij", own["talking_heads.pre"], s)

    compare(draw, ["talking_heads"], score, params, shape, causal)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("hosts", [[], ["kerple_log"], ["alibi"], ["kerple_log", "alibi"]])
def test_dape(draw, variant, hosts):
    use = f"dape({', '.join([*hosts, f'variant={variant}', 'hidden=5'])})"
    params = initial(draw, [use], 4)
    assert {n for n in params if n.count(".") == 2} == {
        f"dape.kerple_log.{r}" for r in ("r1", "r2") if "kerple_log" in hosts
    }

    def score(s, own):
        return dape(s, own, hosts, variant)

    compare(draw, [use], score, params, (2, 4, 2, 6, 8, 8))


@pytest.mark.parametrize("shape", SHAPES)
def test_dape_among_others(draw, shape):
    """Scalar scores before and after act at every head; another instance's name."""
    use = ["talking_heads", "kerple_log", "mix=dape(kerple_log, hidden=3)", "softcap(cap=2)"]
    params = initial(draw, use, shape[1])
    params["talking_heads.pre"] = normal(draw, shape[1], shape[1])

    def score(s, own):
        heads, lq, lk = s.shape[1:]
        s = torch.einsum("hg,bgij->bhij", own["talking_heads.pre"], s)
        s = s + kerple_log(own, heads, lq, lk, "kerple_log")
        s = dape(s, own, ["kerple_log"], "concat_residual", "mix")
        return 2 * torch.tanh(s / 2)

    compare(draw, use, score, params, shape)


# Bad input ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "use, message",
    [
        ("dape(softcap)", "is not additive in the score: it cannot be a host"),
        ("dape(causal)", "is no score: @causal cannot be a host"),
        ("dape(talking_heads)", "of all heads: @talking_heads cannot be a host"),
        ("alibi(kerple_log)", "there is no 'pos.host' in @alibi"),
        ("dape(kerple_log, kerple_log)", 'two hosts are called "kerple_log"'),
    ],
)
def test_hosts_that_are_none(draw, use, message):
    x = normal(draw, 1, 2, 3, 8)
    with pytest.raises(sextant.CompileError, match=message):
        params = {n: t.double() for n, t in initial(draw, [use], 2).items()}
        sextant.attention(x, x, x, [use], params, target="reference")


@pytest.mark.parametrize("use, name", [("talking_heads", "pre"), ("dape", "w1"), ("dape(alibi)", "w2")])
def test_parameters_of_another_head_count(draw, use, name):
    x = normal(draw, 1, 2, 3, 8)
    instance = use.split("(")[0]
    params = initial(draw, [use], 2) | {
        n: t for n, t in initial(draw, [use], 3).items() if n == f"{instance}.{name}"
    }
    params = {n: t.double() for n, t in params.items()}
    with pytest.raises(ValueError, match=rf'"{instance}.{name}" must have shape .* got \('):
        sextant.attention(x, x, x, [use], params, target="reference")
