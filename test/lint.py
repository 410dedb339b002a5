#!/usr/bin/env python3
"""Checks the text of the sources: form, names, types, without running anything.

    test/lint.py [--build DIR] [--root DIR] [--only format,tidy,python,types,text,shell]
                 [--workers N] [NAME...]

Prints one line per finding, `file:line: what`, and fails when there is one; without
a finding it says nothing. NAME restricts it to files whose path contains it (types
are always checked of all files). The checks:

    format   clang-format over the C++ files; `make format` repairs them
    tidy     clang-tidy over what the build compiles and the headers of ours it includes
    python   ruff over the Python files
    types    mypy over the package, the tools and the scripts
    text     trailing space, misspellings, files that are too large or do not say what they hold
    shell    shellcheck over the shell scripts

clang-tidy reads several files as one translation unit, and those of a unit with a finding
alone. A file that it has seen is not read again before something changes that its
findings depend on: the file, a header of ours or a generated one that it includes, its
compile command, the configuration, the tool. This is kept in DIR/lint, and so are the
caches of the other tools.
"""

import argparse
import collections
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

FOLDERS = (
    "cmake", "codegen", "dialects", "docs", "frontend", "passes", "runtime", "scripts",
    "test", "tools",
)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
# `file:line:column: error: what`, as compilers write it.
FINDING = re.compile(r"^(/?[^:\s][^:]*):(\d+):(?:\d+:)? (?:fatal )?(warning|error|note): (.*)$")
FILES_AT_ONCE = 40


class Tree:
    """The files of the project and where their build is."""

    def __init__(self, root, build, names, workers=1):
        self.root, self.build, self.names = root.resolve(), build.resolve(), names
        self.workers = workers

    @functools.cached_property
    def files(self):
        """All files, as paths from the root, restricted to the names."""
        found = [path for path in self.root.iterdir() if path.is_file()]
        for folder in FOLDERS:
            found += (path for path in (self.root / folder).rglob("*") if path.is_file())
        paths = sorted(str(path.relative_to(self.root)) for path in found)
        return [path for path in paths if "__pycache__" not in path and self.chosen(path)]

    def chosen(self, path):
        return not self.names or any(name in path for name in self.names)

    def ending(self, *suffixes):
        return [path for path in self.files if path.endswith(suffixes)]

    @property
    def cache(self):
        folder = self.build / "lint"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def run(self, command):
        """What a tool prints; its findings are paths from the root."""
        try:
            return subprocess.run(
                command, cwd=self.root, capture_output=True, text=True, errors="replace"
            )
        except FileNotFoundError:
            message = f"{command[0]} is missing: make setup installs it"
            return subprocess.CompletedProcess(command, 127, "", message)

    def findings(self, command, kinds=("error", "warning")):
        """The findings of a tool; one that fails without any is a finding itself. A note
        of a compiler belongs to the finding before it."""
        done = self.run(command)
        found = []
        for line in (done.stdout + done.stderr).splitlines():
            match = FINDING.match(line)
            if match and match[3] in kinds:
                path = os.path.relpath(os.path.join(self.root, match[1]), self.root)
                found.append(f"{path}:{match[2]}: {match[4]}")
        if done.returncode and not found:
            last = (done.stderr or done.stdout).strip().splitlines()[-3:]
            found.append(f"{command[0]} ended with {done.returncode}: {' | '.join(last)}")
        return found


def chunks(files):
    return [files[i : i + FILES_AT_ONCE] for i in range(0, len(files), FILES_AT_ONCE)]


def format_jobs(tree):
    command = ["clang-format-22", "--dry-run", "-Werror"]
    for files in chunks(tree.ending(".cpp", ".h")):
        yield functools.partial(tree.findings, [*command, *files])


def python_jobs(tree):
    files = tree.ending(".py")
    if files:
        command = [sys.executable, "-m", "ruff", "check", "--output-format", "concise", "--quiet"]
        command += ["--force-exclude"]
        yield lambda: ruff_findings(tree, [*command, f"--cache-dir={tree.cache / 'ruff'}", *files])


def ruff_findings(tree, command):
    """Ruff says no `error:` between place and finding."""
    done = tree.run(command)
    lines = [line for line in done.stdout.splitlines() if re.match(r"[^:]+:\d+:\d+: ", line)]
    if done.returncode and not lines:
        return [f"ruff ended with {done.returncode}: {(done.stderr or done.stdout).strip()}"]
    return [re.sub(r"^([^:]+:\d+):\d+: ", r"\1: ", line) for line in lines]


def types_jobs(tree):
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context"]
    command += ["--show-column-numbers", f"--cache-dir={tree.cache / 'mypy'}"]
    yield functools.partial(tree.findings, command)


def text_jobs(tree):
    files = [path for path in tree.files if is_text(tree.root / path)]
    for check in ("trailing-space", "spelling", "large-files", "first-line"):
        tool = str(pathlib.Path(__file__).resolve().parent.parent / "scripts/check-text.py")
        yield functools.partial(text_findings, tree, [sys.executable, tool, check, "--check", *files])


def is_text(path):
    try:
        return "\0" not in path.read_text()
    except UnicodeDecodeError:
        return False


def text_findings(tree, command):
    done = tree.run(command)
    if done.returncode and not done.stdout:
        return [f"check-text.py ended with {done.returncode}: {done.stderr.strip()}"]
    return done.stdout.splitlines()


def shell_jobs(tree):
    files = tree.ending(".sh")
    if files:
        command = ["shellcheck", "-f", "gcc", *files]
        yield lambda: tree.findings(command, kinds=("error", "warning", "note"))


# ------------------------------------------------------------------------------
# clang-tidy
# ------------------------------------------------------------------------------


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).digest()


def options_of(entry):
    """How a file is compiled: its command without compiler, source and output."""
    words = entry.get("arguments") or shlex.split(entry["command"])
    options, rest = [f"-working-directory={entry['directory']}"], iter(words[1:])
    for word in rest:
        if word == "-o":
            next(rest)
        elif word not in ("-c", entry["file"]):
            options.append(word)
    return options


# What a line at the left edge declares, as LLVM's style writes it, up to a parameter.
DECLARED = re.compile(
    r"(?:class|struct|union|enum(?: class)?) (\w+)|(?<![\w:])([A-Za-z_]\w*)(?= =|[(\[{;])"
)


@functools.cache
def words_of(path):
    """Names that a file uses or declares, but for members."""
    text = re.sub(r"//.*", "", pathlib.Path(path).read_text(errors="replace"))
    return set(re.findall(r"(?<![\w.>:])[A-Za-z_]\w*", text))


class Member:
    """What of a file reaches those after it in a translation unit."""

    def __init__(self, path, reached):
        self.path, self.reached = path, reached
        text = pathlib.Path(path).read_text(errors="replace")
        self.opens = set(re.findall(r"^using namespace ([\w:]+);", text, re.MULTILINE))
        self.brings = bool(re.search(r"^using (?!namespace\b)[^=;]+;", text, re.MULTILINE))
        # Names that another file may have too.
        self.own, unnamed = set(re.findall(r"\bmain(?=\()", text)), False
        for line in text.splitlines():
            if line.startswith(("namespace {", "} // namespace")):
                unnamed = line.startswith("namespace {")
            elif re.match(r"\w" if unnamed else r"static\b|const|class|struct|union|enum", line):
                head = "".join(line.partition("(")[:2])
                self.own |= {type or name for type, name in DECLARED.findall(head)}

    def precedes(self, other):
        """Whether the other reads the same after it. One that brings in a name of another
        namespace is the last: whether it uses the name can be told of the file alone that
        clang-tidy is given."""
        return (
            not self.brings
            and self.opens <= other.opens
            and all(self.own.isdisjoint(words_of(path)) for path in other.reached - self.reached)
        )


def shared_folders(path, other):
    return len(os.path.commonpath([path, other]).split("/"))


class Tidy:
    """Runs clang-tidy over the files of a compilation database, with a memory. Nine
    tenths of its time are clang's, for headers and templates that files have in common,
    so several files are read as one translation unit."""

    TOOL = "clang-tidy-22"
    FILES_IN_UNIT = 12
    # Names are queries of the configuration, which this version calls an experiment.
    COMMAND = (TOOL, "--quiet", "--experimental-custom-checks")

    def __init__(self, tree):
        self.tree = tree
        self.memory = tree.cache / "tidy"
        self.memory.mkdir(exist_ok=True)
        self.digest = functools.cache(digest)
        self.includes = functools.cache(self.find_includes)

    @functools.cached_property
    def common(self):
        """What the findings of every file depend on. Headers of packages change with
        their versions: LLVM's is the tool's, those of Python stand in a list."""
        known = self.tree.run([self.TOOL, "--version"]).stdout
        for name in (".clang-tidy", "scripts/requirements.txt"):
            path = self.tree.root / name
            known += path.read_text() if path.exists() else ""
        return known

    def jobs(self):
        database = self.tree.build / "compile_commands.json"
        if not database.exists():
            yield lambda: [f"{database} is missing: make configure writes it"]
            return
        # A file that is compiled twice, with sanitizers, say, is read once.
        entries: dict[str, dict] = {}
        for entry in filter(self.ours, json.loads(database.read_text())):
            entries.setdefault(entry["file"], entry)
        keys = {file: self.key(entry) for file, entry in entries.items()}
        known = {file: self.recall(entry) for file, entry in entries.items()}
        for file in entries:
            if known[file]["key"] == keys[file]:
                yield functools.partial(list, known[file]["findings"])
        units = self.units([entries[file] for file in entries if known[file]["key"] != keys[file]])
        # The longest first, so that no worker is left with one at the end.
        units.sort(key=lambda unit: (sum(known[e["file"]]["seconds"] for e in unit), len(unit)))
        for unit in reversed(units):
            yield functools.partial(self.check, unit, keys)

    def units(self, entries):
        """Files that are read together, in their order: of the same options, none in the
        way of another, and those near each other, which include the same. Units are
        smaller where a worker would be left without one."""
        size = max(1, min(self.FILES_IN_UNIT, len(entries) // self.tree.workers))
        units: dict[str, list] = collections.defaultdict(list)
        members = [(entry, Member(entry["file"], self.reached([entry["file"]]))) for entry in entries]
        for entry, member in sorted(members, key=lambda pair: (not pair[1].brings, pair[1].path)):
            alike = units[shlex.join(options_of(entry))]
            # Units with room for it, and where in them.
            room = [
                (shared_folders(unit[-1][1].path, member.path), i, unit)
                for unit in alike
                for i in (range(len(unit), -1, -1) if len(unit) < size else ())
                if all(other.precedes(member) for _, other in unit[:i])
                and all(member.precedes(other) for _, other in unit[i:])
            ]
            if room:
                _, i, unit = max(room, key=lambda found: found[0])
                unit.insert(i, (entry, member))
            else:
                alike.append([(entry, member)])
        return [[entry for entry, _ in unit] for alike in units.values() for unit in alike]

    def ours(self, entry):
        path = pathlib.Path(entry["file"])
        if not path.is_relative_to(self.tree.root) or path.is_relative_to(self.tree.build):
            return False
        return self.tree.chosen(str(path.relative_to(self.tree.root)))

    def place(self, entry):
        name = hashlib.sha256(entry["file"].encode()).hexdigest()[:16]
        return self.memory / f"{pathlib.Path(entry['file']).stem}-{name}.json"

    def recall(self, entry):
        """What is known of a file from an earlier run."""
        try:
            return json.loads(self.place(entry).read_text())
        except (OSError, ValueError):
            return {"key": "", "seconds": 0, "findings": []}

    def check(self, unit, keys):
        """What is found in files that are read as one. If there is anything, it may be
        what they do to each other, so the files are read in smaller units: a finding is
        that of a file alone."""
        start = time.monotonic()
        before = [word for entry in unit[:-1] for word in ("-include", entry["file"])]
        # Given the database it would run every command of the file.
        command = [*self.COMMAND, unit[-1]["file"], "--", *options_of(unit[-1]), *before]
        found = self.tree.findings(command)
        if found and len(unit) > 1:
            half = len(unit) // 2
            return self.check(unit[:half], keys) + self.check(unit[half:], keys)
        seconds = (time.monotonic() - start) / len(unit)
        for entry in unit:
            known = {"key": keys[entry["file"]], "seconds": seconds, "findings": found}
            new = self.place(entry).with_suffix(".new")
            new.write_text(json.dumps(known))
            new.rename(self.place(entry))
        return found

    def key(self, entry):
        words = options_of(entry)
        hash_ = hashlib.sha256((self.common + shlex.join(words)).encode())
        # Headers that the command includes itself: a precompiled header's text.
        direct = [words[i + 2] for i in range(len(words) - 2) if words[i] == "-include"]
        for path in sorted(self.reached([entry["file"], *direct])):
            hash_.update(self.digest(path))
        return hash_.hexdigest()

    def reached(self, paths):
        """The paths and what they include, directly or not."""
        reached, seen = list(paths), set()
        while reached:
            path = reached.pop()
            if path not in seen:
                seen.add(path)
                reached += self.includes(path)
        return seen

    def find_includes(self, path):
        """Headers of the source and of the build folder that a file includes; those of
        packages are not looked for."""
        found = []
        for name in INCLUDE.findall(pathlib.Path(path).read_text(errors="replace")):
            for folder in (self.tree.root, self.tree.build, pathlib.Path(path).parent):
                if (folder / name).exists():
                    found.append(str(folder / name))
                    break
        return found


CHECKS = {
    "format": format_jobs,
    "tidy": lambda tree: Tidy(tree).jobs(),
    "python": python_jobs,
    "types": types_jobs,
    "text": text_jobs,
    "shell": shell_jobs,
}


def run(root, build, checks, names, workers):
    """The findings of each check. Types come first: they are one long job."""
    tree = Tree(root, build, names, workers)
    order = sorted(checks, key=lambda check: check != "types")
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = [(check, pool.submit(job)) for check in order for job in CHECKS[check](tree)]
        found: dict[str, set[str]] = {check: set() for check in checks}
        for check, future in futures:
            found[check].update(future.result())
    return {check: sorted(found[check], key=place_of) for check in checks}


def place_of(finding):
    """Lines of a file in the order of their numbers."""
    path, _, rest = finding.partition(":")
    number = rest.partition(":")[0]
    return path, int(number) if number.isdigit() else 0, rest


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="checks the text of the sources")
    parser.add_argument("--root", type=pathlib.Path, default=root)
    parser.add_argument("--build", type=pathlib.Path, help="default: build of the root")
    parser.add_argument("--only", default=",".join(CHECKS), help="checks, with commas")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("names", nargs="*", help="parts of paths")
    options = parser.parse_args()
    checks = options.only.split(",")
    for check in checks:
        if check not in CHECKS:
            parser.error(f"unknown check {check}; there are {', '.join(CHECKS)}")
    build = options.build or options.root / "build"
    found = run(options.root, build, checks, options.names, options.workers)
    for check, lines in found.items():
        for line in lines:
            print(f"{line} [{check}]")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
