"""The README's examples run, its table and its links are right."""

import re

import pytest
from pages import BUILD, ROOT, run_examples

torch = pytest.importorskip("torch")

README = (ROOT / "README.md").read_text()


def test_tour(tmp_path):
    if not (BUILD / "bin" / "sextant-prof").exists():
        pytest.skip("the tools are not built")
    assert set(run_examples(README, tmp_path)) == {"python", "sh"}


def test_table_lists_every_encoding():
    definitions = {
        name
        for path in (ROOT / "dialects/Pos/Encodings").rglob("*.mlir")
        for name in re.findall(r"^pos\.encoding @(\w+)", path.read_text(), re.MULTILINE)
    }
    table = README.split("## Encodings")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == definitions


def test_links():
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("dialects/*/README.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            place = page.parent / target
            if target.startswith("build/"):
                place = BUILD / target.removeprefix("build/")
            assert place.exists(), f"{page.name} links to {target}"
