"""What is refused of encodings of contents in Python, with the line of the function."""

from types import SimpleNamespace

import pytest
import torch

import sextant
from sextant import CompileError


def _score(body, **settings):
    def f(
        score,
        at,
        m: sextant.PerHead,
        t: sextant.Param("n", "head_dim"),
        c: sextant.Param("head_dim", "n"),
        w: sextant.Param("n", "value_dim"),
        v: sextant.Param("heads", "head_dim"),
        ids: sextant.Param("batch", "key", integer=True),
        *,
        n=4,
    ):
        return body(score, at, SimpleNamespace(m=m, t=t, c=c, w=w, v=v, ids=ids, n=n))

    return sextant.encoding(f, **settings)


ERRORS = [
    # Rows as numbers.
    (lambda s, at, p: s + p.t[at.head], r"t\[i\] is a row of it, not a number; t\[i, j\]"),
    (lambda s, at, p: 2.0 * p.t[:, 0], r"t\[:, i\] is a column of it.*t\[j, i\]"),
    (lambda s, at, p: -p.t[0], "is a row of it"),
    (lambda s, at, p: sextant.exp(p.t[0]), "is a row of it"),
    (lambda s, at, p: p.t[0], "is a row of it"),
    (lambda s, at, p: s + p.t[0, :, 1], r"has 2 dim\(s\) .*got 3 index"),
    (lambda s, at, p: s + p.t[:, :], "one element at a time"),
    (lambda s, at, p: s + p.t[1:, 0], "one element at a time"),
    (lambda s, at, p: s + p.t[: at.head, 0], "one element at a time"),
    (lambda s, at, p: s + p.t[s], "an index must be an integer, got a number"),
    (lambda s, at, p: s + sum(p.t[0]), r"t\[i\] cannot be iterated over"),
    (lambda s, at, p: s + p.ids[at.batch], r"has 2 dim\(s\) \(batch, key\), got 1 index"),
    # Products with the query row.
    (lambda s, at, p: s + at.query_dot(p.t), r"write at.query_dot\(table\[i\]\)"),
    (lambda s, at, p: s + at.query_dot(p.t[0, 0]), "takes a row or a column"),
    (
        lambda s, at, p: s + at.query_dot(p.c[0]),
        r"head_dim elements, c\[i\] has n.*; c\[:, i\] is a column, of head_dim",
    ),
    (lambda s, at, p: s + at.query_dot(p.t[:, 0]), r"t\[:, i\] has n: a column.*; t\[i\] is a row, of head_dim"),
    (lambda s, at, p: s + at.query_dot(p.w[0]), r"head_dim elements, w\[i\] has value_dim"),
    (lambda s, at, p: s + at.query_dot(p.t[0], plus=p.v), r"plus=v\[at.head\]"),
    (lambda s, at, p: s + at.query_dot(p.t[0], plus=p.v[0]), "the row of its head"),
    (lambda s, at, p: s + at.query_dot(p.t[0], plus=p.w[at.head]), r"w\[i\] has value_dim"),
    # Products with the key row.
    (lambda s, at, p: s + at.key_dot(p.t), r"write at.key_dot\(table\[i\]\)"),
    (lambda s, at, p: s + at.key_dot(p.w[0]), r"the key row has head_dim elements, w\[i\] has value_dim"),
    (lambda s, at, p: s + at.key_dot(p.t[0], plus=p.v[0]), r"adds to the key row.*\(kv_heads, head_dim\)"),
    # Scans.
    (lambda s, at, p: s + at.scan, "got method; call it"),
    (lambda s, at, p: s + at.scan(s < 0), "sextant.where"),
    (lambda s, at, p: s + at.scan(p.m), "the value of a scan is a number, got a vector"),
    (lambda s, at, p: s + at.scan(s, until=p.m[0]), "not trained, got one made of a parameter"),
    (lambda s, at, p: s + at.scan(s, until=abs(s)), "made of the score; use a number or an option"),
    (lambda s, at, p: s + at.scan(s, until=p.n + at.offset), "made of at.offset"),
    (lambda s, at, p: s + at.scan(s, direction="left"), "no direction 'left'; did you mean .leftward"),
    (lambda s, at, p: s + sextant.sum(lambda k: at.scan(s) * k, p.n), "in a sextant.sum; make it before"),
    # Running sums.
    (lambda s, at, p: s + at.running_sum(p.m, "key"), "lambda t"),
    (lambda s, at, p: s + at.running_sum(lambda k: p.m[k], "kay"), 'did you mean "key"'),
    (lambda s, at, p: s + at.running_sum(lambda k: s, "key"), "got the score"),
    (lambda s, at, p: s + at.running_sum(lambda k: p.m, "key"), "are numbers, got a vector"),
    (
        lambda s, at, p: s + at.running_sum(lambda k: k * at.key, "key"),
        "at.key has no meaning in the terms of a running sum",
    ),
    (lambda s, at, p: s + at.running_sum(lambda k: k * at.coord("query"), "key"), "has no meaning in the terms"),
    (lambda s, at, p: s + at.running_sum(lambda k: at.host * k, "key"), "at.host has no meaning in the terms"),
    (
        lambda s, at, p: s + at.running_sum(lambda k: at.query_dot(p.t[k]), "key"),
        "at.query_dot has no meaning in the terms",
    ),
    (lambda s, at, p: (lambda o: s + at.running_sum(lambda k: o * k, "key"))(at.offset + 1), "only, got at.offset"),
    (
        lambda s, at, p: s + sextant.sum(lambda j: at.running_sum(lambda k: k * j, "key"), p.n),
        "no meaning in a sextant.sum",
    ),
    # Bounds.
    (lambda s, at, p: s + at.least_coord("self"), "one of the query or the key, not of 'self'"),
    (lambda s, at, p: s + at.greatest_coord("kay"), 'did you mean "key"'),
    # Functions.
    (lambda s, at, p: sextant.clamp(s), "a least or a greatest value"),
]


@pytest.mark.parametrize("body, message", ERRORS, ids=[message for _, message in ERRORS])
def test_errors_teach(body, message):
    with pytest.raises(CompileError, match=message) as info:
        _score(body)
    assert info.value.file == __file__ and info.value.line > 0


def test_what_belongs_to_a_score_of_one_head():
    place = "in a score of all heads; it belongs to a score of one head"
    with pytest.raises(CompileError, match=f"at.scan has no meaning {place}"):
        _score(lambda s, at, p: at.scan(s), all_heads=True)
    with pytest.raises(CompileError, match=f"at.query_dot has no meaning {place}"):
        _score(lambda s, at, p: s + at.query_dot(p.t[0]), all_heads=True)
    with pytest.raises(CompileError, match=f"at.key_dot has no meaning {place}"):
        _score(lambda s, at, p: s + at.key_dot(p.t[0]), all_heads=True)
    with pytest.raises(CompileError, match="at.scan has no meaning in a mask"):

        @sextant.mask
        def near(at):
            return at.scan(1.0) < 3

    with pytest.raises(CompileError, match="at.query_dot has no meaning in weighted rows"):

        @sextant.weighted_rows
        def chosen(at, t: sextant.Param(3, "head_dim")):
            return t[sextant.to_int(at.query_dot(t[0]))]

    with pytest.raises(CompileError, match="at.running_sum has no meaning in a map of rows; it sees one row"):

        @sextant.rows(of="key", group="single")
        def summed(x, at):
            return x * at.running_sum(lambda t: t, "key")


def test_weighted_rows_return_a_row():
    def weighted(body):
        def f(at, t: sextant.Param(5, "value_dim"), k: sextant.Param(5, "head_dim"), w: sextant.Param("value_dim", 5)):
            return body(at, t, k, w)

        return sextant.weighted_rows(f)

    want = r"return a row of a parameter of two dims, table\[i\], got"
    for body, message in [
        (lambda at, t, k, w: at.offset, f"{want} an integer"),
        (lambda at, t, k, w: t, f"{want} a parameter"),
        (lambda at, t, k, w: t[0, 1], f"{want} a number"),
        (lambda at, t, k, w: None, f"{want} nothing"),
        (lambda at, t, k, w: (t[0], t[1]), f"{want} 2 values"),
        (lambda at, t, k, w: w[:, 0], rf"{want} a column, w\[:, i\]"),
        (lambda at, t, k, w: k[0], r"value_dim elements, k\[i\] has head_dim"),
        (lambda at, t, k, w: t[at.row], "at.row has no meaning in weighted rows"),
        (lambda at, t, k, w: t[at.offset / 2], "an index must be an integer"),
    ]:
        with pytest.raises(CompileError, match=message) as info:
            weighted(body)
        assert info.value.file == __file__ and info.value.line > 0


def test_requirements_are_checked_at_the_decorator():
    with pytest.raises(CompileError, match="requires lists sextant.require, .*got int"):
        _score(lambda s, at, p: s, requires=[3])
    with pytest.raises(CompileError, match='got str; did you mean "require_past"'):
        _score(lambda s, at, p: s, requires="require_pas")
    with pytest.raises(CompileError, match="sextant.require_past needs a message"):
        _score(lambda s, at, p: s, requires=sextant.require_past(""))
    with pytest.raises(CompileError, match='unknown dim "kay"; did you mean "key"') as info:
        _score(lambda s, at, p: s, requires=sextant.require("kay", 3, "too long"))
    assert info.value.file == __file__ and info.value.line > 0


def test_requirements_of_a_use():
    """Where one does not hold: its message, and the line of the decorator."""

    @sextant.rows(of="key", group="single", requires=sextant.require_past("needs a mask such as causal"))
    def growing(x, at):
        return x * sextant.exp(0.1 * at.row)

    @sextant.encoding(
        requires=[
            sextant.require("n", "head_dim", "n is too large"),
            sextant.require("key", "4 * n", 'keys "beyond" the table'),
            sextant.require_span("8 * n", "too far apart", axis=0),
        ]
    )
    def bounded(score, at, *, n=4):
        return score

    rows = torch.randn(1, 1, 16, 8)
    sextant.attention(rows, rows, rows, [bounded])
    with pytest.raises(CompileError, match="n is too large: got 9, but must be at most 8") as info:
        sextant.attention(rows, rows, rows, [bounded(n=9)])
    assert __file__ in str(info.value)
    with pytest.raises(RuntimeError, match=r'keys "beyond" the table \(16 and 12\)'):
        sextant.attention(rows, rows, rows, [bounded(n=3)])
    far = torch.arange(16) * 3
    with pytest.raises(RuntimeError, match=r"too far apart \(46 and 32\)"):
        sextant.attention(rows, rows, rows, [bounded], query_positions=far, key_positions=far)
    with pytest.raises(CompileError, match="needs a mask such as causal") as info:
        sextant.attention(rows, rows, rows, [growing])
    assert __file__ in str(info.value)


def test_what_only_a_list_of_uses_shows():
    """Errors of the compiler name the line of the function."""

    @sextant.encoding
    def there_and_back(score, at):
        return score + at.scan(1.0) - at.scan(1.0, direction="rightward")

    rows = torch.randn(1, 1, 3, 8)
    with pytest.raises(CompileError, match="runs against another scan of this attention") as info:
        sextant.attention(rows, rows, rows, [there_and_back], target="cpu:avx2")
    assert info.value.file == __file__ and info.value.line > 0


def test_tables_of_other_sizes_are_refused():
    @sextant.encoding
    def narrow(score, at, t: sextant.Param(5, 7)):
        return score + at.query_dot(t[2])

    rows = torch.randn(1, 1, 3, 8)
    with pytest.raises(RuntimeError, match="has other rows than the query"):
        sextant.attention(rows, rows, rows, [narrow], {"narrow.t": torch.randn(5, 7)})
