"""Python functions traced into `pos.encoding`: the text, and what is refused."""

import functools
import math
import typing

import numpy
import pytest
import torch

import sextant
from sextant import CompileError


@sextant.encoding(formula="s - m_h sqrt|d|", paper="nobody, never")
def rooted(score, at, slope: sextant.PerHead):
    return score - slope[at.head] * sextant.sqrt(abs(at.offset))


ROOTED = """\
pos.encoding @rooted attributes {formula = "s - m_h sqrt|d|", paper = "nobody, never"} {
  %heads = pos.extent heads
  %c = arith.constant 0.0 : f32
  %c_2 = arith.constant 0.02 : f32
  %slope = pos.param "slope" : tensor<?xf32> dims(%heads) init normal(%c, %c_2)
  pos.score {
  ^bb0(%s: f32):
    %head = pos.head
    %v = pos.read %slope[%head] : tensor<?xf32>
    %offset = pos.offset
    %v_2 = math.absi %offset : i32
    %v_3 = arith.sitofp %v_2 : i32 to f32
    %v_4 = math.sqrt %v_3 : f32
    %v_5 = arith.mulf %v, %v_4 : f32
    %v_6 = arith.subf %s, %v_5 : f32
    pos.yield %v_6 : f32
  }
}
"""


@sextant.mask
def near_or_first(at):
    return (at.query - at.key < 64) | (at.key < 4)


@sextant.encoding(all_heads=True)
def mixer(
    scores,
    at,
    w1: sextant.Param("hidden", "heads"),
    b1: sextant.Param("hidden"),
    w2: sextant.Param("heads", "hidden"),
    *,
    hidden=16,
):
    inner = sextant.tanh(sextant.contract(w1, scores) + b1)
    return scores + 2 * sextant.contract(w2, inner)


@sextant.rows(of=("query", "key"), group="half", lanes=(0, 32))
def turned(x, y, at, *, base=10000.0, kind: typing.Literal["slow", "fast"] = "slow"):
    angle = at.coord() * base ** (-2.0 * at.lane / at.extent("head_dim"))
    angle *= sextant.where(kind == "fast", 2.0, 1)
    c, s = sextant.cos(angle), sextant.sin(angle)
    return x * c - y * s, x * s + y * c


@sextant.rows(of="value", group="single")
def faded(x, at):
    return x * sextant.exp(-0.1 * at.row)


@sextant.columns("2 * n")
def embedded(at, table: sextant.Param("key", "2 * n"), *, n=4):
    return table[at.query, at.lane], sextant.sin(at.coord("key") / (at.lane + 1.0))


@sextant.turn_rows(of="key", block="2 * n")
def spun(block, row, column, at, table: sextant.Param("head_dim // (2 * n)"), *, n=2):
    return table[block] * (at.row + at.coord(axis=1)) * (row - column)


@sextant.encoding
def everything(
    score,
    at,
    c: sextant.Param(init=sextant.constant_init(0.1)),
    table: sextant.Param(
        "2 * n + 1", "heads", init=lambda i, h: i / (h + 1.0), floor=0.01, scope="model"
    ),
    w: sextant.Param("n", ceiling=2.0),
    fixed: sextant.Param(3, frozen=True, init=lambda i: 2.0**-i),
    ids: sextant.Param("batch", "key", integer=True),
    *,
    n=4,
    both=True,
):
    x = sextant.log1p(sextant.abs(c) * abs(at.offset))
    hidden = sextant.sum(lambda k: sextant.relu(w[k] * x), n)
    entry = table[sextant.minimum(abs(at.offset), 2 * n), at.head]
    same = (ids[at.batch, at.key] == ids[at.batch, at.query]) & both
    bits = ((at.key >> 2) ^ 1) % 3 + at.offset(1) // 2
    wild = c**1.5 + score**2 + fixed[1] // 0.5 + sextant.sigmoid(score) * at.scale
    choice = sextant.where(same & ~(score < 0), 0.5, -1)
    return sextant.maximum(score, hidden * entry) + bits + wild + choice + math.inf


@pytest.mark.parametrize(
    "encoding",
    [rooted, near_or_first, mixer, turned, faded, embedded, spun, everything],
    ids=lambda e: e.name,
)
def test_the_compiler_reads_what_is_traced(encoding, sextant_opt):
    printed = sextant_opt(encoding.text)
    assert f"@{encoding.name}" in printed
    sextant_opt(encoding.located)


def test_golden_text():
    assert rooted.text == ROOTED


def test_locations_are_the_lines_of_the_function():
    assert f'math.sqrt %v_3 : f32 loc("{__file__}":' in rooted.located


def test_options_and_instance_names():
    assert str(mixer) == "mixer"
    assert str(mixer(hidden=4).named("m2")) == "m2=mixer(hidden=4)"
    with pytest.raises(CompileError, match='no option "hiden"; did you mean "hidden"'):
        mixer(hiden=4)


@sextant.mask
def near(at, *, size: sextant.Range(at_least=1, at_most=9) = 4, unit: sextant.Range(above=0) = 1.0):
    return abs(at.offset) * unit < size


def test_ranges_of_options():
    assert 'pos.option "size" : i32 = 4 : i32 at_least 1 at_most 9' in near.text
    assert "option size = 4, at least 1 and at most 9" in str(sextant.describe(near))
    says = "'size' of @near is 10, but must be at least 1 and at most 9"
    with pytest.raises(CompileError, match=says):
        sextant.init_params([near(size=10)], heads=1, head_dim=8)
    with pytest.raises(CompileError, match="'unit' of @near is 0, but must be above 0"):
        sextant.init_params([near(unit=0.0)], heads=1, head_dim=8)


@sextant.encoding(all_heads=True)
def hosted(scores, at, w: sextant.Param("heads", "2 * heads"), pull: sextant.Param("heads")):
    heads = at.extent("heads")
    seen = sextant.contract(w, scores, 0) + sextant.contract(w, at.host, heads)
    return scores + at.host + 0.5 * sextant.tanh(seen) * pull


def test_hosts_and_columns_of_all_heads(sextant_opt):
    """A traced score of all heads over a host, against PyTorch in float64."""
    sextant_opt(hosted.text)
    use = hosted("kerple_log")
    assert str(use) == "hosted(kerple_log)"
    draw = torch.Generator().manual_seed(3)

    def normal(*shape):
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    q, k, v = normal(1, 3, 5, 8), normal(1, 3, 6, 8), normal(1, 3, 6, 8)
    params = {
        "hosted.w": normal(3, 6),
        "hosted.pull": normal(3),
        "hosted.kerple_log.r1": normal(3).abs(),
        "hosted.kerple_log.r2": normal(3).abs(),
    }
    leaves = [t.requires_grad_() for t in (q, k, v, *params.values())]
    got = sextant.attention(q, k, v, [use], params, target="reference")
    w, pull, r1, r2 = (t if t.dim() > 1 else t[:, None, None] for t in params.values())
    distance = (torch.arange(6)[None] - torch.arange(5)[:, None] - 1).abs().double()
    scores = q @ k.transpose(-1, -2) / 8**0.5
    host = (-r1 * torch.log1p(r2 * distance)).expand_as(scores)
    seen = torch.einsum("hg,bgij->bhij", w, torch.cat([scores, host], 1))
    want = torch.softmax(scores + host + 0.5 * torch.tanh(seen) * pull, -1) @ v
    torch.testing.assert_close(got, want)
    seed = normal(*got.shape)
    for a, b in zip(torch.autograd.grad(got, leaves, seed), torch.autograd.grad(want, leaves, seed)):
        torch.testing.assert_close(a, b)


def test_a_host_is_of_a_score():
    with pytest.raises(CompileError, match="at.host has a meaning in a score only"):

        @sextant.mask
        def wrong(at):
            return at.host < 0


def test_what_there_is_not_at_a_place():
    """An error at the line of the function, before anything is compiled."""
    with pytest.raises(CompileError, match="at.head has no meaning in a score of all heads"):

        @sextant.encoding(all_heads=True)
        def own(scores, at, m: sextant.PerHead):
            return scores * m[at.head]

    with pytest.raises(CompileError, match=r"at.offset has no meaning in a map of rows.*at.coord\(\)"):

        @sextant.rows(of="value", group="single")
        def relative(x, at):
            return x * at.offset

    with pytest.raises(CompileError, match="at.lane has no meaning in a map of rows; the argument is the whole row"):

        @sextant.rows(of="value", group="whole")
        def numbered(x, at):
            return x * at.lane

    with pytest.raises(CompileError, match="at.lane has no meaning in a mask"):

        @sextant.mask
        def wide(at):
            return at.lane < 3


def test_equal_ops_are_written_once():
    @sextant.encoding
    def twice(score, at):
        return score + at.offset * 2.0 + at.offset * 2.0

    assert twice.text.count("pos.offset") == 1
    assert twice.text.count("arith.mulf") == 1


KEPT = []


def kept_from_before(score):
    """What a closure keeps of the first of a function's calls."""
    KEPT.append(score)
    return KEPT[0] + score


def taken_out_of_a_sum(score, at):
    box = []

    def term(k):
        box.append(k * at.head)
        return box[-1]

    return score + sextant.sum(term, 4) + box[0]


def test_numbers_of_numpy():
    """They are Python's numbers, on both sides of an operator."""

    @sextant.encoding
    def theirs(score, at):
        both = numpy.float64(0.1) * score + score * numpy.float32(2) + at.head * numpy.int64(3)
        return sextant.where(numpy.bool_(True), both, score)

    @sextant.encoding
    def ours(score, at):
        both = 0.1 * score + score * 2.0 + at.head * 3
        return sextant.where(True, both, score)

    assert theirs.text.split("{", 1)[1] == ours.text.split("{", 1)[1]


def test_calls_of_encodings():
    """Hosts go by position, options by name; everything else says what to write."""

    @sextant.encoding
    def near(score, at, *, reach=4):
        return score - sextant.minimum(abs(at.offset), reach)

    q = torch.ones(1, 1, 2, 4)
    for call, message in (
        (lambda: near(q, q, q), r"got Tensor; an encoding computes inside attention.*\[near\]"),
        (lambda: near(5), r"got int; options go by name: near\(reach=\.\.\.\)"),
        (lambda: near(reech=5), 'no option "reech"; did you mean "reach"'),
        (lambda: near(reach=[1]), "is a number, true or false"),
        (lambda: near("alibi"), "takes no hosts: its function does not ask for at.host"),
        (lambda: near(near), "a host is the name of an installed encoding"),
    ):
        with pytest.raises(CompileError, match=message):
            call()
    assert str(near(reach=5)) == "near(reach=5)"


def test_options_are_numbers_of_numpy_or_any_text():
    """A grid search gives the former, and a choice need not be a name."""

    @sextant.encoding
    def capped(
        score, at, *, reach=4, slope=1.0, on=True, mode: typing.Literal["1-d", "2d"] = "1-d"
    ):
        bias = slope * sextant.minimum(abs(at.offset), reach)
        return sextant.where((mode == "2d") & on, score - bias, score)

    chosen = capped(
        reach=numpy.int64(2), slope=numpy.float64(0.5), on=numpy.bool_(True), mode="2d"
    )
    q = torch.randn(1, 1, 5, 4)
    distance = (torch.arange(5)[:, None] - torch.arange(5)).abs()
    want = torch.softmax(q @ q.mT / 2 - 0.5 * distance.clamp(max=2), -1) @ q
    torch.testing.assert_close(sextant.attention(q, q, q, [chosen]), want)
    assert str(capped(slope=numpy.float32(0.5))) == "capped(slope=0.5)"


def test_terms_of_a_sum_may_come_from_anywhere():
    """From a function beside it, from one whose arguments are bound, or from k alone."""

    def far(k):
        return sextant.cos(0.5 * k)

    @sextant.encoding
    def waves(score, at):
        def near(k):
            return sextant.cos(at.offset * k)

        bound = functools.partial(lambda offset, k: offset * k, at.offset)
        return score + sextant.sum(lambda k: near(k), 3) + sextant.sum(bound, 3) + sextant.sum(far, 3)

    q = torch.randn(1, 1, 5, 4)
    offset = (torch.arange(5) - torch.arange(5)[:, None]).float()
    bias = sum(torch.cos(offset * k) + offset * k + math.cos(0.5 * k) for k in range(3))
    want = torch.softmax(q @ q.mT / 2 + bias, -1) @ q
    torch.testing.assert_close(sextant.attention(q, q, q, [waves]), want)
    with pytest.raises(CompileError, match="sextant.sum stands in a function that is traced"):
        sextant.sum(far, 3)


def test_a_name_means_one_encoding():
    """A traced function called as an installed encoding stands for itself alone: where a
    text names the installed one, too, that is an error."""

    @sextant.encoding
    def alibi(score, at):
        return score * 0.0

    q = torch.randn(1, 1, 3, 4)
    out = sextant.attention(q, q, q, [alibi, "causal"])
    assert torch.allclose(out[0, 0, 2], q[0, 0].mean(0), atol=1e-5)
    for uses in (["b=alibi", alibi], [alibi, "dape(alibi)"], [hosted("alibi"), alibi]):
        with pytest.raises(CompileError, match='"alibi" names a traced function.*rename'):
            sextant.attention(q, q, q, uses)


def test_tracebacks_are_short():
    """From the line of the decorator to the error there are few frames of ours."""
    with pytest.raises(CompileError) as info:
        _score(lambda s, at, m, t: math.sqrt(s))()
    assert len(info.traceback) <= 5
    assert info.value.__cause__ is None and info.value.__suppress_context__


def _score(body):
    def f(score, at, slope: sextant.PerHead, table: sextant.Param("heads", 3)):
        return body(score, at, slope, table)

    return lambda: sextant.encoding(f)


@pytest.mark.parametrize(
    "body, message",
    [
        (lambda s, at, m, t: s if at.offset > 0 else -s, "sextant.where"),
        (lambda s, at, m, t: s + (0 <= at.key < 3), "0 <= x < 3"),
        (lambda s, at, m, t: max(s, 0.0), "min or max"),
        (lambda s, at, m, t: math.sqrt(s), "sextant.sqrt"),
        (lambda s, at, m, t: s + sum(range(at.head)), "sextant.to_int"),
        (lambda s, at, m, t: torch.exp(s), "torch's exp"),
        (lambda s, at, m, t: s + torch.ones(3), "tensors come in as parameters"),
        (lambda s, at, m, t: s + t, r"index it: table\[i, i\]"),
        (lambda s, at, m, t: s + t[at.head], r"has 2 dim\(s\)"),
        (lambda s, at, m, t: s + m[s], "an index must be an integer"),
        (lambda s, at, m, t: s + (at.head < 2), "where"),
        (lambda s, at, m, t: s + at.offest, 'did you mean "offset"'),
        (lambda s, at, m, t: s & 1, "combines conditions"),
        (lambda s, at, m, t: None, "returns nothing"),
        (lambda s, at, m, t: at.head < 2, "condition is not a number"),
        (lambda s, at, m, t: s + at.coord("kay"), 'did you mean "key"'),
        (lambda s, at, m, t: s + at.coord(1), r'is a side, got 1; write at.coord\(axis=1\), or at.coord\("query", 1\)'),
        (lambda s, at, m, t: s + at.coord("key", 0.5), "axis of at.coord .*whole number.*got 0.5"),
        (lambda s, at, m, t: s + at.offset("x"), "axis of at.offset must be .*got 'x'"),
        (lambda s, at, m, t: s + at.least_coord("key", -1), "axis of at.least_coord .*got -1"),
        (lambda s, at, m, t: s + at.extent("head"), 'did you mean "heads"'),
        (lambda s, at, m, t: s + "x", "got str"),
        (lambda s, at, m, t: m, "must return a number"),
        (lambda s, at, m, t: s + m[0].foo, "foo"),
        (lambda s, at, m, t: s + sextant.contract(t, s), "is a vector"),
        (lambda s, at, m, t: s + sextant.exp(2.0), "takes a traced value"),
        (lambda s, at, m, t: list(s), "sextant.sum"),
        (lambda s, at, m, t: s + (at.head + 2**40), "32-bit"),
        (lambda s, at, m, t: s + at.row, "at.row has no meaning in a score; use at.query"),
        (lambda s, at, m, t: s + at.coord(), r"at.coord\(\) has no meaning in a score"),
        (lambda s, at, m, t: s * at.lane, "scores have none"),
        (lambda s, at, m, t: numpy.sqrt(s), r"numpy's sqrt cannot be traced; write sextant\.sqrt"),
        (lambda s, at, m, t: numpy.where(s > 0, s, 0), r"numpy's where.*sextant\.where"),
        (lambda s, at, m, t: numpy.maximum(s, 0), r"numpy's maximum.*sextant\.maximum"),
        (lambda s, at, m, t: numpy.clip(s, 0, 1), r"numpy's clip.*sextant\.clamp"),
        (lambda s, at, m, t: numpy.ones(3) * s, "numpy's multiply.*tensors come in as parameters"),
        (lambda s, at, m, t: numpy.ones(3)[at.head], "index by it.*tensors come in as parameters"),
        (lambda s, at, m, t: torch.ones(3)[at.head], "torch's indexing.*come in as parameters"),
        (lambda s, at, m, t: torch.where(s > 0, s, s), r"torch's where.*sextant\.where"),
        (lambda s, at, m, t: s * torch.tensor(2.0), r"by \.item\(\)"),
        (lambda s, at, m, t: s.exp(), r'has no "exp"; write sextant\.exp\(x\)'),
        (lambda s, at, m, t: s.clamp(0, 1), r"write sextant\.clamp"),
        (lambda s, at, m, t: at.head.float(), r"an integer of.*write sextant\.to_float"),
        (lambda s, at, m, t: s.shape[0], 'has no "shape"'),
        (lambda s, at, m, t: s + m.exp(), r"index it to read an element; write sextant\.exp"),
        (lambda s, at, m, t: s + [1, 2][at.head], "comes in as a parameter"),
        (lambda s, at, m, t: s + {0: 1}[at.head], "no key of a dict"),
        (lambda s, at, m, t: s + [1.0], "lists come in as parameters"),
        (lambda s, at, m, t: kept_from_before(s), "of another traced function"),
        (lambda s, at, m, t: taken_out_of_a_sum(s, at), "made inside a sextant.sum is used outside"),
    ],
)
def test_errors_teach(body, message):
    with pytest.raises((CompileError, AttributeError), match=message) as info:
        _score(body)()
    if isinstance(info.value, CompileError) and "returns" not in message:
        assert info.value.file == __file__ and info.value.line > 0


def test_signature_errors():
    with pytest.raises(CompileError, match="needs an annotation"):

        @sextant.encoding
        def f(score, at, slope):
            return score

    with pytest.raises(CompileError, match=r"first arguments are \(score, at\)"):

        @sextant.encoding
        def g(score):
            return score

    with pytest.raises(CompileError, match=r"are \(score, at\), got \(at, slope\)"):

        @sextant.encoding
        def early(at, slope: sextant.PerHead):
            return at.offset * slope[at.head]

    with pytest.raises(CompileError, match='unknown dim "hed"; did you mean "heads"'):

        @sextant.encoding
        def h(score, at, m: sextant.Param("hed")):
            return score

    with pytest.raises(CompileError, match="needs a default"):

        @sextant.encoding
        def i(score, at, *, size):
            return score

    with pytest.raises(CompileError, match='option "n" has choices that are no names'):

        @sextant.encoding
        def numbered(score, at, *, n: typing.Literal[1, 2] = 1):
            return score

    with pytest.raises(CompileError, match="write it with def"):
        sextant.mask(lambda at: at.key < 3)
    with pytest.raises(CompileError, match='did you mean "query"'):
        sextant.rows(of="qery")
    with pytest.raises(CompileError, match=r'names no operand: .*, as in of=."query", "key".'):

        @sextant.rows
        def mapped(x, y, at):
            return x, y

    with pytest.raises(TypeError, match='did you mean "frozen"'):
        sextant.Param("heads", frozn=True)
    with pytest.raises(TypeError, match=r"init is no float: write sextant.constant_init\(1.0\)"):
        sextant.PerHead(init=1.0)
    with pytest.raises(TypeError, match="init is no Tensor: write a function of indices"):
        sextant.PerHead(init=torch.ones(4))
    for init in (lambda: 1.0, lambda h, t: 1.0):
        with pytest.raises(CompileError, match=f'{__file__}.* an index for each of its 1 dim.*heads'):

            @sextant.encoding
            def started(score, at, a: sextant.PerHead(init=init)):
                return score + a[at.head]

    with pytest.raises(
        CompileError, match=f'{__file__}.*init of parameter "a" takes by keyword .*"hads".*"heads"'
    ):

        @sextant.encoding
        def sized(score, at, a: sextant.PerHead(init=lambda h, *, hads: h / hads)):
            return score + a[at.head]

    with pytest.raises(CompileError, match=f'{__file__}.*"\u03b1" is not of the letters'):

        @sextant.encoding
        def j(score, at, α: sextant.PerHead):
            return score

    with pytest.raises(CompileError, match=r"write @sextant.columns\(8\)"):

        @sextant.columns
        def k(at):
            return 1.0, 1.0


def test_initial_values_of_sizes_and_options():
    """A function of indices takes what the definition knows besides, by keyword."""

    @sextant.encoding
    def waves(
        score,
        at,
        w: sextant.Param(
            "heads", "head_dim",
            init=lambda h, d, *, head_dim, base, heads: base ** (d / head_dim) + h / heads,
        ),
        *,
        base=100.0,
    ):  # fmt: skip
        return score + w[at.head, 0]

    for use, base in ((waves, 100.0), (waves(base=16.0), 16.0)):
        made = sextant.init_params([use], heads=2, head_dim=8, dtype=torch.float64)["waves.w"]
        lanes, heads = torch.arange(8, dtype=torch.float64), torch.arange(2, dtype=torch.float64)
        expected = base ** (lanes / 8) + heads[:, None] / 2
        torch.testing.assert_close(made, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("power", [2, 2.0, 3])
def test_powers_of_integers_do_not_wrap(power):
    scale = 50000.0**-power

    @sextant.encoding
    def gauss(score, at):
        return score - at.offset**power * scale

    q = torch.randn(1, 1, 2, 4)
    at = torch.tensor([0, 50000])
    got = sextant.attention(q, q, q, [gauss], query_positions=at, key_positions=at)
    offset = (at - at[:, None]).double()
    want = torch.softmax((q @ q.mT / 2).double() - offset**power * scale, -1).float() @ q
    torch.testing.assert_close(got, want)


def test_a_formula_may_hold_any_signs():
    @sextant.encoding(formula='s \u2212 "\u03b1"\\ |d|\t\v\0!\nnext')
    def odd(score, at):
        return score

    assert sextant.describe(odd).formula == 's \u2212 "\u03b1"\\ |d|   ! next'
