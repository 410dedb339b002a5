#!/usr/bin/env python3
"""Keeps the README's table of encodings true.

    scripts/encodings-table.py [--write] [README.md]

Name, places and parameters of a row come from the definition; what is fused comes from
lowering an attention with the encoding to kernels, for every CPU target of this
machine and for GPUs. What an encoding does and its paper are written by hand and kept. Prints the
table, or with --write puts it into the file. Needs `sextant` on PYTHONPATH
(build/python).
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEAD = (
    *("name", "what it does", "places", "parameters"),
    *("fused on CPUs", "on GPUs, as warps", "on tensor cores", "paper"),
)
# Those of both types; what GPUs differ in comes after kernels are written.
GPU = ("cuda:sm_80", ("f32", "bf16"))
NARROW = ("bf16", "f16")
# In the names of main kernels that multiply on tensor cores.
FORWARD, BACKWARD = "_forward_fragments", "_backward_fragments"
OUTSIDE = ("embedding", "query_input", "key_input", "value_input")
SIZE = 64
MOST_OF_MODEL = 8


def places_of(info):
    """`score`, `query_dot`; `rows` of query, key; `produce`."""
    places = [*info.places, *(function.split("(")[0] for function in info.functions)]
    return ", ".join(re.sub(r"^\w+", r"`\g<0>`", place) for place in places)


def parameters_of(info):
    def kind(p):
        if p.given:
            return " (given or made)" if p.filled_by else " (given)"
        return " (frozen)" if p.made else ""

    # Those of a network would be a column of their own.
    shown = [p for p in info.parameters if not p.of_model]
    inside = [p for p in info.parameters if p.of_model]
    if len(inside) <= MOST_OF_MODEL:
        shown, inside = info.parameters, []
    named = [f"`{p.name}`{kind(p)}" for p in shown]
    return ", ".join([*named, *([f"{len(inside)} of its functions"] if inside else [])])


def texts(name, dtype, backward, axes=2):
    """Modules in which an encoding acts at all its places, with positions of some axes."""
    from sextant import attention_text, definitions

    found = definitions.signature([name])
    if found.requires_past:
        found = definitions.signature(["causal", name])
    types = tuple(
        attention_text.ParamType(p.name, p.rank, p.element, p.trained) for p in found.params
    )
    outside = [operand for operand in OUTSIDE if operand in found.operands]
    for operand in outside:
        yield attention_text.map_rows_module(
            dtype, SIZE, operand, found.uses, types, found.definitions, 2, backward
        )
    if not outside:
        heads = 4 if found.all_heads else 0
        key = attention_text.AttentionKey(
            dtype, SIZE, (SIZE,), found.uses, types, found.definitions, axes, axes, heads=heads
        )
        yield attention_text.attention_module(key, backward=backward)


def kernels_of(name, target, dtype, backward, axes=2):
    """The kernels of a target, in a type; none where one of them does not exist."""
    from sextant import CompileError, backend, definitions

    def lower(text):
        folders = definitions.first_folders()
        return backend.compiler().compile(text, target, folders, "kernel", name)

    try:
        return [str(lower(text)) for text in texts(name, dtype, backward, axes)]
    except CompileError:
        return []


def is_lowered(name, target, dtype, backward):
    return bool(kernels_of(name, target, dtype, backward))


def tensor_cores_of(name):
    """What multiplies on tensor cores, and in which types; without positions where an
    encoding does not need them."""
    from sextant import definitions

    axes = definitions.axes([name])
    axes = axes if axes > 1 else 0
    found: dict[str, list[str]] = {}
    for dtype in NARROW:
        # Of both directions, or of a forward that has no backward.
        kernels = kernels_of(name, GPU[0], dtype, True, axes)
        kernels = kernels or kernels_of(name, GPU[0], dtype, False, axes)
        if any(FORWARD in k for k in kernels):
            both = any(BACKWARD in k for k in kernels)
            found.setdefault("forward, backward" if both else "forward", []).append(dtype)
    return "; ".join(f"{what} ({', '.join(types)})" for what, types in found.items())


def cpu_targets():
    """Those of this machine, each with the type that it is for."""
    from sextant import backend

    names = [t for t in backend.compiler().list_targets() if t.startswith("cpu:")]
    return [(name, "bf16" if name.endswith("bf16") else "f32") for name in names]


def fused_on(name, targets):
    """What is fused, by target where targets, pairs of name and type, differ."""
    found: dict[str, list[str]] = {}
    for target, dtype in targets:
        if is_lowered(name, target, dtype, True):
            what = "forward, backward"
        else:
            what = "forward" if is_lowered(name, target, dtype, False) else ""
        found.setdefault(what, []).append(target.removeprefix("cpu:"))
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{w} ({', '.join(t)})" for w, t in found.items() if w)


def rows_of(table):
    """Cells of a table by the first one, without head and rule."""
    lines = [line.strip().strip("|") for line in table.strip().splitlines()]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return cells[0], {row[0].strip("`"): dict(zip(cells[0], row)) for row in cells[2:]}


def make_table(old):
    """The table as it should be, with the words of the one that is there."""
    import sextant

    _, known = rows_of(old)
    lines = [" | ".join(HEAD), "|".join("---" for _ in HEAD)]
    # The package's own, not those of the user's folders.
    own = {path.stem for path in (ROOT / "dialects/Pos/Encodings").rglob("*.mlir")}
    for info in [e for e in sextant.encodings() if e.name in own]:
        row = known.get(info.name, {})
        cells = (
            f"`{info.name}`",
            row.get("what it does", ""),
            places_of(info),
            parameters_of(info),
            fused_on(info.name, cpu_targets()),
            fused_on(info.name, [(GPU[0], dtype) for dtype in GPU[1]]),
            tensor_cores_of(info.name),
            row.get("paper", ""),
        )
        lines.append(" | ".join(cells))
    rows = (f"| {line} |\n" if i != 1 else f"|{line}|\n" for i, line in enumerate(lines))
    return "".join(rows).replace("|  |", "| |")


def find_table(page):
    """Begin and end of the table in a page."""
    found = re.search(r"^\| name \|.*?(?=^(?!\|))", page, re.DOTALL | re.MULTILINE)
    if not found:
        sys.exit("the page has no table that begins with | name |")
    return found.span()


def update(page):
    """The page with the table as it should be."""
    begin, end = find_table(page)
    return page[:begin] + make_table(page[begin:end]) + page[end:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("page", nargs="?", type=pathlib.Path, default=ROOT / "README.md")
    parser.add_argument("--write", action="store_true", help="change the file")
    options = parser.parse_args()
    page = update(options.page.read_text())
    if options.write:
        options.page.write_text(page)
    else:
        begin, end = find_table(page)
        print(page[begin:end], end="")


if __name__ == "__main__":
    main()
