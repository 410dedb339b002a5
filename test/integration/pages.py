"""Runs the examples of a page of documentation."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import lint

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SEXTANT_BUILD_DIR", ROOT / "build")).resolve()


# Runs the code that each line of its input holds in a process of its own, and says how it
# ended. All of them have what takes two seconds to import from the first.
FORKS = """
import json, os, sys, traceback
import sextant, torch

def run(code):
    try:
        exec(compile(code, "<example>", "exec"), {"__name__": "__main__"})
        return 0
    except SystemExit as end:
        return 1 if end.code else 0
    except BaseException:
        traceback.print_exc()
        return 1

for line in sys.stdin:
    task = json.loads(line)
    if not (child := os.fork()):
        log = os.open(task["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        code = run(task["code"])
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(ended, flush=True)
"""


class Interpreters:
    """Python processes, one per example, that work in ``folder``."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        command = [sys.executable, "-c", FORKS]
        self.log = folder / "example.log"
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, code: str) -> tuple[int, str]:
        """The exit code, and what was printed."""
        assert self.process.stdin and self.process.stdout
        print(json.dumps({"code": code, "log": str(self.log)}), file=self.process.stdin)
        ended = self.process.stdout.readline()
        assert ended, "the process that has imported PyTorch has ended: its errors are above"
        return int(ended), self.log.read_text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        self.log.unlink(missing_ok=True)


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
    with Interpreters(folder, environment) as interpreters:
        for language, code in re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            if language == "mlir":
                name = re.match(r"// (\S+)\n", code)
                (folder / name[1]).write_text(code)
                continue
            if language == "python":
                ended, said = interpreters.run(code)
            elif language == "sh" and not code.startswith("make"):
                command = ["bash", "-euo", "pipefail", "-c", code]
                done = subprocess.run(
                    command, cwd=folder, env=environment, text=True, capture_output=True
                )
                ended, said = done.returncode, f"{done.stdout}\n{done.stderr}"
            else:
                continue
            assert ended == 0, f"{code}\n{said}"
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
    nor in the page's folder or below; a part in capitals stands for any name."""
    ends = "cpp|h|td|py|mlir|md|sh|fbs|inc|txt|test"
    names = re.findall(rf"`([A-Za-z][\w/.-]*\.(?:{ends}))`", page.read_text())
    patterns = {name: re.sub(r"\b[A-Z]{2,}\b(?=[/.])", "*", name) for name in names}
    return sorted(
        name
        for name, pattern in patterns.items()
        if not any(ROOT.glob(pattern)) and not any(page.parent.glob(f"**/{pattern}"))
    )


def find_broken_links(page: Path) -> list[str]:
    """Links to files of the repository that do not exist."""
    links = re.findall(r"\]\(([^)#\s]+)", prose_of(page))
    return [link for link in links if "://" not in link and not (page.parent / link).exists()]


def prose_of(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def find_missing_names(page: Path, sources: str) -> list[str]:
    """Types, functions and members in backticks, ops and flags that stand nowhere in the
    sources. A name may be the end of others, as of a family of types. What has no
    capital is not looked for: a word, or a name that is put together of parts."""
    known = set(re.findall(r"[A-Za-z_]\w*", sources))
    missing = []
    for code in re.findall(r"`([^`]+)`", prose_of(page)):
        flags = re.findall(r"(?<![\w-])--([a-z][\w-]+)", code)
        # Those of `sextant` are made of names of settings.
        absent = [f for f in flags if f not in sources and f.replace("-", "_") not in known]
        missing += [f"--{flag}" for flag in absent]
        if op := re.fullmatch(r"(?:pos|nn|exec)\.(\w+)", code):
            missing += [code] if op[1] not in known else []
        elif re.fullmatch(r"\w*[A-Z]\w*(::\w+)*(\(\))?", code):
            words = re.findall(r"\w+", code)
            known_ends = [any(k.endswith(word) for k in known) for word in words if word not in known]
            missing += [code] if not all(known_ends) else []
    return sorted(set(missing))


def read_sources() -> str:
    """All files of the repository but pages and results."""
    names = lint.Tree(ROOT, BUILD, ()).files
    kept = [ROOT / name for name in names if not name.endswith((".md", ".json"))]
    return "\n".join(path.read_text(errors="replace") for path in kept)
