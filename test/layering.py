#!/usr/bin/env python3
"""Checks that the parts of Sextant stand in their order.

    test/layering.py [--root DIR]

Prints one line per violation, `file:line: what`, and fails when there is one:

* a layer includes a layer above it: dialects < passes < codegen < tools and
  frontend; the runtime includes nothing of these, nor MLIR or LLVM, and stands
  below codegen;
* a room of codegen includes a file of, or links the library of, a room that it
  does not know (codegen/README.md), or an upstream header that has no place in
  it: a plan knows no vectors; what is written for vectors of any
  width names no instruction set; only the table of targets asks for the CPU;
* a source file has more than 800 lines;
* the name of an installed encoding stands in a string literal or after `@`
  outside dialects/Pos/Encodings: passes and kernels know no encoding by name,
  and neither do the Python builders of models and the training loop, but for
  the mask that makes a model one of language;
* test files import different modules by one name: a process has one of each name, so which
  of them it is would depend on the order of tests;
* a class of a header has no sentence before it (///) that says what it is;
* a C++ function or class is larger than test/cpp_sizes.py allows.
"""

import argparse
import ast
import pathlib
import re
import sys

import cpp_sizes

MAX_LINES = 800
# An encoding is one file, whatever network its functions hold; one that is read to texts and
# to images, with the losses of both, takes most.
MAX_LINES_OF_ENCODING = 950
LAYERS = {
    "dialects": {"dialects"},
    "passes": {"passes", "dialects"},
    "codegen": {"codegen", "passes", "dialects", "runtime"},
    "runtime": {"runtime"},
    "tools": {"tools", "codegen", "passes", "dialects", "runtime"},
    "frontend": {"frontend", "codegen", "passes", "dialects", "runtime"},
}
# What each room of codegen knows besides itself.
ROOMS = {
    "Payload": set(),
    "Plan": set(),
    "Emit": {"Plan"},
    "Tables": {"Payload", "Plan", "Emit"},
    "Tiles": {"Payload", "Plan", "Emit", "Tables"},
    "Rows": {"Payload", "Plan", "Emit", "Tables", "Tiles"},
    "Reference": {"Payload", "Plan", "Emit", "Tables"},
    "Artifact": set(),
    "MachineCode": {"Emit", "Artifact"},
    "CPU/MachineCode": {"Emit", "Artifact", "MachineCode"},
    "CPU/Forward": {"Payload", "Plan", "Emit", "Tables", "Tiles", "Rows"},
    "CPU/Backward": {"Payload", "Plan", "Emit", "Tables", "Tiles", "Rows"},
    "CPU/AllHeads": {"Payload", "Plan", "Emit", "Tables", "Tiles", "Rows",
                     "CPU/Forward", "CPU/Backward"},
    "CPU": {"Payload", "Plan", "Emit", "Tables", "Tiles", "Rows",
            "CPU/Forward", "CPU/Backward", "CPU/AllHeads"},
    "CUDA": {"Plan", "Emit", "Artifact", "MachineCode"},
    "CUDA/Sm80": {"Payload", "Plan", "Emit", "Tables", "Tiles", "Rows", "CUDA"},
    "Host": {"Artifact"},
    "Driver": {"Payload", "Plan", "Emit", "Tables", "Rows", "Reference", "Artifact",
               "MachineCode", "Host"},
}
# The one file that knows which targets there are, and its library.
TABLE_OF_TARGETS = pathlib.PurePath("codegen/Driver/Targets.cpp")
TABLE_LIBRARY = "Driver"
VECTORLESS = ("Plan",)
ANY_WIDTH = ("Payload", "Plan", "Emit", "Tables", "Tiles", "Rows", "Reference")
CLASS = re.compile(r"(?:class|struct|enum class) (?:\[\[\w+\]\] )?(\w+)")
VECTOR_HEADER = re.compile(r"mlir/Dialect/Vector/|immintrin")
INSTRUCTION_SET = re.compile(r"x86|avx|mxcsr|nvvm|\bsse|\bptx", re.IGNORECASE)
NAMELESS = ("dialects", "passes", "codegen", "runtime")
NAMELESS_PYTHON = ("frontend/python/sextant/models", "frontend/python/sextant/training")
# A token may not see the one that it is to predict, whatever the encodings are.
MASK_OF_LANGUAGE = "causal"
FOREIGN_TO_RUNTIME = ("mlir", "mlir-c", "llvm", "llvm-c", "lld", "clang")
SOURCES = {".h", ".cpp", ".c", ".td", ".fbs", ".inc", ".py", ".sh", ".mlir",
           ".test", ".cmake", ".txt", ".in"}
COMPILED = {".h", ".cpp", ".c", ".td", ".fbs", ".inc"}
ENCODINGS = pathlib.PurePath("dialects/Pos/Encodings")

INCLUDE = re.compile(r'^\s*#?\s*include\s+["<]([^">]+)[">]')
LIBRARY = re.compile(r"sextant_add_library\((\w+)[^)]*?\bLINK\b([^)]*)\)")
# A comment, or a string or character literal; comments are dropped.
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\((?P<raw>.*?)\)"|"(?P<text>(?:\\.|[^"\\\n])*)"'
    r"|'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SYMBOL = re.compile(r'@"?([A-Za-z_][A-Za-z0-9_]*)')


def source_files(root):
    """Every source file below the folders of the project, relative to root."""
    for folder in [*LAYERS, "cmake", "scripts", "test"]:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in SOURCES:
                yield path.relative_to(root)


def encoding_names(root):
    """Names of the installed encodings: what their files define."""
    names = set()
    for path in sorted((root / ENCODINGS).rglob("*.mlir")):
        names.update(re.findall(r"pos\.encoding\s+@(\w+)", path.read_text()))
    return names


def check_includes(path, text):
    layer = path.parts[0]
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        top = match[1].split("/")[0]
        if layer == "runtime" and top in FOREIGN_TO_RUNTIME:
            yield number, f"the runtime includes {match[1]}"
        elif top in LAYERS and "/" in match[1] and top not in LAYERS[layer]:
            yield number, f"{layer} includes {match[1]}"


def room_of(path):
    """The room of a file of codegen, or none for what lies beside the rooms."""
    folders = path.parts[1:-1]
    for length in (2, 1):
        if "/".join(folders[:length]) in ROOMS:
            return "/".join(folders[:length])
    return None


def check_rooms(path, text):
    room = room_of(path)
    if room is None:
        yield 1, "this file of codegen stands in no room"
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match and match[1].startswith("codegen/"):
            other = room_of(pathlib.PurePath(match[1]))
            if (other not in ROOMS[room] | {room}
                    and not (path == TABLE_OF_TARGETS and other and other.startswith(("CPU", "CUDA")))):
                yield number, f"codegen/{room} includes {match[1]}"
        elif match and room in VECTORLESS and VECTOR_HEADER.match(match[1]):
            yield number, f"codegen/{room} knows no vectors, but includes {match[1]}"
        elif room in ANY_WIDTH and INSTRUCTION_SET.search(line.split("//")[0]):
            yield number, f"codegen/{room} names an instruction set: {line.strip()}"


def check_libraries(root):
    """Libraries of rooms link in the direction in which rooms include."""
    libraries = {}
    for path in sorted((root / "codegen").rglob("CMakeLists.txt")):
        text = path.read_text()
        for match in LIBRARY.finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            libraries[match[1]] = (path.relative_to(root), number, match[2].split())
    for library, (path, number, links) in libraries.items():
        room = room_of(path)
        known = ROOMS.get(room, set()) | {room}
        for link in links:
            other = room_of(libraries[link][0]) if link in libraries else None
            if other and other not in known and not (
                    room == TABLE_LIBRARY and other.startswith(("CPU", "CUDA"))):
                yield f"{path}:{number}: {library} links {link}"


def check_names(text, names):
    for match in SYMBOL.finditer(text):
        if match[1] in names:
            yield text.count("\n", 0, match.start()) + 1, f"@{match[1]} is an encoding"
    includes = {n for n, line in enumerate(text.splitlines(), 1) if INCLUDE.match(line)}
    for match in TOKEN.finditer(text):
        literal = match["raw"] or match["text"] or ""
        number = text.count("\n", 0, match.start()) + 1
        if number in includes:
            continue
        for name in sorted(names & set(WORD.findall(literal))):
            if "@" + name not in literal:
                yield number, f'"{literal}" names the encoding {name}'


def check_python_names(text, names):
    """Literals of a Python file, but for docstrings, as `check_names` does."""
    tree = ast.parse(text)
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    docstrings = {id(value) for value in statements if isinstance(value, ast.Constant)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        literal = node.value if isinstance(node.value, str) else ""
        for name in sorted(names & set(WORD.findall(literal)) - {MASK_OF_LANGUAGE}):
            yield node.lineno, f'"{literal}" names the encoding {name}'


def check_sentences(text):
    """Classes of a header at the level of its namespace."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        match = CLASS.match(line)
        if not match or (line.endswith(";") and "{" not in line):
            continue
        before = index - 1
        while before >= 0 and lines[before].startswith("template"):
            before -= 1
        if before < 0 or not lines[before].startswith("///"):
            yield index + 1, f"{match[1]} has no sentence that says what it is"


def imported_names(text):
    """Modules that a file imports by a bare name, and where."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module, node.lineno


def check_modules(root):
    """Names of test modules. pytest puts the folder of each on the path, and a folder of
    scripts under test stands there as well."""
    paths = [
        path.relative_to(root)
        for folder in ("test", "tools/bench")
        for path in sorted((root / folder).rglob("*.py"))
    ]
    files: dict[str, list[pathlib.Path]] = {}
    for path in paths:
        if path.stem != "conftest":  # of which pytest keeps one for each folder
            files.setdefault(path.stem, []).append(path)
    shared = {name: found for name, found in files.items() if len(found) > 1}
    first: dict[str, pathlib.Path] = {}

    def find(name, folder):
        """What a file of a folder imports: its neighbour, what all tests share, or a script."""
        order = [folder, pathlib.PurePath("test"), pathlib.PurePath("tools/bench")]
        places = {path.parent: path for path in shared.get(name, ())}
        return next((places[place] for place in order if place in places), None)

    def take(name, path, where):
        other = first.setdefault(name, path)
        if other != path:
            yield f"{where}: {path} and {other} are one module to pytest: rename one of them"

    for path in paths:
        if path.name.startswith("test_"):
            yield from take(path.stem, path, f"{path}:1")
        for name, line in imported_names((root / path).read_text()) if shared else ():
            if found := find(name, path.parent):
                yield from take(name, found, f"{path}:{line}")


def violations(root):
    names = encoding_names(root)
    for path in source_files(root):
        text = (root / path).read_text(errors="replace")
        lines = text.count("\n")
        most = MAX_LINES_OF_ENCODING if ENCODINGS in path.parents else MAX_LINES
        if lines > most:
            yield f"{path}:{most + 1}: {lines} lines, at most {most} are allowed"
        if path.suffix == ".py" and path.as_posix().startswith(NAMELESS_PYTHON):
            for number, what in sorted(check_python_names(text, names)):
                yield f"{path}:{number}: {what}"
        if path.suffix not in COMPILED:
            continue
        found = []
        if path.parts[0] in LAYERS:
            found += check_includes(path, text)
        if path.suffix == ".h":
            found += check_sentences(text)
        if path.parts[0] == "codegen":
            found += check_rooms(path, text)
        if path.parts[0] in NAMELESS and ENCODINGS not in path.parents:
            found += check_names(text, names)
        for number, what in sorted(found):
            yield f"{path}:{number}: {what}"
    yield from check_libraries(root)
    yield from check_modules(root)
    for where, what in cpp_sizes.violations(root, cpp_sizes.FOLDERS):
        yield f"{where}: {what}"


def main():
    parser = argparse.ArgumentParser(description="checks the order of Sextant's parts")
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=pathlib.Path, default=root)
    found = list(violations(parser.parse_args().root))
    print("\n".join(found) if found else "layers in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
