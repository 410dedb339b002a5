"""The README's examples run, its table and its links are right."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SEXTANT_BUILD_DIR", ROOT / "build")).resolve()
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_tour(tmp_path):
    if not (BUILD / "bin" / "sextant-prof").exists():
        pytest.skip("the tools are not built")
    environment = {**os.environ, "PATH": f"{BUILD / 'bin'}{os.pathsep}{os.environ['PATH']}",
                   "PYTHONPATH": str(BUILD / "python")}

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, env=environment, text=True,
                              capture_output=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"

    for code in blocks("python"):
        run(sys.executable, "-c", code)
    for text in blocks("mlir"):
        name = re.match(r"// (\S+)\n", text)
        (tmp_path / name[1]).write_text(text)
    scripts = [text for text in blocks("sh") if not text.startswith("make")]
    assert scripts
    for script in scripts:
        run("bash", "-euo", "pipefail", "-c", script)


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
