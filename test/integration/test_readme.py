"""The README's examples run, its table and its links are right."""

import importlib.util
import itertools
import re
import shlex

import pytest
from pages import BUILD, ROOT, run_examples

torch = pytest.importorskip("torch")
pytest.importorskip("sextant._compiler")

README = (ROOT / "README.md").read_text()


def test_tour(tmp_path):
    if not (BUILD / "bin" / "sextant-prof").exists():
        pytest.skip("the tools are not built")
    assert set(run_examples(README, tmp_path)) == {"python", "sh"}


def test_table_is_true():
    """Places, parameters and what is fused are those of the definitions; every
    encoding says what it does."""
    spec = importlib.util.spec_from_file_location("table", ROOT / "scripts/encodings-table.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    assert table.update(README) == README, "run scripts/encodings-table.py --write"
    begin, end = table.find_table(README)
    head, rows = table.rows_of(README[begin:end])
    assert tuple(head) == table.HEAD
    columns = ("what it does", "fused on CPUs", "on GPUs, as warps")
    assert all(row[name] for row in rows.values() for name in columns)


def test_links():
    pages = (ROOT / name for name in ("README.md", "CONTRIBUTING.md"))
    folders = (ROOT.glob(name) for name in ("docs/*.md", "*/README.md", "dialects/*/README.md"))
    for page in itertools.chain(pages, *folders):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            place = (page.parent / target).resolve()
            # A fresh clone has no build folder.
            assert not place.is_relative_to(ROOT / "build"), f"{page.name} links to {target}"
            assert place.exists(), f"{page.name} links to {target}"


def test_commands_are_those_that_there_are():
    """Names and flags of the command line's examples."""
    from sextant.cli import _parser

    commands = re.findall(r"^sextant .*", README, re.MULTILINE)
    assert len(commands) >= 6
    for command in commands:
        _parser().parse_args(shlex.split(command, comments=True)[1:])
