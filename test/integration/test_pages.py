"""The examples of the pages run, their excerpts are what passes print, and the
files, types, functions, ops and flags that they name exist."""

import re

import pytest
from pages import (
    BUILD,
    ROOT,
    find_broken_links,
    find_false_excerpts,
    find_missing_files,
    find_missing_names,
    read_sources,
    run_examples,
)

MAPS = [
    "CONTRIBUTING.md",
    "codegen/README.md",
    "dialects/Exec/README.md",
    "dialects/Nn/README.md",
    "dialects/Pos/README.md",
    "docs/architecture.md",
    "passes/README.md",
    "runtime/README.md",
]
# Pages for users, which also name files of theirs.
GUIDES = [
    "README.md",
    "docs/gallery.md",
    "docs/in-a-pytorch-model.md",
    "docs/reproductions/README.md",
    "docs/write-an-encoding.md",
]


@pytest.fixture(scope="module")
def sources():
    return read_sources()


@pytest.mark.parametrize("page", MAPS)
def test_files_exist(page):
    assert find_missing_files(ROOT / page) == []


@pytest.mark.parametrize("page", [*MAPS, *GUIDES])
def test_links_lead_somewhere(page):
    assert find_broken_links(ROOT / page) == []


@pytest.mark.parametrize("page", [*MAPS, *GUIDES])
def test_names_exist(page, sources):
    assert find_missing_names(ROOT / page, sources) == []


def test_what_does_not_exist_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "`Pos.td` `NAME.mlir` [a](page.md) [b](elsewhere.md) `KernelBilder` `KernelBuilder::check` "
        "`Builder` `pos.skore` `pos.score` `sextant-opt --pos-hoizt` `train --batch-size`"
    )
    assert find_missing_files(page) == ["NAME.mlir", "Pos.td"]
    assert find_broken_links(page) == ["elsewhere.md"]
    sources = "class KernelBuilder { void check(); }; def ScoreOp: score --pos-hoist batch_size"
    assert find_missing_names(page, sources) == ["--pos-hoizt", "KernelBilder", "pos.skore"]


def test_single_tests_are_there():
    """What a page tells pytest to choose are tests of that file, by name or parameter."""
    chosen = re.findall(r"-m pytest -q (\S+\.py) -k (\w+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert chosen
    for file, word in chosen:
        names = re.findall(r"^def test_\w+|\bids=\[.*?\]", (ROOT / file).read_text(), re.MULTILINE)
        assert any(word in name for name in names), f"{file} has no test called {word}"


@pytest.fixture
def tools():
    if not (BUILD / "bin" / "sextant-opt").exists():
        pytest.skip("the tools are not built")


@pytest.mark.parametrize("page", ["passes/README.md", "runtime/README.md"])
def test_excerpts_are_true(page, tmp_path, tools):
    assert find_false_excerpts((ROOT / page).read_text(), tmp_path) == []


def test_false_excerpts_are_found(tmp_path, tools):
    text = (ROOT / "runtime/README.md").read_text()
    spoiled = text.replace("_main reads(", "_last reads(")
    assert len(find_false_excerpts(spoiled, tmp_path)) == 1


@pytest.mark.parametrize(
    "page, languages",
    [("docs/write-an-encoding.md", {"python", "sh"}), ("docs/gallery.md", {"python"})],
    ids=["write-an-encoding", "gallery"],
)
def test_examples_of_encodings(page, languages, tmp_path):
    pytest.importorskip("torch")
    if not (BUILD / "bin" / "sextant-run").exists():
        pytest.skip("the tools are not built")
    assert set(run_examples((ROOT / page).read_text(), tmp_path)) == languages
