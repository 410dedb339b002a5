"""What launches around the main ones of a GPU load before they use the first of it: a warp
that waits for each row, or for each part of a sum, leaves memory idle. Counted in PTX."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENTRY = re.compile(r"\.entry (\w+)\((.*?)\n\}", re.S)
LOAD = re.compile(r"ld\.global(?:\.nc)?\.([\w.]+)\s+(\{[^}]*\}|%\w+), \[")
PREFIX = re.compile(r"^attention(_backward)?_\d+_")
PER_HEAD = "tensor<?xf32>"
FIRE = ["tensor<f32>", "tensor<f32>", PER_HEAD, PER_HEAD, "tensor<?x?xf32>", PER_HEAD]


@pytest.fixture
def kernels(sass, monkeypatch):
    """The PTX of each launch of an attention, by its name."""
    # A launch of several kernels would hide that one of them waits.
    monkeypatch.setenv("SEXTANT_CHECK", "launches")

    def compile_(uses, params=(), dim=64, element="bf16", options="", direction="attention_backward"):
        text = getattr(sass, direction)(uses, list(params), (dim, dim), element)
        text = text.replace(f'"{uses[0]}">', f'"{uses[0]}", {{{options}}}>')
        build = Path(os.environ.get("SEXTANT_BUILD_DIR", ROOT / "build"))
        command = [build / "bin/sextant-compile", "-", "--no-cache", "--target=cuda:sm_80"]
        command += ["--emit=asm", "--o=-"]
        done = subprocess.run(command, input=text, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return {PREFIX.sub("", m[1]): m[2] for m in ENTRY.finditer(done.stdout)}

    return compile_


def at_once(kernel, kind):
    """The most loads of a kind that stand in a run before one of them is used."""
    most, pending, count = 0, set(), 0
    for line in kernel.splitlines():
        load = LOAD.search(line)
        sources = line.partition(",")[2]
        if line.lstrip().startswith("$"):  # a block may have others before it
            pending, count = set(), 0
        elif load and load[1] == kind:
            pending |= set(re.findall(r"%\w+", load[2]))
            count += 1
            most = max(most, count)
        elif pending & set(re.findall(r"%\w+", sources)):
            pending, count = set(), 0
    return most


def between_stores(kernel, kind):
    """The most loads of a kind with no store or barrier between them, which the assembler
    puts ahead of what uses them."""
    runs = re.split(r"\n\$\w+:|st\.global|bar\.warp", kernel)
    return max(sum(load[1] == kind for load in LOAD.finditer(run)) for run in runs)


@pytest.mark.parametrize("element, dim", [("bf16", 64), ("bf16", 80), ("f16", 128), ("f32", 64)])
def test_delta_loads_several_rows(kernels, element, dim):
    """Of both tensors, 16 bytes in a lane."""
    assert at_once(kernels(["causal"], dim=dim, element=element)["delta"], "v2.b64") >= 8


@pytest.mark.parametrize("dim", [64, 96])
def test_finish_loads_several_rows_of_a_chunk(kernels, dim):
    assert at_once(kernels(["causal"], dim=dim)["finish"], "v2.b64") >= 8


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rows_are_loaded_before_the_first_is_mapped(kernels, pairing):
    found = kernels(["rope"], options=f'pairing = "{pairing}"')
    for name in ("rows_of_query", "rows_of_key"):
        assert between_stores(found[name], "b16") >= 8
        assert between_stores(found[name], "b32") >= 8  # of the tables
    for name in ("finish", "pull_key"):
        assert at_once(found[name], "b32") >= 8


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rows_of_a_forward_need_no_tables(kernels, pairing):
    """Rows of several heads are loaded at once, and turned by one angle."""
    found = kernels(["rope"], options=f'pairing = "{pairing}"', direction="attention")
    assert not any(name.startswith("hoist") for name in found)
    for name in ("rows_of_query", "rows_of_key"):
        assert between_stores(found[name], "b16") >= 8
        assert between_stores(found[name], "b32") == 0
        assert found[name].count("cvt.rn.ftz.f32.f64") == 2  # a sine and a cosine


@pytest.mark.parametrize("dim, options", [(64, ""), (96, ""), (80, 'pairing = "interleaved", lanes = 24')])
def test_rows_of_maps_have_no_copies_in_memory(kernels, dim, options):
    """Whatever lanes are mapped. Words of f32 are stored where a row lies in scratch memory."""
    found = kernels(["rope"], dim=dim, options=options)
    for name in ("rows_of_query", "rows_of_key", "finish", "pull_key"):
        assert "st.global.b16" in found[name]
        assert "st.global.b32" not in found[name]


@pytest.mark.parametrize(
    "uses, params, sums",
    [
        ("kerple_log", [PER_HEAD] * 2, {"sum_0": "b32", "gradient_0": "b64"}),
        (
            "fire",
            FIRE,
            {"sum_0": "b32", "sum_2": "b32", "sum_hinges_0": "b64", "gradient_3": "b64"},
        ),
    ],
    ids=["kerple_log", "fire"],
)
def test_sums_load_several_parts(kernels, uses, params, sums):
    found = kernels(["causal", uses], params)
    for name, kind in sums.items():
        assert at_once(found[name], kind) >= 8, name
