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
