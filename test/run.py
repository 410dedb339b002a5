#!/usr/bin/env python3
"""Runs every test of a build directory: lit, GoogleTest, pytest, in this order.

    test/run.py [--build DIR] [--only lit,unit,pytest] [NAME...]

NAME restricts a run to tests whose path or name contains it. Each runner shows
its progress; the last line is `N passed, N failed` over all of them (`N skipped`
apart), and the exit code is non-zero when anything failed. Unit tests and pytest
run when the build has made what they need.
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

SECONDS_PER_TEST = 900
SECONDS_PER_RUNNER = 3600
SOURCE = pathlib.Path(__file__).resolve().parent.parent


class Count:
    """Tests that passed, were skipped, and the names of those that failed."""

    def __init__(self):
        self.passed, self.skipped, self.failed = 0, 0, []

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failed += other.failed

    def __str__(self):
        line = f"{self.passed} passed, {len(self.failed)} failed"
        return line + (f", {self.skipped} skipped" if self.skipped else "")


def runner_failed(name, why):
    """A runner that could not do its work counts as one failure."""
    count = Count()
    print(f"{name}: {why}", flush=True)
    count.failed.append(f"{name}: {why}")
    return count


def call(command, **options):
    """The exit code of a command; one that does not end is ended, and says so."""
    try:
        return subprocess.call(command, timeout=SECONDS_PER_RUNNER, **options)
    except subprocess.TimeoutExpired:
        return f"timeout after {SECONDS_PER_RUNNER} s"


def run_lit(build, names, scratch):
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
        command += ["--timeout", str(SECONDS_PER_TEST)]
    command += ["-o", str(report), str(site)]
    if names:
        command += ["--filter", "|".join(map(re.escape, names)), "--allow-empty-runs"]
    code = call(command)
    if not report.exists():
        return runner_failed("lit", f"ended with {code} and no report")
    count = Count()
    for test in json.loads(report.read_text())["tests"]:
        if test["code"] in ("PASS", "FLAKYPASS", "XFAIL"):
            count.passed += 1
        elif test["code"] in ("UNSUPPORTED", "SKIPPED", "EXCLUDED"):
            count.skipped += test["code"] != "EXCLUDED"
        else:
            count.failed.append(test["name"])
    return count


def run_unit(build, names, scratch):
    binary = build / "bin" / "sextant-unit-tests"
    if not binary.exists():
        print("not built")
        return Count()
    report = scratch / "unit.json"
    command = [str(binary), f"--gtest_output=json:{report}", "--gtest_brief=1"]
    if names:
        command.append("--gtest_filter=" + ":".join(f"*{n}*" for n in names))
    code = call(command, env=test_environment(build))
    if not report.exists():
        return runner_failed("unit", f"ended with {code} and no report")
    count = Count()
    for suite in json.loads(report.read_text())["testsuites"]:
        for test in suite["testsuite"]:
            if test.get("failures"):
                count.failed.append(f"{suite['name']}.{test['name']}")
            elif test["result"] == "SKIPPED":
                count.skipped += 1
            elif test["status"] == "RUN":
                count.passed += 1
    return count


def run_pytest(build, names, scratch):
    files = sorted(map(str, (SOURCE / "test").rglob("test_*.py")))
    if names:
        files = [file for file in files if any(name in file for name in names)]
    if not (build / "python" / "sextant").exists():
        print("not built")
        return Count()
    if not files:
        return Count()
    report = scratch / "pytest.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "--tb=short"]
    command += ["-p", "no:cacheprovider", f"--junitxml={report}"]
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
    return count


def test_environment(build):
    """The environment of unit tests and pytest, the same as lit's."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = str(build / "python")
    environment["PATH"] = f"{build / 'bin'}{os.pathsep}{environment['PATH']}"
    environment["XDG_CACHE_HOME"] = str(build / "test" / "cache")
    environment["SEXTANT_BUILD_DIR"] = str(build)
    return environment


RUNNERS = {"lit": run_lit, "unit": run_unit, "pytest": run_pytest}


def main():
    parser = argparse.ArgumentParser(description="runs Sextant's tests")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--only", default=",".join(RUNNERS), help="runners, with commas")
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
            count = RUNNERS[name](build, options.names, pathlib.Path(scratch))
            lines[name] = f"{count} ({time.monotonic() - start:.0f} s)"
            total.add(count)
    print("== all")
    for name, line in lines.items():
        print(f"{name}: {line}")
    for name in total.failed:
        print(f"failed: {name}")
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
