"""The examples of the pages under docs run."""

import pytest
from pages import BUILD, ROOT, run_examples

torch = pytest.importorskip("torch")


def test_write_an_encoding(tmp_path):
    if not (BUILD / "bin" / "sextant-run").exists():
        pytest.skip("the tools are not built")
    ran = run_examples((ROOT / "docs/write-an-encoding.md").read_text(), tmp_path)
    assert set(ran) == {"python", "sh"}
