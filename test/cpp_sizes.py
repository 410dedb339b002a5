#!/usr/bin/env python3
"""Measures functions and classes of C++ files, without compiling them.

    test/cpp_sizes.py [--root DIR] [--all] [FOLDER...]

Prints one line per function or class above its limit, `file:line: what`, and
fails when there is one. Without folders these are the folders that hold the
limits; with `--all` everything is listed, largest first, whatever its size.

A function is as long as the lines from its first word to its closing brace. A
method is a function that a class declares, constructors and destructors apart. A
class of a header stands in the files of its body and of the methods defined outside
of it. It hides a method when it declares the name of one that a base declares,
which is not virtual.

The files must have been formatted: of C++ only what LLVM's style leaves of it is
read (no macro that opens a scope, no old-style K&R parameters).
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import sys

MAX_FUNCTION_LINES = 80
MAX_PARAMETERS = 8
MAX_METHODS = 25
MAX_CLASS_FILES = 2
# The folders that hold the limits. test/layering.py asks for these.
FOLDERS = ("dialects", "passes", "codegen", "runtime", "tools", "frontend", "test")

TOKEN = re.compile(
    r"""
      (?P<skip> \s+ | //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:[^\n\\]|\\.)* )
    | (?P<string> R"(?P<fence>[^(\s]*)\(.*?\)(?P=fence)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+' )
    | (?P<word> [A-Za-z_]\w* )
    | (?P<number> \.?\d(?:[\w.']|[eEpP][+-])* )
    | (?P<mark> ::|->\*?|&&|<<=|<=>|[-+*/%&|^=!<>]=|\[\[|\]\]|\.\.\.|. )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
CLASS_KEYS = {"class", "struct", "union"}
# What a declaration of a class may begin with that is no method.
NO_METHOD = {"using", "typedef", "friend", "static_assert", "enum", "class", "struct", "union"}
CLOSES = {"(": ")", "{": "}", "[": "]", "[[": "]]"}


@dataclasses.dataclass
class Token:
    kind: str
    text: str
    line: int


@dataclasses.dataclass
class Function:
    path: str
    line: int
    name: str
    lines: int
    parameters: int


@dataclasses.dataclass
class Class:
    path: str
    line: int
    name: str
    bases: list
    methods: dict = dataclasses.field(default_factory=dict)  # name -> (line, is virtual)
    count: int = 0


def tokens_of(text):
    tokens, line = [], 1
    for match in TOKEN.finditer(text):
        if match.lastgroup != "skip" and not match["skip"]:
            kind = next(k for k in ("string", "word", "number", "mark") if match[k])
            tokens.append(Token(kind, match[0], line))
        line += match[0].count("\n")
    return tokens


class Reader:
    """Reads one file: what stands at namespace or class scope is taken apart, bodies
    are skipped."""

    def __init__(self, path, text):
        self.path, self.tokens, self.at = path, tokens_of(text), 0
        self.functions, self.classes = [], []

    def skip_balanced(self):
        """Steps over a bracket and what it closes; gives the closing token."""
        open_ = self.tokens[self.at].text
        depth = 0
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            if token.kind == "mark" and token.text == open_:
                depth += 1
            elif token.kind == "mark" and token.text == CLOSES[open_]:
                depth -= 1
                if depth == 0:
                    return token
        raise ValueError(f"{self.path}: {open_} is not closed")

    def read(self, scope=None):
        """Reads declarations up to the closing brace of a scope; scope is a Class, or
        None in a namespace."""
        head: list[tuple[str, list[Token]]] = []
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.text == "}" and token.kind == "mark":
                self.at += 1
                return
            if token.text == ";" and token.kind == "mark":
                self.at += 1
                self.declaration(head, scope)
                head = []
            elif token.text == "{" and token.kind == "mark":
                head = self.brace(head, scope)
            elif token.text in ("(", "[", "[[") and token.kind == "mark":
                begin = self.at
                self.skip_balanced()
                head.append((token.text, self.tokens[begin : self.at]))
            elif scope and token.text == ":" and is_access(head):
                self.at += 1
                head = []
            else:
                self.at += 1
                head.append((token.text, [token]))

    def brace(self, head, scope):
        """What an opening brace begins; gives the head to go on with."""
        words = [text for text, _ in without_template(head)]
        if words[:1] == ["namespace"] or words[:2] == ["inline", "namespace"]:
            self.at += 1
            self.read()
            return []
        if words[:1] == ["extern"] and len(words) == 2:
            # Functions of an interface that others have written, in C.
            self.at += 1
            first = len(self.functions)
            self.read()
            for function in self.functions[first:]:
                function.parameters = min(function.parameters, MAX_PARAMETERS)
            return []
        if words and words[0] in CLASS_KEYS and "(" not in strip_angles(words):
            return self.class_(head, words)
        call = parameter_list(head)
        if call is not None and is_body(head, call):
            begin = head[0][1][0].line
            lines = self.skip_balanced().line - begin + 1
            name = name_of(head, call)
            count = count_parameters(head[call][1])
            self.functions.append(Function(self.path, begin, name, lines, count))
            self.method(scope, head, call)
            return []
        # An enum, an initialiser in braces: part of the declaration.
        begin = self.at
        self.skip_balanced()
        return [*head, ("{", self.tokens[begin : self.at])]

    def class_(self, head, words):
        colon = words.index(":") if ":" in words else len(words)
        name = [w for w in words[1:colon] if re.match(r"[A-Za-z_]", w) and w != "final"]
        parts = [strip_angles(part) for part in split(words[colon + 1 :], ",")]
        bases = [part[-1] for part in parts if part]
        found = Class(self.path, head[0][1][0].line, name[0] if name else "", bases)
        self.classes.append(found)
        self.at += 1
        self.read(found)
        # A variable of the class may follow, then the semicolon.
        return [("class", [self.tokens[self.at - 1]])]

    def declaration(self, head, scope):
        call = parameter_list(head)
        if scope and call is not None and head[0][0] not in NO_METHOD:
            self.method(scope, head, call)

    def method(self, scope, head, call):
        if not scope:
            return
        words = [text for text, _ in head]
        name = name_of(head, call)
        if words[0] == "friend" or name.lstrip("~") == scope.name:
            return
        scope.count += 1
        is_virtual = bool({"virtual", "override", "final"} & set(words))
        scope.methods.setdefault(name, (head[0][1][0].line, is_virtual))


def is_access(head):
    return len(head) == 1 and head[0][0] in ("public", "private", "protected")


def without_template(head):
    """The head of a declaration without `template <...>` and attributes."""
    while head and head[0][0] in ("template", "[["):
        if head[0][0] == "[[":
            head = head[1:]
            continue
        depth, end = 0, 1
        while end < len(head):
            depth += {"<": 1, ">": -1}.get(head[end][0], 0)
            end += 1
            if depth == 0:
                break
        head = head[end:]
    return head


def strip_angles(words):
    """Words outside <...>."""
    depth, out = 0, []
    for word in words:
        if word == "<":
            depth += 1
        elif word == ">":
            depth -= 1
        elif depth == 0:
            out.append(word)
    return out


def split(words, mark):
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += {"<": 1, ">": -1}.get(word, 0)
        if word == mark and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def parameter_list(head):
    """Where in a head its parameters stand, or None: the first parenthesis outside
    <...> that follows a name and precedes any `=`."""
    depth, operator = 0, False
    start = len(head) - len(without_template(head))
    for at in range(start, len(head)):
        text = head[at][0]
        if text == "operator":
            operator = True
        elif text == "(":
            before = head[at - 1][0] if at > start else ""
            # The name of a call operator is a pair of parentheses itself.
            if operator and before == "operator":
                continue
            if depth == 0 and (operator or re.match(r"[A-Za-z_]", before)):
                return at
        elif operator:
            continue
        elif text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
        elif text == "=" and depth == 0:
            return None
    return None


def is_body(head, call):
    """Whether a brace after this head is the body of the function: not the braces of
    an initialiser, in the list that follows a constructor's colon."""
    if ":" not in [text for text, _ in head[call + 1 :]]:
        return True
    return head[-1][0] in ("(", "{")


def name_of(head, call):
    words = [text for text, _ in head[:call]]
    if "operator" in words:
        return "operator" + "".join(words[words.index("operator") + 1 :])
    at = len(words) - 1
    if at > 0 and words[at - 1] == "~":
        words[at - 1 :] = ["~" + words[at]]
        at -= 1
    while at >= 2 and words[at - 1] == "::":
        at -= 2
    return "".join(words[at:])


def count_parameters(tokens):
    inner = [token.text for token in tokens[1:-1]]
    if not inner or inner == ["void"]:
        return 0
    count, depth = 1, 0
    for text in inner:
        if text in "([{<":
            depth += 1
        elif text in ")]}>":
            depth -= 1
        elif text == "," and depth == 0:
            count += 1
    return count


def measure(root, folders):
    """Functions and classes of the C++ files of folders."""
    functions, classes = [], []
    for folder in folders:
        base = root / folder
        for path in sorted(base.rglob("*")):
            if path.suffix in (".cpp", ".h") and not path.name.endswith("_generated.h"):
                reader = Reader(str(path.relative_to(root)), path.read_text())
                reader.read()
                functions += reader.functions
                classes += reader.classes
    return functions, classes


def files_of(functions, classes):
    """Per class of a header the files of its body and of its methods."""
    files = collections.defaultdict(set)
    for found in classes:
        if found.path.endswith(".h"):
            files[found.name].add(found.path)
    for found in functions:
        owner = found.name.rpartition("::")[0]
        if owner in files:
            files[owner].add(found.path)
    return files


def violations(root, folders):
    """Per violation: where, what."""
    for folder in folders:
        yield from above_limits(*measure(root, [folder]))


def above_limits(functions, classes):
    for found in functions:
        where = f"{found.path}:{found.line}"
        if found.lines > MAX_FUNCTION_LINES:
            yield where, f"{found.name} has {found.lines} lines, at most {MAX_FUNCTION_LINES} are allowed"
        if found.parameters > MAX_PARAMETERS:
            yield where, (
                f"{found.name} has {found.parameters} parameters, at most {MAX_PARAMETERS} are allowed"
            )
    files = files_of(functions, classes)
    by_name = {found.name: found for found in classes}
    for found in classes:
        where = f"{found.path}:{found.line}"
        if found.count > MAX_METHODS:
            yield where, f"{found.name} has {found.count} methods, at most {MAX_METHODS} are allowed"
        if found.path.endswith(".h") and len(files[found.name]) > MAX_CLASS_FILES:
            yield where, (
                f"{found.name} stands in {len(files[found.name])} files, "
                f"at most {MAX_CLASS_FILES} are allowed"
            )
        for base in found.bases:
            inherited = by_name[base].methods if base in by_name else {}
            for name, (line, _) in found.methods.items():
                if name in inherited and not inherited[name][1]:
                    yield f"{found.path}:{line}", f"{found.name}::{name} hides the one of {base}"


def main():
    parser = argparse.ArgumentParser(description="measures C++ functions and classes")
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=pathlib.Path, default=root)
    parser.add_argument("--all", action="store_true", help="list all, largest first")
    parser.add_argument("folders", nargs="*", help=f"of {', '.join(FOLDERS)}")
    options = parser.parse_args()
    folders = options.folders or FOLDERS
    if options.all:
        functions, classes = measure(options.root, folders)
        for found in sorted(functions, key=lambda f: -f.lines):
            print(f"{found.path}:{found.line}: {found.name}: {found.lines} lines, {found.parameters} parameters")
        for found in sorted(classes, key=lambda c: -c.count):
            print(f"{found.path}:{found.line}: {found.name}: {found.count} methods")
        return 0
    found = [f"{where}: {what}" for where, what in violations(options.root, folders)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
