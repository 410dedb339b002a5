"""A machine that has PyTorch and a kit: Sextant's package is out of reach of its scripts.

To start PyTorch takes longer than most scripts do, so one process has loaded it for all of
them, and each runs in a fork of that, which ends as a process of its own would.
"""

import json
import os
import site
import subprocess
import sys
import tempfile
from pathlib import Path

FORKS = """
import json, os, runpy, sys, torch

def wait():
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            return json.loads(line)
        status = os.waitpid(process, 0)[1]
        print(os.waitstatus_to_exitcode(status), flush=True)
    os._exit(0)

try:
    import sextant
    raise SystemExit("Sextant's package is in reach")
except ModuleNotFoundError:
    print("ready", flush=True)
command = wait()
for number, path in enumerate((os.devnull, command["output"], command["errors"])):
    os.dup2(os.open(path, os.O_RDWR), number)
os.environ.clear()
os.environ.update(command["environment"])
os.chdir(command["folder"])
sys.argv = command["words"]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Elsewhere:
    """The process whose forks are scripts; `with` ends it."""

    def __enter__(self):
        python = [sys.executable, "-S"]  # reads no *.pth of site-packages
        self.process = subprocess.Popen(
            [*python, "-c", FORKS], env=environment(), cwd=tempfile.gettempdir(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self.answer() == "ready"
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)

    def answer(self):
        return self.process.stdout.readline().strip()

    def run(self, folder: Path, script, *words):
        """Exit code, output and errors of a script of a kit."""
        with tempfile.NamedTemporaryFile("r") as output, tempfile.NamedTemporaryFile("r") as errors:
            command = dict(
                words=[str(folder / script), *map(str, words)],
                folder=str(folder.parent),
                environment=environment(),
                output=output.name,
                errors=errors.name,
            )
            print(json.dumps(command), file=self.process.stdin, flush=True)
            return int(self.answer()), output.read(), errors.read()


def environment():
    """That of this process, without what tests set for Sextant."""
    found = {n: v for n, v in os.environ.items() if not n.startswith("SEXTANT_")}
    return found | {"PYTHONPATH": os.pathsep.join(site.getsitepackages())}
