"""What kernels on tensor cores take of a GPU, as NVIDIA's assembler makes it: counted
in machine code, since no GPU is at hand. Limits are what was counted and a tenth, and at
most what a kernel that is bound by its products can spare."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PER_HEAD = "tensor<?xf32>"


@pytest.fixture(scope="module")
def sass():
    spec = importlib.util.spec_from_file_location("sass", ROOT / "tools/bench/sass.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["sass"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    build = Path(os.environ.get("SEXTANT_BUILD_DIR", ROOT / "build"))
    monkeypatch.setenv("PATH", f"{build / 'bin'}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    "uses, params, dims, most, units",
    [
        ([], [], (64, 64), 11.0, (1.07, 0.0)),
        (["causal"], [], (64, 64), 11.1, (1.07, 0.0)),
        # A table costs a load for some three scores.
        (["alibi"], [PER_HEAD], (64, 64), 12.6, (1.07, 0.35)),
        (["softcap"], [], (64, 64), 15.4, (2.07, 0.0)),
        ([], [], (128, 128), 19.3, (1.13, 0.0)),
    ],
    ids=["plain", "causal", "alibi", "softcap", "plain-128"],
)
def test_instructions_per_score(sass, uses, params, dims, most, units):
    (counts,) = sass.measure(sass.attention(uses, params, dims), "cuda:sm_80")
    print(counts)
    assert counts.spills == 0
    assert counts.per_score() <= most
    mufu, loads = units
    assert counts.per_score("MUFU") <= mufu
    assert counts.per_score("LDS") <= loads


def test_a_table_at_128(sass):
    """Some registers wait in memory while the loop runs, which itself uses none of it."""
    dims = (128, 128)
    (counts,) = sass.measure(sass.attention(["alibi"], [PER_HEAD], dims), "cuda:sm_80")
    print(counts)
    assert counts.spills <= 64
    assert counts.per_score("LDL", "STL") == 0
    assert counts.per_score() <= 21.5


@pytest.mark.parametrize(
    "uses, params, dims, most, spills",
    [
        ([], [], (64, 64), 18.8, 0),
        (["causal"], [], (64, 64), 19.2, 0),
        # With the gradient of the table.
        (["alibi"], [PER_HEAD], (64, 64), 22.0, 0),
        ([], [], (128, 128), 29.7, 64),
        (["alibi"], [PER_HEAD], (128, 128), 37.0, 64),
    ],
    ids=["plain", "causal", "alibi", "plain-128", "alibi-128"],
)
def test_instructions_of_a_backward(sass, uses, params, dims, most, spills):
    """Of a head dim of 128 there are twice the products for a score. What spills does so
    outside of the loop."""
    model = sass.attention_backward(uses, params, dims)
    (counts,) = sass.measure(model, "cuda:sm_80")
    print(counts)
    assert counts.spills <= spills
    assert counts.per_score("LDL", "STL") == 0
    assert counts.per_score() <= most
    assert counts.per_score("MUFU") <= 1.01


def test_a_payload_divides_by_no_constant(sass):
    """Nor does its pullback: it multiplies, without a branch for rare numbers."""
    model = sass.attention_backward(["softcap"], [], (64, 64))
    (counts,) = sass.measure(model, "cuda:sm_80")
    print(counts)
    assert counts.per_score("FCHK") == 0
    assert counts.spills == 0
    assert counts.per_score() <= 33.2


def test_products_bound_the_forward(sass):
    """By a model of rates: other units of an A100 are busy for less time."""
    (counts,) = sass.measure(sass.attention([], [], (64, 64)), "cuda:sm_80")
    clocks = counts.clocks("A100")
    assert clocks["issue"] <= 0.68
    assert clocks["shared memory"] <= 0.75
    assert clocks["MUFU"] <= 0.55
