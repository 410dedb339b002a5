"""Encodings of contents in Python: rows of tables, sums along keys, requirements.

Each function here means what an installed definition means: the reference runs both,
in float64, op by op the same but for the order of a few, so 1e-9 is between them on
values of order 1 to 100. Kernels are held to C7 (numeric_contract.py).
"""

from dataclasses import dataclass

import attention_contract
import pytest
import targets
import torch

import sextant

# Functions of the meaning of installed encodings ------------------------------


@sextant.encoding
def contextual(score, at, table: sextant.Param("head_dim", "positions"), *, positions=64):
    place = at.scan(sextant.sigmoid(score), until=positions - 1)
    low = sextant.to_int(sextant.floor(place))
    high = sextant.minimum(low + 1, positions - 1)
    below, above = (at.query_dot(table[:, n]) for n in (low, high))
    return score + (below + (place - low) * (above - below))


@sextant.encoding
def key_side(score, at, ak: sextant.Param("2 * reach + 1", "head_dim"), *, reach=16):
    return score + at.scale * at.query_dot(ak[sextant.clamp(at.offset, -reach, reach) + reach])


@sextant.encoding
def disentangled(
    score,
    at,
    kr: sextant.Param("heads * head_dim", "2 * reach"),
    qr: sextant.Param("kv_heads * head_dim", "2 * reach"),
    *,
    reach=16,
):
    def clip(distance):
        return sextant.clamp(distance + reach, 0, 2 * reach - 1)

    to_position = at.query_dot(kr[:, clip(-at.offset)])
    to_content = at.key_dot(qr[:, clip(at.offset)])
    return (score + at.scale * (to_position + to_content)) / 3**0.5


@sextant.weighted_rows
def value_side(at, av: sextant.Param("2 * reach + 1", "value_dim"), *, reach=16):
    return av[sextant.clamp(at.offset, -reach, reach) + reach, :]


@sextant.encoding
def forget(score, at, gate: sextant.Param("batch", "heads", "key", given=True)):
    def kept(t):
        return sextant.logsigmoid(gate[at.batch, at.head, t])

    return score + at.running_sum(kept, "query") - at.running_sum(kept, "key")


@sextant.rows(of="query", group="single")
def moved(x, at, u: sextant.Param("heads", "head_dim")):
    return x + u[at.head, at.lane]


@sextant.encoding
def projected(
    score,
    at,
    v: sextant.Param("heads", "head_dim"),
    wr: sextant.Param("heads * head_dim", "width"),
    *,
    width=6,
):
    half = width // 2

    def term(c):
        angle = -at.offset * 10000.0 ** (-2.0 * (c % half) / width)
        wave = sextant.where(c < half, sextant.sin(angle), sextant.cos(angle))
        return at.query_dot(wr[:, c], plus=v[at.head]) * wave

    return score + at.scale * sextant.sum(term, width)


def _decayed(x, y, at, scale_base, sign):
    angle = at.coord() * 10000.0 ** (-2.0 * at.lane / at.extent("head_dim"))
    dim = sextant.to_float(at.extent("head_dim"))
    zeta = (2.0 * at.lane + 0.4 * dim) / (dim + 0.4 * dim)
    middle = (sextant.to_float(at.least_coord("key")) + at.greatest_coord("key")) / 2
    scale = zeta ** (sign * (at.coord() - middle) / scale_base)
    c, s = sextant.cos(angle) * scale, sextant.sin(angle) * scale
    return x * c - y * s, x * s + y * c


PAST = sextant.require_past("the decay needs a mask such as causal")
SPAN = sextant.require_span("64 * scale_base", "positions span too much")


@sextant.rows(of="query", group="interleaved", requires=[SPAN, PAST])
def query_decay(x, y, at, *, scale_base=512):
    return _decayed(x, y, at, scale_base, 1.0)


@sextant.rows(of="key", group="interleaved", requires=PAST)
def key_decay(x, y, at, *, scale_base=512):
    return _decayed(x, y, at, scale_base, -1.0)


@dataclass
class Case:
    """Traced uses beside the installed one; ``params``: shapes by name, of the traced
    and the installed encoding, from (B, H, d, dv, Lk)."""

    traced: list
    installed: str
    params: dict

    def draw(self, shape):
        batch, heads, kv_heads, _, keys, dim, value_dim = shape
        size = {"B": batch, "H": heads, "d": dim, "dv": value_dim, "L": keys}
        size |= {"Hd": heads * dim, "Kd": kv_heads * dim}
        return {
            names: torch.randn([size.get(n, n) for n in dims])
            for names, dims in self.params.items()
        }


CASES = {
    "scan": Case(
        [contextual(positions=9)],
        "cope(positions=9)",
        {("contextual.table", "cope.table"): ("d", 9)},
    ),
    "both sides": Case(
        [key_side(reach=5), value_side(reach=5)],
        "shaw(reach=5)",
        {("key_side.ak", "shaw.ak"): (11, "d"), ("value_side.av", "shaw.av"): (11, "dv")},
    ),
    "query and key": Case(
        [disentangled(reach=5)],
        "deberta(reach=5)",
        {("disentangled.kr", "deberta.kr"): ("Hd", 10), ("disentangled.qr", "deberta.qr"): ("Kd", 10)},
    ),
    "running sum": Case(
        [forget],
        "forgetting",
        {("forget.gate", "forgetting.gate"): ("B", "H", "L")},
    ),
    "sum of products": Case(
        [moved, projected],
        "transformer_xl(width=6)",
        {
            ("moved.u", "transformer_xl.u"): ("H", "d"),
            ("projected.v", "transformer_xl.v"): ("H", "d"),
            ("projected.wr", "transformer_xl.wr"): ("Hd", 6),
        },
    ),
    "bounds": Case([query_decay(scale_base=3), key_decay(scale_base=3)], "xpos(scale_base=3)", {}),
}
# (B, H, Hkv, Lq, Lk, d, dv)
SHAPES = [(2, 4, 2, 5, 11, 8, 6), (1, 2, 2, 17, 17, 4, 12), (1, 1, 1, 1, 7, 16, 16)]


def results(inputs, uses, params, seed):
    """Output, log-sum-exp and all gradients by the reference."""
    leaves = [t.clone().requires_grad_() for t in (*inputs, *params.values())]
    own = dict(zip(params, leaves[3:]))
    output, lse = sextant.attention(
        *leaves[:3], uses, own, return_lse=True, enable_gqa=True, target="reference"
    )
    seen = torch.where(torch.isfinite(lse), lse, 0.0)
    return [output, lse, *torch.autograd.grad((output * seed).sum() + seen.sum(), leaves)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s)))
@pytest.mark.parametrize("case", CASES)
def test_means_what_the_definition_means(case, shape):
    case = CASES[case]
    batch, heads, kv_heads, queries, keys, dim, value_dim = shape
    sizes = [(batch, heads, queries, dim), (batch, kv_heads, keys, dim), (batch, kv_heads, keys, value_dim)]
    inputs = [torch.randn(size, dtype=torch.float64) for size in sizes]
    seed = torch.randn(batch, heads, queries, value_dim, dtype=torch.float64)
    params = {names: t.double() for names, t in case.draw(shape).items()}
    masks = ["causal", "window(size=6)"]
    traced, installed = (
        results(inputs, [*masks, *uses], {names[i]: t for names, t in params.items()}, seed)
        for i, uses in enumerate((case.traced, [case.installed]))
    )
    names = ["output", "lse", "d query", "d key", "d value", *(n[0] for n in params)]
    for name, a, b in zip(names, traced, installed):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}")


# Besides these: what the installed definitions do not say.


@sextant.encoding
def counted(score, at):
    """Visible keys from the first on, without an end."""
    return score + sextant.log1p(at.scan(1, direction="rightward"))


@sextant.encoding
def scanned_again(score, at, m: sextant.PerHead):
    """Scans of what scans give: the gradient of one needs that of the next, of all keys."""
    first = at.scan(sextant.sigmoid(score), until=7.5)
    second = at.scan(sextant.sigmoid(m[at.head] * first))
    third = at.scan(sextant.sigmoid(0.3 * second - first), until=30)
    return score + 0.1 * first - 0.2 * third


@sextant.mask
def until_full(at, load: sextant.Param("batch", "key", given=True)):
    def loaded(t):
        return load[at.batch, t]

    return at.running_sum(loaded, "query") - at.running_sum(loaded, "key") < 9.5


@sextant.encoding
def of_words(score, at, table: sextant.Param("heads * head_dim", 9), ids: sextant.Param("batch", "key", integer=True)):
    """The query row of each head times a column that the key's word tells."""
    return score + at.scale * at.query_dot(table[:, ids[at.batch, at.key]])


@sextant.encoding
def of_sums(score, at, table: sextant.Param("rows", "head_dim"), v: sextant.Param("kv_heads", "head_dim"), *, rows=5):
    """The key row and its head's vector times all rows of a table, by distance."""

    def term(r):
        return at.key_dot(table[r], plus=v[at.head]) * sextant.exp(-0.1 * abs(at.offset) * (r + 1))

    near = at.key_dot(table[sextant.clamp(at.query % rows, 0, rows - 1)])
    return score + at.scale * (sextant.sum(term, rows) + near)


@sextant.weighted_rows
def late(at, table: sextant.Param(9, "value_dim"), start: sextant.Param("heads", integer=True)):
    return table[sextant.clamp(start[at.head] - at.offset, 0, 8)]


@sextant.encoding
def centred(score, at, *, scale=0.01):
    return score + scale * (at.coord("key") - at.least_coord("key")) * at.greatest_coord("query")


def others(shape):
    batch, heads, kv_heads, _, keys, dim, value_dim = shape

    def whole(low, high, size):
        return torch.randint(low, high, size, dtype=torch.int32)

    return [
        (counted, {}),
        (scanned_again, {"scanned_again.m": torch.randn(heads)}),
        # Whole numbers have exact sums: no rounding decides what is seen.
        (until_full, {"until_full.load": whole(0, 4, (batch, keys)).float()}),
        (of_words, {"of_words.table": torch.randn(heads * dim, 9), "of_words.ids": whole(0, 9, (batch, keys))}),
        (of_sums, {"of_sums.table": torch.randn(5, dim), "of_sums.v": torch.randn(kv_heads, dim)}),
        (late, {"late.table": torch.randn(9, value_dim), "late.start": whole(-3, 9, (heads,))}),
        (centred, {}),
    ]


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("number", range(7))
def test_kernels_of_other_functions(number, target):
    shape = (2, 4, 2, 65, 70, 24, 16)
    encoding, params = others(shape)[number]
    inputs = targets.drawn(target, shape, params)
    attention_contract.compare(["causal", encoding], inputs, target, torch.float32, encoding.name)


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("case", CASES)
def test_is_fused(case, target):
    """Kernels take the traced functions: no target computes what it cannot fuse."""
    case, shape = CASES[case], (2, 4, 2, 63, 129, 24, 40)
    inputs = targets.drawn(target, shape, {names[0]: t for names, t in case.draw(shape).items()})
    attention_contract.compare(["causal", *case.traced], inputs, target, torch.float32, case.installed)


# The text -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoding",
    [contextual, key_side, disentangled, of_sums, value_side, forget, projected, query_decay, until_full, late],
    ids=lambda e: e.name,
)
def test_the_compiler_reads_what_is_traced(encoding, sextant_opt):
    assert f"@{encoding.name}" in sextant_opt(encoding.text)
    sextant_opt(encoding.located)


def test_spellings():
    assert "pos.query_dot %ak[%" in key_side.text
    assert "pos.query_dot %table columns[%" in contextual.text
    assert "pos.key_dot %qr columns[%" in disentangled.text
    assert "pos.key_dot %table[%" in of_sums.text and "plus %v" in of_sums.text
    assert " plus %v : tensor<?x?xf32>, tensor<?x?xf32>" in projected.text
    assert "leftward until %" in contextual.text and "rightward until %" in counted.text
    assert "pos.weighted_rows %av : tensor<?x?xf32> {" in value_side.text
    assert "pos.running_sum to query {" in forget.text
    assert "pos.bound least key" in query_decay.text
    assert 'pos.require_past "the decay needs a mask such as causal"' in query_decay.text
    assert f'pos.scan %v_7 leftward until %v_9 : f32 loc("{__file__}":' in contextual.located


def test_an_element_of_a_row_is_an_element_of_the_table():
    @sextant.encoding
    def both(score, at, t: sextant.Param("heads", 3)):
        return score + t[at.head][1] - t[at.head, 1] + t[:, 2][at.head] - t[at.head, 2]

    assert both.text.count("pos.read") == 2


def test_ceil():
    @sextant.encoding
    def stairs(score, at):
        part = at.offset * 0.3
        return score + sextant.ceil(part) - sextant.floor(part)

    q = torch.randn(1, 1, 40, 8)
    part = (torch.arange(40) - torch.arange(40)[:, None]) * 0.3
    score = q @ q.mT / 8**0.5 + part.ceil() - part.floor()
    got = sextant.attention(q, q, q, [stairs])
    torch.testing.assert_close(got, torch.softmax(score, -1) @ q, rtol=1e-5, atol=1e-5)


# Each hides later keys, in a spelling of its own.
PASTS = {
    "key < query + 1": lambda at: at.key < at.query + 1,
    "query + 1 > key": lambda at: at.query + 1 > at.key,
    "not key > query": lambda at: ~(at.key > at.query),
    "query - key >= 0": lambda at: at.query - at.key >= 0,
    "0 >= key - query": lambda at: 0 >= at.key - at.query,
    "offset <= 0": lambda at: at.offset <= 0,
}


@pytest.mark.parametrize("spelling", PASTS)
def test_a_past_is_known_in_any_spelling(spelling):
    condition = PASTS[spelling]

    @sextant.mask
    def past(at):
        return condition(at)

    q = torch.randn(1, 2, 21, 8)
    uses = [query_decay(scale_base=64), key_decay(scale_base=64)]
    want = sextant.attention(q, q, q, ["causal", *uses])
    # The same scores are seen: f32 rounding of values of order 1.
    torch.testing.assert_close(sextant.attention(q, q, q, [past, *uses]), want, rtol=1e-5, atol=1e-6)


def test_a_mask_that_shows_the_next_key_is_no_past():
    @sextant.mask
    def almost(at):
        return at.key <= at.query + 1

    q = torch.randn(1, 2, 21, 8)
    with pytest.raises(sextant.CompileError, match="some query may see a later key"):
        sextant.attention(q, q, q, [almost, query_decay])
