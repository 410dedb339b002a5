"""Uses of encodings as text: what they mean and how mistakes are shown."""

import pytest
import torch

import sextant
from sextant import CompileError, Use, parse_use
from sextant.models import gpt
from sextant.training.config import TrainConfig
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


def test_parsed_uses_stand_for_their_texts():
    """In lists of encodings, as hosts, in models and in settings of a training."""
    rows = torch.randn(3, 1, 2, 9, 16)
    texts = ["causal", "dape(kerple_log)", "near=window(size=4)"]
    uses = [parse_use(text) for text in texts]
    params = sextant.init_params(texts, heads=2, head_dim=16)
    assert sextant.init_params(uses, heads=2, head_dim=16).keys() == params.keys()
    expected = sextant.attention(*rows, texts, params)
    torch.testing.assert_close(sextant.attention(*rows, uses, params), expected, rtol=0, atol=0)
    model = dict(layers=1, width=32, heads=2)
    assert gpt(encodings=uses, **model) == gpt(encodings=texts, **model)
    assert TrainConfig(encodings=uses[1:]).encodings == tuple(texts[1:])

    @sextant.encoding
    def twice(score, at):
        return score + 2.0 * at.host

    assert twice(parse_use("alibi")).spelling == twice("alibi").spelling
    with pytest.raises(TypeError, match=r"encodings is a list, got Use: write \[alibi\]"):
        sextant.attention(*rows, parse_use("alibi"))
