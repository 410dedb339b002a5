"""Runs the examples of a page of documentation."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SEXTANT_BUILD_DIR", ROOT / "build")).resolve()


def run_examples(text: str, folder: Path) -> list[str]:
    """Runs the code blocks of a page in their order, in ``folder``: Python in an
    interpreter of its own, shell with the tools on the path. A block of MLIR
    whose first line is ``// NAME.mlir`` becomes that file; commands of ``make``
    are left out. Gives the languages that were run."""
    environment = {
        **os.environ,
        "PATH": f"{BUILD / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(BUILD / "python"),
    }
    ran = []
    for language, code in re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if language == "mlir":
            name = re.match(r"// (\S+)\n", code)
            (folder / name[1]).write_text(code)
            continue
        if language == "python":
            command = [sys.executable, "-c", code]
        elif language == "sh" and not code.startswith("make"):
            command = ["bash", "-euo", "pipefail", "-c", code]
        else:
            continue
        done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        ran.append(language)
    return ran


def find_false_excerpts(text: str, folder: Path) -> list[str]:
    """The parts of a page's excerpts that ``sextant-opt`` does not print. The first
    line of a block of MLIR is ``// NAME.mlir``, a file, or the options with which
    that file prints what follows; ``...`` stands for what is left out, and how
    lines are broken does not count."""
    missing = []
    model = None
    blocks = re.compile(r"^```mlir\n// ([^\n]+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
    for head, code in blocks.findall(text):
        if not head.startswith("--"):
            model = folder / head
            model.write_text(code)
            continue
        command = [BUILD / "bin" / "sextant-opt", model, *head.split()]
        done = subprocess.run(command, text=True, capture_output=True)
        assert done.returncode == 0, f"{head}\n{done.stderr}"
        rest = " ".join(done.stdout.split())
        for part in code.split("...\n"):
            part = " ".join(part.split())
            if part in rest:
                rest = rest.partition(part)[2]
            else:
                missing.append(f"{head}: {part}")
    return missing


def find_missing_files(page: Path) -> list[str]:
    """The names of files in backticks that stand for no file, neither from the root
    nor in the page's folder or below."""
    ends = "cpp|h|td|py|mlir|md|sh|fbs|inc|txt"
    names = re.findall(rf"`([A-Za-z][\w/.-]*\.(?:{ends}))`", page.read_text())
    return sorted(
        name
        for name in set(names)
        if not (ROOT / name).exists() and not any(page.parent.glob(f"**/{name}"))
    )
