#!/usr/bin/env python3
"""Runs every test of a build directory: the checks of lint.py, lit, GoogleTest and
pytest, in this order.

    test/run.py [--build DIR] [--only lint,lit,unit,pytest] [--workers N] [--limit SECONDS]
                [NAME...]

NAME restricts a run to tests whose path or name contains it. Each runner shows
its progress; the closing lines are the ten slowest files and `N passed, N failed`
over all runners (`N skipped` apart), and the exit code is non-zero when anything
failed: a test, a runner that crashed, one whose part is not built though the build
was configured for it, a test that ran longer than its limit.

Tests run on as many workers as there are processors for this process, each with one
thread that waits without spinning, unless OMP_NUM_THREADS and OMP_WAIT_POLICY say
otherwise. A worker takes tests in order and, at the end, half of what another has
left; both share the cache of compiled kernels in the build folder.
"""

import argparse
import collections
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from typing import Any

import lint

# Of one test on a busy machine; the longest takes a tenth of it on an idle one. Of all of
# GoogleTest, which has no limit of its own and takes less than that one in all.
SECONDS_PER_TEST = 600
SECONDS_PER_RUNNER = 3600
SLOWEST = 10
SOURCE = pathlib.Path(__file__).resolve().parent.parent
# Of all tests: one thread per worker that does not spin at barriers, since workers share
# the processors, maybe with others. A call on two threads that spin takes 17 times its
# time beside another worker.
THREADS = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


class Count:
    """Tests that passed, were skipped, the names of those that failed, and the seconds
    that the tests of each file took."""

    def __init__(self):
        self.passed, self.skipped, self.failed = 0, 0, []
        self.seconds: Any = collections.Counter()  # of floats

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failed += other.failed
        self.seconds += other.seconds

    def __str__(self):
        line = f"{self.passed} passed, {len(self.failed)} failed"
        return line + (f", {self.skipped} skipped" if self.skipped else "")


def runner_failed(name, why):
    """A runner that could not do its work counts as one failure."""
    count = Count()
    print(f"{name}: {why}", flush=True)
    count.failed.append(f"{name}: {why}")
    return count


def not_built(build, name, option, what):
    """A part that the build was configured without is skipped; one that is missing
    otherwise is a failure."""
    cache = build / "CMakeCache.txt"
    if option and cache.exists() and f"{option}:BOOL=OFF" in cache.read_text():
        print(f"{name}: skipped, the build has {option}=OFF", flush=True)
        count = Count()
        count.skipped = 1
        return count
    return runner_failed(name, f"{what} is not built; run cmake --build {build} first")


def call(command, seconds=SECONDS_PER_RUNNER, **options):
    """The exit code of a command; one that does not end is ended, and says so."""
    try:
        return subprocess.call(command, timeout=seconds, **options)
    except subprocess.TimeoutExpired:
        return f"timeout after {seconds} s"


def judge(name, count, code, allowed):
    """Counts a runner that ended with a code which its report does not explain as one
    more failure: it crashed after some tests, or before it found any."""
    if code not in allowed and not count.failed:
        count.add(runner_failed(name, f"ended with {code}, though no test failed"))
    return count


def run_lint(build, options, scratch):
    """Each check of lint.py is a test, with all of its findings."""
    names = options.names
    checks = [check for check in lint.CHECKS if not names or any(n in check for n in names)]
    count = Count()
    for check, findings in lint.run(SOURCE, build, checks, [], options.workers).items():
        for finding in findings:
            print(f"{finding} [{check}]", flush=True)
        if findings:
            count.failed.append(f"lint {check}: {len(findings)} findings, the first: {findings[0]}")
        else:
            count.passed += 1
    return count


def run_lit(build, options, scratch):
    site = build / "test"
    if not (site / "lit.site.cfg.py").exists():
        return runner_failed("lit", f"{site} is not configured; run cmake first")
    report = scratch / "lit.json"
    if importlib.util.find_spec("lit"):
        command = [sys.executable, "-c", "from lit.main import main; main()"]
    else:
        tool = shutil.which("lit") or "/usr/lib/llvm-22/bin/lit"
        if not os.path.exists(tool):
            return runner_failed("lit", "lit is missing (package llvm-22-tools)")
        command = [tool]
    command += ["-sv", "--no-progress-bar"] if not sys.stdout.isatty() else ["-sv"]
    if importlib.util.find_spec("psutil"):
        command += ["--timeout", str(options.limit)]
    command += ["-j", str(options.workers), "-o", str(report), str(site)]
    if options.names:
        command += ["--filter", "|".join(map(re.escape, options.names)), "--allow-empty-runs"]
    code = call(command, env=test_environment(build))
    if not report.exists():
        if options.names and code == 0:  # none of its tests has such a name
            return Count()
        return runner_failed("lit", f"ended with {code} and no report")
    count = Count()
    for test in json.loads(report.read_text())["tests"]:
        count.seconds[test["name"].rpartition(" :: ")[2]] += test.get("elapsed") or 0
        if test["code"] in ("PASS", "FLAKYPASS", "XFAIL"):
            count.passed += 1
        elif test["code"] in ("UNSUPPORTED", "SKIPPED", "EXCLUDED"):
            count.skipped += test["code"] != "EXCLUDED"
        else:
            count.failed.append(test["name"])
    return judge("lit", count, code, {0})


def run_unit(build, options, scratch):
    binary = build / "bin" / "sextant-unit-tests"
    if not binary.exists():
        return not_built(build, "unit", None, binary)
    report, log = scratch / "unit.json", scratch / "unit.txt"
    command = [str(binary), f"--gtest_output=json:{report}"]
    if options.names:
        command.append("--gtest_filter=" + ":".join(f"*{n}*" for n in options.names))
    with log.open("w") as output:
        code = call(
            command, options.limit, env=test_environment(build), stdout=output, stderr=output
        )
    began = "no test"
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("[ RUN "):
            began = line.rpartition(" ")[2]
        elif not line.startswith(("[       OK", "[---", "[===", "Running main", "Note:")) and line:
            print(line)
    if not report.exists():
        return runner_failed("unit", f"ended with {code} and no report, in {began}")
    count = Count()
    for suite in json.loads(report.read_text())["testsuites"]:
        for test in suite["testsuite"]:
            if test.get("failures"):
                count.failed.append(f"{suite['name']}.{test['name']}")
            elif test["result"] == "SKIPPED":
                count.skipped += 1
            elif test["status"] == "RUN":
                count.passed += 1
            seconds = float(test.get("time", "0s").removesuffix("s"))
            count.seconds[f"unit/{suite['name']}"] += seconds
    return judge("unit", count, code, {0})


def file_of(case):
    """test/codegen/test_x.py of the class name test.codegen.test_x.TestY."""
    parts = case.get("classname", "").split(".")
    while len(parts) > 1 and not parts[-1].startswith("test_"):
        parts.pop()
    return "/".join(parts) + ".py"


def run_pytest(build, options, scratch):
    files = sorted(map(str, (SOURCE / "test").rglob("test_*.py")))
    if options.names:
        files = [file for file in files if any(name in file for name in options.names)]
    if not (build / "python" / "sextant").exists():
        return not_built(build, "pytest", "SEXTANT_ENABLE_PYTHON", "the package sextant")
    if not files:
        return Count()
    report = scratch / "pytest.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "--tb=short"]
    command += ["-p", "no:cacheprovider", f"--junitxml={report}"]
    # A kernel that does not end never returns to Python: the thread of the limit ends
    # the worker, which counts as a failure of its test, and another one goes on.
    command += [f"--timeout={options.limit}", "--timeout-method=thread"]
    if len(files) > 1 and options.workers > 1:
        command += ["-n", str(options.workers), "--dist=worksteal"]
    code = call(command + files, env=test_environment(build), cwd=SOURCE)
    if not report.exists():
        return runner_failed("pytest", f"ended with {code} and no report")
    count = Count()
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            count.failed.append(f"{case.get('classname')}.{case.get('name')}")
        elif "skipped" in kinds:
            count.skipped += 1
        else:
            count.passed += 1
        count.seconds[file_of(case)] += float(case.get("time", 0))
    # 5: every file skipped itself when it was read.
    return judge("pytest", count, code, {0} if count.passed else {0, 5})


def test_environment(build):
    """The environment of all tests."""
    environment = {**THREADS, **os.environ}
    environment["PYTHONPATH"] = str(build / "python")
    environment["PATH"] = f"{build / 'bin'}{os.pathsep}{environment['PATH']}"
    environment["XDG_CACHE_HOME"] = str(build / "test" / "cache")
    environment["SEXTANT_BUILD_DIR"] = str(build)
    return environment


RUNNERS = {"lint": run_lint, "lit": run_lit, "unit": run_unit, "pytest": run_pytest}


def main():
    parser = argparse.ArgumentParser(description="runs Sextant's tests")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--only", default=",".join(RUNNERS), help="runners, with commas")
    parser.add_argument(
        "--workers", type=int, default=len(os.sched_getaffinity(0)), help="tests at a time"
    )
    parser.add_argument(
        "--limit", type=int, default=SECONDS_PER_TEST,
        help="seconds of one test of lit and pytest, and of all of GoogleTest",
    )  # fmt: skip
    parser.add_argument("names", nargs="*", help="parts of names of tests")
    options = parser.parse_args()
    chosen = options.only.split(",")
    for name in chosen:
        if name not in RUNNERS:
            parser.error(f"unknown runner {name}; there are {', '.join(RUNNERS)}")
    build = options.build.resolve()
    total, lines = Count(), collections.OrderedDict()
    with tempfile.TemporaryDirectory() as scratch:
        for name in chosen:
            print(f"== {name}", flush=True)
            start = time.monotonic()
            count = RUNNERS[name](build, options, pathlib.Path(scratch))
            lines[name] = f"{count} ({time.monotonic() - start:.0f} s)"
            total.add(count)
    print("== slowest files")
    for name, seconds in total.seconds.most_common(SLOWEST):
        print(f"{seconds:7.1f} s  {name}")
    print("== all")
    for name, line in lines.items():
        print(f"{name}: {line}")
    for name in total.failed:
        print(f"failed: {name}")
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
