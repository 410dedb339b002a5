"""What must not change a result: a shift of all positions, terms that the softmax does
not see, a rewrite, a network of zeros, an exit that saves work.

On the reference in float64 and on the kernels in f32; each test says how far f32 may
be off. Inputs are fresh per run; the seed is printed.
"""

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")
pytest.importorskip("sextant._compiler")

from targets import in_turn

from sextant import backend, definitions

CPU = [t for t in backend.compiler().list_targets() if t in ("cpu:avx2", "cpu:avx512")]
TARGETS = ["reference", *CPU]
# Sums of 16 products and of 40 probabilities of order 1, rounded in another order.
TOLERANCE = {"reference": 1e-9, **dict.fromkeys(CPU, 2e-05)}


def with_targets(values):
    """Each value on the reference, and on one of the CPU's targets in turn: that all
    of them match the reference is tested in conformance."""
    return [("reference", v) for v in values] + (in_turn(values, CPU) if CPU else [])


def normal(draw, *shape):
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def make_params(draw, uses, heads=4, head_dim=16):
    """Initial values, moved so that none is 0."""
    seed = int(torch.randint(0, 2**31, (), generator=draw))
    params = sextant.init_params(
        uses, heads=heads, head_dim=head_dim, seed=seed, dtype=torch.float64
    )
    return {n: t + 0.1 * torch.rand(t.shape, generator=draw) for n, t in params.items()}


def make_rows(draw, heads=4, length=40, head_dim=16):
    """Query, key, value and the gradients of output and log-sum-exp."""
    rows = [normal(draw, 2, heads, length, head_dim) for _ in range(4)]
    return [*rows, normal(draw, 2, heads, length)]


def run(uses, params, rows, target, use_lse=True, **given):
    """Output, log-sum-exp, and the gradients of rows and parameters, by name."""
    dtype = torch.float64 if target == "reference" else torch.float32
    leaves = [t.to(dtype).requires_grad_() for t in rows[:3]]
    own = {n: t.to(dtype).clone().requires_grad_() for n, t in params.items()}
    out, lse = sextant.attention(
        *leaves, uses, own, return_lse=True, target=target, **given
    )
    seeds = [t.to(dtype) for t in rows[3:]]
    torch.autograd.backward([out, lse], [seeds[0], seeds[1] * use_lse])
    results = {"output": out, "lse": lse, **dict(zip(("dq", "dk", "dv"), (t.grad for t in leaves)))}
    results |= {f"d {n}": t.grad for n, t in own.items()}
    return {n: t.detach().double() for n, t in results.items()}


def same(got, want, target, names=("output", "lse", "dq", "dk", "dv"), factor=1.0):
    """Equal up to the target's tolerance, relative to a result's size."""
    for name in names:
        size = max(1.0, float(want[name].abs().max()))
        error = float((got[name] - want[name]).abs().max()) / size
        assert error <= factor * TOLERANCE[target], f"{name}: {error:.2e}"


# Positions moved together ------------------------------------------------------

# Turns by two axes at once do not commute, so equal offsets do not mean equal scores.
ABSOLUTE_ROWS = {"liere"}


def is_relative(name):
    """Whether a definition sees positions by their offset, or turns query and key by
    them."""
    found = definitions.signature([name])
    if found.operands - {"query", "key"} or any(p.given for p in found.params):
        return False
    text = re.sub(r"//.*", "", Path(sextant.describe(name).file).read_text())
    return name not in ABSOLUTE_ROWS and not re.search(
        r"pos\.index|pos\.coord (query|key)", text
    )


RELATIVE = [e.name for e in sextant.encodings() if is_relative(e.name)]


def test_relative_encodings_are_found():
    assert {"alibi", "rope", "rope_2d", "swin", "kerple_log", "dape", "shaw"} <= set(RELATIVE)
    assert not {"fire", "causal", "learned", "document"} & set(RELATIVE)


HOSTED = ["dape(kerple_log)", "dape(alibi, variant=concat)"]


@pytest.mark.parametrize("target, use", with_targets(RELATIVE + HOSTED))
def test_shift(draw, use, target):
    """Also by so much that f32 no longer holds every position."""
    rows, params = make_rows(draw, length=12), make_params(draw, [use])
    here = torch.randint(0, 9, (1, 12, 2), generator=draw, dtype=torch.int32)
    first = run(["causal", use], params, rows, target, query_positions=here, key_positions=here)
    for shift in ([5, 11], [20_000_001, 33_333_333]):
        moved = here + torch.tensor(shift, dtype=torch.int32)
        second = run(
            ["causal", use], params, rows, target, query_positions=moved, key_positions=moved
        )
        # Learned frequencies are no whole numbers: an angle of 5e7 is rounded at 2^-28.
        is_far = target == "reference" and max(shift) > 1e6
        same(second, first, target, factor=50 if is_far else 1)


# Terms that the softmax does not see -------------------------------------------


@sextant.encoding
def by_key(score, at, slope: sextant.PerHead):
    """m j: what is left of -m (i - j) without the term of the row."""
    return score + slope[at.head] * at.coord("key")


@sextant.encoding
def by_distance(score, at, slope: sextant.PerHead):
    return score + slope[at.head] * at.offset


@pytest.mark.parametrize("target", TARGETS)
def test_a_slope_on_keys_is_a_slope_on_distances(draw, target):
    rows, slope = make_rows(draw), normal(draw, 4)
    by_name = [
        run(["causal", e], {f"{e.name}.slope": slope}, rows, target, use_lse=False)
        for e in (by_key, by_distance)
    ]
    slopes = [r.pop(f"d {e.name}.slope") for r, e in zip(by_name, (by_key, by_distance))]
    # m j is 100 where -m (i - j) is 0: what f32 keeps of it is as much coarser.
    same(*by_name, target, names=("output", "dq", "dk", "dv"), factor=10)
    torch.testing.assert_close(*slopes, rtol=1e-3 if target != "reference" else 1e-9, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("use", ["fire", "dape(kerple_log)", "dape(variant=add_residual)"])
def test_the_last_bias_of_a_network_moves_the_log_sum_exp_only(draw, use, target):
    name = use.split("(")[0] + ".b2"
    rows, params = make_rows(draw), make_params(draw, [use])
    before = run(["causal", use], params, rows, target)
    step = normal(draw, 4)
    after = run(["causal", use], params | {name: params[name] + step}, rows, target)
    same(after, before, target, names=("output", "dq", "dk", "dv"))
    same({"lse": after["lse"] - step[:, None]}, before, target, names=("lse",))
    # Its gradient is that of the log-sum-exp; nothing comes through the output.
    size = rows[4].abs().sum((0, 2))
    wanted = rows[4].sum((0, 2))
    assert ((before[f"d {name}"] - wanted).abs() <= TOLERANCE[target] * size).all()


# Networks that do nothing ------------------------------------------------------


VARIANTS = ["concat_residual", "add_residual"]
# The first of three hosts with the other variant is on the other target.
NETWORKS = [(h, v) for v in VARIANTS for h in ("kerple_log", "alibi", "fire")]


@pytest.mark.parametrize("target, network", with_targets(NETWORKS), ids=str)
def test_a_network_of_zeros_is_its_host(draw, network, target):
    host, variant = network
    use = f"dape({host}, variant={variant})"
    rows, params = make_rows(draw), make_params(draw, [use])
    for name in ("w2", "b2"):
        params[f"dape.{name}"].zero_()
    names = [n for n in params if n.startswith(f"dape.{host}.")]
    alone = {n.removeprefix("dape."): params[n] for n in names}
    got = run(["causal", use], params, rows, target)
    want = run(["causal", host], alone, rows, target)
    same(got, want, target)
    for name in names:
        got["d " + name.removeprefix("dape.")] = got.pop(f"d {name}")
    # Gradients of parameters are sums over 4000 scores.
    same(got, want, target, names=[f"d {n}" for n in alone], factor=20)


@pytest.mark.parametrize("target", TARGETS)
def test_without_host_a_network_of_zeros_is_nothing(draw, target):
    rows, params = make_rows(draw), make_params(draw, ["dape"])
    for name in ("w2", "b2"):
        params[f"dape.{name}"].zero_()
    same(run(["causal", "dape"], params, rows, target), run(["causal"], {}, rows, target), target)


@pytest.mark.parametrize("target", TARGETS)
def test_the_identity_mixes_no_heads(draw, target):
    """Talking heads start as the identity: as if they were not there."""
    rows = make_rows(draw)
    params = sextant.init_params(["talking_heads"], heads=4, head_dim=16)
    assert torch.equal(params["talking_heads.pre"], torch.eye(4))
    got = run(["causal", "talking_heads"], params, rows, target)
    same(got, run(["causal"], {}, rows, target), target)


# Rewrites ----------------------------------------------------------------------


def network(scores, host, w1, b1, w2, heads):
    seen = sextant.contract(w1, scores, 0) + sextant.contract(w1, host, heads)
    return scores + host + sextant.contract(w2, sextant.tanh(seen + b1))


@sextant.encoding(all_heads=True)
def hoisted(
    scores,
    at,
    w1: sextant.Param("hidden", "2 * heads"),
    b1: sextant.Param("hidden"),
    w2: sextant.Param("heads", "hidden"),
    *,
    hidden=6,
):
    return network(scores, at.host, w1, b1, w2, at.extent("heads"))


@sextant.encoding(all_heads=True)
def kept(
    scores,
    at,
    w1: sextant.Param("hidden", "2 * heads"),
    b1: sextant.Param("hidden"),
    w2: sextant.Param("heads", "hidden"),
    *,
    hidden=6,
):
    """The same, whose host varies with the key as far as the compiler sees, so that
    no part of it becomes a table over offsets."""
    one = sextant.where(at.key >= 0, 1.0, 0.0)
    return network(scores, at.host * one, w1, b1, w2, at.extent("heads"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("given", [False, True], ids=["index", "positions"])
def test_hoisted_vectors_change_nothing(draw, target, given):
    rows, results = make_rows(draw, length=70), []
    positions = {}
    if given:
        steps = torch.randint(1, 4, (2, 70, 1), generator=draw).cumsum(1).to(torch.int32)
        positions = dict(query_positions=steps, key_positions=steps)
    moved = make_params(draw, [hoisted("kerple_log")])
    for encoding in (hoisted, kept):
        params = {encoding.name + n.removeprefix("hoisted"): t for n, t in moved.items()}
        found = run(["causal", encoding("kerple_log")], params, rows, target, **positions)
        results.append({n.replace(encoding.name, "network"): t for n, t in found.items()})
    same(*results, target)
    # Gradients of parameters are sums over 2 x 70 x 71 / 2 scores.
    parameters = [n for n in results[0] if n.startswith("d network")]
    assert len(parameters) == 5
    same(*results, target, names=parameters, factor=20)


# Early exit --------------------------------------------------------------------


@pytest.mark.parametrize("target", CPU)
@pytest.mark.parametrize("length", [65, 300])
def test_a_scan_that_exits_early_is_one_that_never_does(draw, target, length):
    """A table of 9 columns against one of 600 whose further columns repeat the last:
    the first clamps within some 20 keys, the second never does."""
    rows = make_rows(draw, length=length)
    table = normal(draw, 16, 9)
    longer = torch.cat([table, table[:, -1:].expand(16, 591)], 1)
    early, never = (
        run(["causal", f"cope(positions={t.shape[1]})"], {"cope.table": t}, rows, target)
        for t in (table, longer)
    )
    # A gate that opens a little moves all positions behind it.
    same(early, never, target, factor=5)
    gradient = never["d cope.table"]
    folded = torch.cat([gradient[:, :8], gradient[:, 8:].sum(1, keepdim=True)], 1)
    same({"t": early["d cope.table"]}, {"t": folded}, target, names=["t"], factor=20)
