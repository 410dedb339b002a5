"""The page on models of PyTorch: its examples run, and what it registers with Transformers
computes what the attention of that library does. A stand-in has the library's names."""

import math
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
from pages import ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("sextant._compiler")

PAGE = ROOT / "docs/in-a-pytorch-model.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
INSTEAD, MODULE, REGISTERED = EXAMPLES


def run(code, folder):
    """Of a file: traced functions are read again for their places."""
    path = folder / "example.py"
    path.write_text(code)
    exec(compile(code, str(path), "exec"), {"__name__": "example"})


def test_in_place_of_sdpa(tmp_path):
    run(INSTEAD, tmp_path)


def test_as_a_module(tmp_path):
    run(MODULE, tmp_path)


@pytest.fixture
def attend(monkeypatch, tmp_path):
    """What the page registers as "sextant"."""
    registered = {}

    def interface(kind):
        return SimpleNamespace(register=lambda name, function: registered.update({(kind, name): function}))

    library, masks = ModuleType("transformers"), ModuleType("transformers.masking_utils")
    library.AttentionInterface = interface("attention")
    library.AttentionMaskInterface = interface("mask")
    masks.sdpa_mask = object()
    monkeypatch.setitem(sys.modules, "transformers", library)
    monkeypatch.setitem(sys.modules, "transformers.masking_utils", masks)
    run(REGISTERED, tmp_path)
    assert registered["mask", "sextant"] is masks.sdpa_mask
    return registered["attention", "sextant"]


def eager(module, query, key, value, attention_mask, scaling, softcap=None, position_bias=None, **_):
    """As that library computes it, with a mask of bool."""
    key, value = (t.repeat_interleave(module.num_key_value_groups, 1) for t in (key, value))
    scores = query @ key.mT * scaling
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if position_bias is not None:
        scores = scores + position_bias
    return (scores.masked_fill(~attention_mask, -math.inf).softmax(-1) @ value).transpose(1, 2)


CASES = {
    "a whole text": {},
    "a padded text": dict(masked=True),
    "a token that is decoded": dict(queries=1),
    "an empty cache of fixed length": dict(keys=20),
    "no order": dict(is_causal=False),
    "capped": dict(softcap=2.0),
    "biased": dict(bias=True),
    "biased and padded": dict(bias=True, masked=True),
}


@pytest.mark.parametrize("name", CASES)
def test_attention_of_transformers(attend, name):
    case = CASES[name]
    is_causal, softcap = case.get("is_causal", True), case.get("softcap")
    module = SimpleNamespace(is_causal=is_causal, num_key_value_groups=2)
    queries, keys = case.get("queries", 9), case.get("keys", 9)
    query = torch.randn(2, 4, queries, 8, requires_grad=True)
    key, value = (torch.randn(2, 2, keys, 8, requires_grad=True) for _ in range(2))
    bias = torch.randn(1, 4, queries, keys, requires_grad=True) if case.get("bias") else None
    first = 9 - queries  # of the queries in the text
    shown = torch.ones(2, 1, queries, keys, dtype=torch.bool)
    if is_causal:
        shown = shown.tril(first)
    given = None
    if case.get("masked"):
        shown[1, :, :, 6:] = False
        given = shown
    settings = dict(scaling=0.3, dropout=0.0, softcap=softcap, position_bias=bias, use_cache=True)
    got, weights = attend(module, query, key, value, given, **settings)
    assert weights is None
    want = eager(module, query, key, value, shown, **settings)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    leaves = [query, key, value] + ([] if bias is None else [bias])
    seed = torch.randn_like(want)
    for a, b in zip(torch.autograd.grad(got, leaves, seed), torch.autograd.grad(want, leaves, seed)):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=2e-5)


def test_dropout_of_attention_is_refused(attend):
    rows = torch.randn(1, 2, 3, 8)
    with pytest.raises(ValueError, match="set the dropout of attention to 0"):
        attend(SimpleNamespace(is_causal=True), rows, rows, rows, None, dropout=0.1)
