#!/usr/bin/env python3
"""Breaks Sextant in one place at a time and runs the tests that should see it.

    test/mutants.py [--build DIR] [--write] [--list] [NAME...]

A mutant is one line of a source file written otherwise (test/mutant_list.py): the file,
the old text, which must stand there exactly once, the new text, and the tests that
could see it. For each, a copy of the sources in DIR/mutants is changed, built (with
ccache where there is one, as in the build itself) and tested, and put back. A mutant
that no test catches is a missing test.

NAME restricts a run to mutants whose name contains it. `--write` puts the results into
test/mutants.md, beside those of mutants that did not run. The exit code is non-zero
when a mutant survives, does not build, or its old text is gone.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from mutant_list import MUTANTS
from run import THREADS

SOURCE = pathlib.Path(__file__).resolve().parent.parent
TABLE = SOURCE / "test" / "mutants.md"
SECONDS_PER_MUTANT = 1200
HEAD = """\
# Faults and the tests that catch them

Written by `make mutants` (test/mutants.py): one line of the source is changed, what
depends on it is built, and the tests that could see it run until one fails. Seconds are
those of the tests alone.

| mutant | where | caught by | s |
|---|---|---|---|
"""


class Broken(Exception):
    """A mutant that says nothing: its text is gone, or it does not build."""


def tracked_files():
    """What git knows, and what it would take: the sources as they are now."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=SOURCE, check=True, capture_output=True).stdout
    names = (name.decode() for name in listed.split(b"\0") if name)
    return [name for name in names if (SOURCE / name).is_file()]


def refresh(copy):
    """Makes a copy of the sources that differs in nothing; files that are the same keep
    their times, so that nothing is built without need."""
    wanted = set()
    for name in tracked_files():
        wanted.add(copy / name)
        data, to = (SOURCE / name).read_bytes(), copy / name
        if to.is_file() and to.read_bytes() == data:
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SOURCE / name, to)
        shutil.copymode(SOURCE / name, to)
    for path in copy.rglob("*"):
        inside = (copy / "build") in path.parents or path.name == "__pycache__"
        if path.is_file() and path not in wanted and not inside and path.suffix != ".pyc":
            path.unlink()


def run(command, seconds=SECONDS_PER_MUTANT, **options):
    """Exit code and output of a command that may take its time, and no more."""
    try:
        done = subprocess.run(
            command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=seconds, **options,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace")
        return -1, f"{output}\nlonger than {seconds} s"
    return done.returncode, done.stdout


def prepare(build, kinds):
    """The copy of the sources, configured as the build is, and what tests of some kinds
    need of it built."""
    copy = build / "mutants"
    copy.mkdir(exist_ok=True)
    refresh(copy)
    cache = (build / "CMakeCache.txt").read_text()
    names = ("CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", "CMAKE_BUILD_TYPE", "Python3_EXECUTABLE",
             "SEXTANT_ENABLE_TORCH", "SEXTANT_ENABLE_PYTHON")  # fmt: skip
    options = re.findall(rf"^({'|'.join(names)}):\w+=(.+)$", cache, re.MULTILINE)
    command = ["cmake", "-G", "Ninja", "-S", copy, "-B", copy / "build"]
    code, output = run([*command, *(f"-D{name}={value}" for name, value in options)])
    if code:
        sys.exit(f"mutants: cannot configure {copy}:\n{output}")
    print("building the sources as they are", flush=True)
    code, output = compile_copy(copy, kinds, seconds=None)  # all of them, on any machine
    if code:
        sys.exit(f"mutants: the sources do not build:\n{output[-4000:]}")
    if "pytest" in kinds:
        check_import(copy)
    return copy


def environment_of(copy):
    """In which tests see what was built of the copy."""
    return {
        **THREADS,
        **os.environ,
        "PYTHONPATH": str(copy / "build" / "python"),
        "PATH": f"{copy / 'build' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SEXTANT_BUILD_DIR": str(copy / "build"),
    }


def check_import(copy):
    """Tests of another build, that of the environment's packages, would let all pass."""
    command = [sys.executable, "-c", "import sextant._compiler; print(sextant._compiler.__file__)"]
    code, output = run(command, cwd=copy, env=environment_of(copy))
    if code or copy not in pathlib.Path(output.strip()).parents:
        sys.exit(f"mutants: tests do not import what is built in {copy}:\n{output}")


def kinds_of(mutant):
    return {selection.partition(":")[0] for selection in mutant.tests}


def compile_copy(copy, kinds, seconds=SECONDS_PER_MUTANT):
    """Builds what tests of some kinds run, and nothing beside it."""
    jobs = str(len(os.sched_getaffinity(0)))
    command = ["cmake", "--build", copy / "build", "-j", jobs]
    if "lit" not in kinds:
        command += ["--target", *(target for kind in kinds for target in BUILT[kind])]
    return run(command, seconds)


def test(copy, tests):
    """Runs tests in order until one fails; gives its name, or nothing."""
    with tempfile.TemporaryDirectory() as kernels:
        # Kernels of another mutant are not those of this one.
        environment = {**environment_of(copy), "XDG_CACHE_HOME": kernels}
        for selection in tests:
            kind, _, what = selection.partition(":")
            name = RUNNERS[kind](copy, what, environment)
            if name:
                return name
    return None


def run_pytest(copy, what, environment):
    file, _, words = what.partition(" ")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no",
               "-rfE", f"test/{file}"]  # fmt: skip
    code, output = run([*command, *(["-k", words] if words else [])], cwd=copy, env=environment)
    if code == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    if code == 1 and failed:
        return failed[1].removeprefix("test/")
    if code < 0:
        return f"{file} ({'timeout' if code == -1 else f'signal {-code}'})"
    raise Broken(f"{what}: pytest ended with {code}:\n{output[-2000:]}")


def run_unit(copy, what, environment):
    binary = copy / "build" / "bin" / "sextant-unit-tests"
    code, output = run([binary, f"--gtest_filter={what}", "--gtest_brief=1"], env=environment)
    failed = re.search(r"^\[  FAILED  \] (\S+)", output, re.MULTILINE)
    if re.search(r"^\[=+\] 0 tests", output, re.MULTILINE):
        raise Broken(f"unit {what}: no test has such a name")
    if code == 0:
        return None
    return f"unit {failed[1].rstrip(',')}" if failed else f"unit {what} (signal {-code})"


def run_lit(copy, what, environment):
    command = [sys.executable, "-c", "from lit.main import main; main()", "-q"]
    code, output = run([*command, copy / "build" / "test", "--filter", what], env=environment)
    if code == 0:
        return None
    failed = re.search(r"^(?:FAIL|TIMEOUT): sextant :: (\S+)|^  sextant :: (\S+)", output, re.MULTILINE)
    if not failed:
        raise Broken(f"lit {what}: {output[-2000:]}")
    return f"lit {failed[1] or failed[2]}"


# What each needs; lit needs all tools.
BUILT = {"pytest": ["_compiler", "sextant_torch", "sextant-python"], "unit": ["sextant-unit-tests"]}
RUNNERS = {"pytest": run_pytest, "unit": run_unit, "lit": run_lit}


def check(mutant):
    """The text of the file with the fault."""
    text = (SOURCE / mutant.file).read_text()
    count = text.count(mutant.old)
    if count != 1:
        raise Broken(
            f"{mutant.name}: the old text stands {count} times in {mutant.file}, expected "
            f"once; find its new place:\n{mutant.old}"
        )
    assert mutant.old != mutant.new and mutant.tests, mutant.name
    return text.replace(mutant.old, mutant.new)


def try_mutant(copy, mutant):
    """Which test catches it, or nothing, and how long the tests took."""
    text, file = check(mutant), copy / mutant.file
    original = (SOURCE / mutant.file).read_text()
    file.write_text(text)
    try:
        code, output = compile_copy(copy, kinds_of(mutant))
        if code:
            raise Broken(f"{mutant.name} does not build:\n{output[-4000:]}")
        start = time.monotonic()
        caught = test(copy, mutant.tests)
        return caught, time.monotonic() - start
    finally:
        file.write_text(original)


def read_table():
    """Rows of the table by the mutant's name."""
    if not TABLE.exists():
        return {}
    rows = [line for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    return {row.split(" | ")[0].removeprefix("| "): row for row in rows[1:]}


def write_table(rows):
    known = [rows[m.name] for m in MUTANTS if m.name in rows]
    TABLE.write_text(HEAD + "".join(f"{row}\n" for row in known))


def main():
    parser = argparse.ArgumentParser(description="tests the tests")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--write", action="store_true", help=f"update {TABLE.name}")
    parser.add_argument("--list", action="store_true", help="check that all texts are there")
    parser.add_argument("names", nargs="*", help="parts of names of mutants")
    options = parser.parse_args()
    chosen = [m for m in MUTANTS if not options.names or any(n in m.name for n in options.names)]
    wrong = []
    for mutant in chosen:
        try:
            check(mutant)
        except Broken as gone:
            wrong.append(str(gone))
    if options.list or wrong:
        print("\n".join(wrong) or "\n".join(m.name for m in chosen))
        return 1 if wrong else 0
    kinds = set().union(*map(kinds_of, chosen))
    copy, rows = prepare(options.build.resolve(), kinds), read_table()
    for number, mutant in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {mutant.name}: ", end="", flush=True)
        try:
            caught, seconds = try_mutant(copy, mutant)
        except Broken as broken:
            print(broken, flush=True)
            wrong.append(f"{mutant.name}: broken")
            continue
        if caught is None:
            wrong.append(f"{mutant.name}: survived {', '.join(mutant.tests)}")
            print(f"SURVIVED ({seconds:.0f} s)", flush=True)
        else:
            print(f"caught by {caught} ({seconds:.0f} s)", flush=True)
        row = (mutant.name, mutant.file, caught or "**none**", f"{seconds:.0f}")
        rows[mutant.name] = f"| {' | '.join(row)} |"
        if options.write:
            write_table(rows)
    print(f"{len(chosen) - len(wrong)} caught, {len(wrong)} not")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
