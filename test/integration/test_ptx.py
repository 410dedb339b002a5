"""Every encoding becomes PTX, forward and backward, with nothing left that no GPU has."""

import importlib.util
import re

import pytest
from pages import ROOT

sextant = pytest.importorskip("sextant")
pytest.importorskip("sextant._compiler")

from sextant import backend, definitions

TARGET = "cuda:sm_80"
# In turn: both types of each would take twice the half minute.
CASES = [(name, ("f32", "bf16")[n % 2]) for n, name in enumerate(sorted(e.name for e in sextant.encodings()))]
# Its powers have exponents that only run time knows.
CASES += [("sandwich", dtype) for dtype in ("f32", "bf16") if ("sandwich", dtype) not in CASES]
# Lines of the longest kernel. NVIDIA's assembler takes a second for 2000 to 3000 of them, and longer
# where more of them are in one loop: at 15 000 an attention took 12 seconds to compile.
MOST_LINES = 13_000
# Of an attention and of a row map.
MAIN = re.compile(r"(_backward|)_\d+_(forward|main|(forward|backward)_fragments|map|pull)$")


@pytest.fixture(scope="module")
def table():
    """The script that makes a module of an encoding at all its places."""
    spec = importlib.util.spec_from_file_location("table", ROOT / "scripts/encodings-table.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("name, dtype", CASES)
def test_an_encoding_becomes_ptx(table, name, dtype):
    axes = definitions.axes([name])
    texts = list(table.texts(name, dtype, backward=True, axes=axes if axes > 1 else 0))
    assert texts
    for text in texts:
        ptx = backend.compiler().compile(text, TARGET, definitions.first_folders(), "asm", name)
        assert ".target sm_80" in ptx and ".extern .func" not in ptx
        entries = re.findall(r"^\.visible \.entry (\w+)\(", ptx, re.MULTILINE)
        mains = [MAIN.search(entry) for entry in entries]
        assert {m.group(1) for m in mains if m} == {"", "_backward"}, entries
        _, *kernels = ptx.split(".visible .entry ")
        lines = {kernel.split("(")[0]: kernel.count("\n") for kernel in kernels}
        longest = max(lines, key=lines.get)
        assert lines[longest] <= MOST_LINES, f"{longest} has {lines[longest]} lines"
