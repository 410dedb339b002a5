#!/usr/bin/env python3
"""Text checks of the pre-commit hooks and of `make lint`.

    scripts/check-text.py trailing-space|large-files|spelling|first-line [--check] FILE...

`trailing-space` repairs (no space at the end of a line, one newline at the end
of a file) unless `--check` is given, the others report; each fails when it found
something. Spelling looks for misspellings that are often seen, so it has no false
alarms on names. A file of C++, td or Python begins by saying what it holds: in C++
and td behind its name, which a renamed file has to follow.
"""

import ast
import pathlib
import re
import sys

MAX_BYTES = 256 * 1024
MISSPELLINGS = {
    "accomodate": "accommodate", "acheive": "achieve", "adress": "address",
    "agressive": "aggressive", "alignement": "alignment", "allready": "already",
    "arbitary": "arbitrary", "arguement": "argument", "asynchonous": "asynchronous",
    "begining": "beginning", "calender": "calendar", "comparision": "comparison",
    "compability": "compatibility", "completly": "completely", "concatination": "concatenation",
    "consistant": "consistent", "defintion": "definition", "dependancy": "dependency",
    "derivitive": "derivative", "determinstic": "deterministic", "dimention": "dimension",
    "embeding": "embedding", "enviroment": "environment", "exisiting": "existing",
    "existance": "existence", "explicitely": "explicitly", "funtion": "function",
    "garantee": "guarantee", "gaurantee": "guarantee", "gradiant": "gradient",
    "implemention": "implementation", "independant": "independent", "infomation": "information",
    "initalize": "initialize", "intermediatly": "intermediately", "langauge": "language",
    "lenght": "length", "maintainance": "maintenance", "neccessary": "necessary",
    "occured": "occurred", "occurence": "occurrence", "orignal": "original",
    "paramater": "parameter", "parrallel": "parallel", "paralell": "parallel",
    "perfomance": "performance", "postion": "position", "preceeding": "preceding",
    "probabilty": "probability", "recieve": "receive", "recomend": "recommend",
    "refered": "referred", "reproducable": "reproducible", "resouce": "resource",
    "seperate": "separate", "similiar": "similar", "succesful": "successful",
    "sucess": "success", "suport": "support", "teh": "the", "threshhold": "threshold",
    "transfered": "transferred", "unneccesary": "unnecessary", "untill": "until",
    "verfied": "verified", "wether": "whether", "wich": "which", "writting": "writing",
}
WORD = re.compile(r"[A-Za-z]+")


def trailing_space(path, repair):
    old = path.read_text()
    lines = old.splitlines()
    new = "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n" if old.strip() else ""
    if new == old:
        return []
    if repair:
        path.write_text(new)
        return [f"{path}: repaired"]
    wrong = [number for number, line in enumerate(lines, 1) if line != line.rstrip()]
    if wrong:
        return [f"{path}:{number}: space at the end of the line" for number in wrong]
    return [f"{path}:{len(lines)}: not exactly one newline at the end of the file"]


def large_files(path, repair):
    size = path.stat().st_size
    return [f"{path}:1: {size} bytes, at most {MAX_BYTES}"] if size > MAX_BYTES else []


def spelling(path, repair):
    if path.resolve() == pathlib.Path(__file__).resolve():
        return []
    return [
        f"{path}:{number}: {word}, write {MISSPELLINGS[word.lower()]}"
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        for word in WORD.findall(line)
        if word.lower() in MISSPELLINGS
    ]


def first_line(path, repair):
    if path.suffix == ".py":
        text = path.read_text(errors="replace")
        if not text.strip():
            return []
        try:
            return [] if ast.get_docstring(ast.parse(text)) else [f"{path}:1: no docstring"]
        except SyntaxError as error:
            return [f"{path}:{error.lineno}: {error.msg}"]
    if path.suffix not in (".cpp", ".h", ".td"):
        return []
    wanted = f"//===- {path.name} - "
    text = path.read_text(errors="replace")
    return [] if text.startswith(wanted) else [f"{path}:1: expected {wanted}what it holds"]


CHECKS = {
    "trailing-space": trailing_space,
    "large-files": large_files,
    "spelling": spelling,
    "first-line": first_line,
}


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in CHECKS:
        sys.exit(__doc__)
    check = CHECKS[sys.argv[1]]
    repair = "--check" not in sys.argv
    names = [name for name in sys.argv[2:] if name != "--check"]
    found = [line for name in names for line in check(pathlib.Path(name), repair)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
