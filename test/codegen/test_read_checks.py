"""SEXTANT_CHECK=reads: a read outside of a parameter is an error of the call that names
the op, its line and the index, on every target; what a query does not see, and what a
vector of lanes computes past its end, is no read of the definition."""

import pytest
import targets
import torch

import sextant

TARGETS = ["reference", *targets.DTYPES]


@pytest.fixture(autouse=True)
def checks(monkeypatch):
    monkeypatch.setenv("SEXTANT_CHECK", "reads")


def call(target, uses, params, queries=5, keys=11, heads=2, **settings):
    if not targets.available(target):
        pytest.skip(f"this machine has no {target}")
    dtype = targets.DTYPES.get(target, torch.float32)
    q = torch.randn(1, heads, queries, 16).to(dtype)
    k = torch.randn(1, heads, keys, 16).to(dtype)
    return sextant.attention(q, k, k, uses, params, target=target, **settings)



@sextant.encoding
def past(score, at, table: sextant.Param("size"), *, size=8):
    return score + table[-at.offset]


@sextant.rows(of="key", group="single")
def shifted(x, at, table: sextant.Param(16, 4)):
    return x * table[at.lane, at.row]


@sextant.encoding(all_heads=True)
def mixed(scores, at, table: sextant.Param("size"), *, size=8):
    return scores + table[-at.offset]


@sextant.encoding
def dotted(score, at, table: sextant.Param("size", "head_dim"), *, size=8):
    return score + at.query_dot(table[-at.offset])


@sextant.weighted_rows
def added(at, table: sextant.Param("size", "value_dim"), *, size=8):
    return table[-at.offset]


@sextant.turn_rows(of="key", block=4)
def turning(block, row, column, at, table: sextant.Param(4, "size"), *, size=8):
    return table[block, at.row] * sextant.to_float(row - column)


@sextant.columns(2)
def appended(at, a: sextant.Param("size", 2), *, size=8):
    return a[at.query * 0, at.lane], a[at.key, at.lane]


# Of the encodings above with tables of 8, for 11 keys and 5 queries that see the past:
# offsets down to -10.
CASES = {
    "past": (past, (8,), "'pos.read'", "dimension 0", "11 and 8"),
    "shifted": (shifted, (16, 4), "'pos.read'", "dimension 1", "11 and 4"),
    "mixed": (mixed, (8,), "'pos.read'", "dimension 0", "11 and 8"),
    "dotted": (dotted, (8, 16), "'pos.query_dot'", "dimension 0", "11 and 8"),
    "added": (added, (8, 16), "'pos.weighted_rows'", "dimension 0", "11 and 8"),
    "turning": (turning, (4, 8), "'pos.read'", "dimension 1", "11 and 8"),
    "appended": (appended, (8, 2), "'pos.read'", "dimension 0", "11 and 8"),
}


@pytest.mark.parametrize("target", TARGETS)
def test_names_the_read(target):
    """Op, place, parameter, dimension, index and size."""
    for name, (use, shape, op, dim, numbers) in CASES.items():
        param = f"{name}.a" if use is appended else f"{name}.table"
        params = {param: torch.randn(shape)}
        with pytest.raises(sextant.RuntimeError) as info:
            call(target, ["causal", use], params)
        message = str(info.value)
        assert __file__ in message and op in message, message
        what = "one more than the greatest index that is read, and its size"
        assert f"reads beyond {dim}: {what} ({numbers})" in message
        assert f'parameter "{param}"' in message or "parameter 0" in message, message


@pytest.mark.parametrize("target", TARGETS)
def test_reads_inside_pass(target):
    """Tables that hold what visible pairs ask for: results are those without checks."""
    params = {"past.table": torch.randn(11)}
    got = call(target, ["causal", past(size=11)], params)
    assert got.isfinite().all()
    # Without the mask, keys after the query are read before the table's start.
    with pytest.raises(sextant.RuntimeError, match=r"before dimension 0.*\(-4 and 0\)"):
        call(target, [past(size=11)], params)


def test_the_line_is_that_of_the_read():
    with pytest.raises(sextant.RuntimeError) as info:
        call("reference", ["causal", past], {"past.table": torch.randn(8)})
    lines = open(__file__).read().splitlines()
    line = lines.index("    return score + table[-at.offset]") + 1
    assert f"{__file__}:{line}:1" in str(info.value)


def test_maps_outside_attention_and_integers():
    @sextant.rows(of="embedding", group="single")
    def named(x, at, number: sextant.Param("size", integer=True), *, size=4):
        return x + number[at.row] * 1.0

    x = torch.randn(1, 9, 16)
    with pytest.raises(sextant.RuntimeError, match=r"'pos.read'.*\(9 and 4\)"):
        sextant.map_rows(x, [named], {"named.number": torch.ones(4, dtype=torch.int32)})


def test_switch_is_part_of_what_is_remembered(monkeypatch):
    """Off, on and off again in one process; a word that is not known is an error."""
    params = {"past.table": torch.randn(8)}
    for value in ("", "reads", ""):
        monkeypatch.setenv("SEXTANT_CHECK", value)
        if value:
            with pytest.raises(sextant.RuntimeError, match="reads beyond"):
                call("cpu", ["causal", past], params)
        else:
            assert call("cpu", ["causal", past], params).isnan().any()
    monkeypatch.setenv("SEXTANT_CHECK", "writes")
    known = '"reads", "launches", "scratch", "races", "memory", "banks", "now"'
    with pytest.raises(sextant.CompileError, match=f'SEXTANT_CHECK is "writes": known are {known}'):
        call("cpu", ["causal", past], params)
