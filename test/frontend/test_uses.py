"""Uses of encodings as text: what they mean and how mistakes are shown."""

import pytest

from sextant import CompileError, Use, parse_use
from sextant.uses import parse_uses


@pytest.mark.parametrize(
    "text, use",
    [
        ("causal", Use("causal", "causal")),
        ("window(size=64)", Use("window", "window", {"size": 64})),
        ("near=window(size=64)", Use("window", "near", {"size": 64})),
        (
            "dape(kerple_log, hidden=8)",
            Use("dape", "dape", {"hidden": 8}, (Use("kerple_log", "kerple_log"),)),
        ),
        (
            "dape(fire(threshold=64))",
            Use("dape", "dape", {}, (Use("fire", "fire", {"threshold": 64}),)),
        ),
        (
            "rope(pairing=interleaved, base=1e6, lanes=-1)",
            Use("rope", "rope", {"pairing": "interleaved", "base": 1e6, "lanes": -1}),
        ),
        ('f(a=true, b=False, c="x y")', Use("f", "f", {"a": True, "b": False, "c": "x y"})),
        ("  f ( ) ", Use("f", "f")),
    ],
)
def test_meaning(text, use):
    assert parse_use(text) == use


@pytest.mark.parametrize(
    "text", ["a", "b=a(c(d=1), e=2.5, f=true)", "a(b, c, d=x)", 'a(b="2d", c="x y", d="true", e=\'"\')']
)
def test_printed_form_reads_back(text):
    assert str(parse_use(str(parse_use(text)))) == str(parse_use(text)) == text


@pytest.mark.parametrize(
    "text, column, message",
    [
        ("", 1, "expected the name of an encoding, got the end"),
        ("window(64)", 8, "an option is written name=64"),
        ("window(size=)", 13, 'expected a value, got ")"'),
        ("window(size=3", 14, 'expected "," or ")", got the end'),
        ("a=b=c", 4, 'expected the end, got "="'),
        ("w$", 2, "unexpected character '$'"),
        ("w(size=1, size=2)", 11, 'option "size" is given twice'),
        ("w(a b)", 5, 'expected "," or ")", got "b"'),
    ],
)
def test_mistakes_point_at_their_column(text, column, message):
    with pytest.raises(CompileError) as info:
        parse_use(text)
    assert info.value.column == column
    assert message in info.value.message
    if text:
        guilty, caret = info.value.excerpt.split("\n")
        assert guilty.strip() == text.strip()
        assert caret.index("^") - 2 == column - 1


def test_two_uses_need_two_names():
    with pytest.raises(CompileError, match=r'as in "other=window\(size=5\)"'):
        parse_uses(["window(size=4)", "causal", "window(size=5)"])
    assert len(parse_uses(["window(size=4)", "far=window(size=5)"])) == 2


def test_hosts_nest_so_deep():
    """An error of ours, at the column, with the part of the text around it."""
    deepest = "dape(" * 16 + "alibi" + ")" * 16
    assert str(parse_use(deepest)) == deepest
    for depth in (17, 5000):
        with pytest.raises(CompileError, match="hosts stand in hosts more than 16 deep") as info:
            parse_use("dape(" * depth + "alibi" + ")" * depth)
        assert len(str(info.value)) < 500
        guilty, caret = info.value.excerpt.split("\n")
        assert guilty[: caret.index("^")].endswith("dape(")
