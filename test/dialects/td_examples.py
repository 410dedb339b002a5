#!/usr/bin/env python3
"""Runs the examples of all td files of some folders through sextant-opt.

    td_examples.py OPT FOLDER...

Every ```mlir block of a description must parse. A block of whole modules (it
begins with `module`, `func.func` or `pos.encoding`) is verified as well. Any
other block stands in a function that gets the values the block uses and does not
define; their types are found by asking the parser, which reports the type that
a name was used with when it meets a definition of another type. Lines of
attributes (`#pos.use<...>`) are parsed as attributes of an op.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

FENCE = re.compile(r"^([ \t]*)```mlir\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
WHOLE = ("module", "func.func", "pos.encoding", "builtin.module")
NO_VERIFIER = "--mlir-very-unsafe-disable-verifier-on-parsing"
UNKNOWN = "!example.unknown"


def blocks(path):
    """(line, text) of every example of a td file."""
    text = path.read_text()
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        yield line, textwrap.dedent(match[2])


def parse(opt, text, *flags):
    """What sextant-opt says against a text, or nothing."""
    done = subprocess.run(
        [opt, "--allow-unregistered-dialect", *flags, "-o", "/dev/null"],
        input=text, capture_output=True, text=True,
    )
    return done.stderr or None if done.returncode else None


def free_names(text):
    """Names that are used and not defined, in order of appearance."""
    code = re.sub(r"//[^\n]*|\"(?:\\.|[^\"\\])*\"", "", text)
    defined = set()
    for results in re.findall(r"^\s*((?:%\w+(?::\d+)?\s*,?\s*)+)=", code, re.MULTILINE):
        defined.update(re.findall(r"%\w+", results))
    defined.update(re.findall(r"(%\w+)\s*:", " ".join(re.findall(r"\^\w+\((.*?)\)", code))))
    used = dict.fromkeys(re.findall(r"%\w+", code))
    return [name for name in used if name not in defined]


def type_of(opt, text, name):
    """The type that a block uses a name with, found from the parser's message."""
    probe = f'func.func @example() {{\n{text}\n{name} = "example.value"() : () -> {UNKNOWN}\n' \
            "return\n}\n"
    message = parse(opt, probe, NO_VERIFIER) or ""
    # Names of other free values may be reported as well, so search by name.
    found = re.search(
        rf"definition of SSA value '{re.escape(name)}(?:#0)?' has type.*?previously used here "
        r"with type '([^\n]*)'\n", message, re.DOTALL)
    return found[1] if found else None


def check(opt, text):
    """What is wrong with one example, or nothing."""
    lines = [line for line in text.splitlines() if line.strip()]
    code = [line for line in lines if not line.strip().startswith("//")]
    if not code:
        return "an example without code"
    if code[0].startswith(WHOLE):
        return parse(opt, text)
    if code[0].startswith(("#", "!")):
        for line in code:
            what = line if line.startswith("#") else f"{line}"
            error = parse(opt, f'"example.op"() {{attribute = {what}}} : () -> ()\n')
            if error:
                return error
        return None
    names = free_names(text)
    arguments = []
    for name in names:
        kind = type_of(opt, text, name)
        if not kind:
            return parse(opt, f"func.func @example() {{\n{text}\nreturn\n}}\n", NO_VERIFIER)
        arguments.append(f"{name}: {kind}")
    end = "" if re.match(r"(func\.)?return\b", code[-1].strip()) else "return\n"
    whole = f"func.func @example({', '.join(arguments)}) {{\n{text}\n{end}}}\n"
    return parse(opt, whole, NO_VERIFIER)


def main():
    opt, folders = sys.argv[1], map(pathlib.Path, sys.argv[2:])
    files = sorted(path for folder in folders for path in folder.rglob("*.td"))
    wrong = count = 0
    for path in files:
        for line, text in blocks(path):
            count += 1
            error = check(opt, text)
            if error:
                wrong += 1
                print(f"{path}:{line}: example does not parse:\n{error.strip()}\n")
    print(f"{count} examples, {wrong} wrong")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
