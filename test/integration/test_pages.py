"""The examples of the pages run, their excerpts are what passes print, and the
files that they name exist."""

import pytest
from pages import BUILD, ROOT, find_false_excerpts, find_missing_files, run_examples

MAPS = ["docs/architecture.md", "passes/README.md", "codegen/README.md", "runtime/README.md"]


@pytest.mark.parametrize("page", MAPS)
def test_files_exist(page):
    assert find_missing_files(ROOT / page) == []


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


def test_write_an_encoding(tmp_path):
    pytest.importorskip("torch")
    if not (BUILD / "bin" / "sextant-run").exists():
        pytest.skip("the tools are not built")
    ran = run_examples((ROOT / "docs/write-an-encoding.md").read_text(), tmp_path)
    assert set(ran) == {"python", "sh"}
