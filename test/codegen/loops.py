"""Reads the assembly of the kernels of every encoding and looks into their loops.

Usage: loops.py ENCODINGS TARGET DTYPE

For each definition below the folder ENCODINGS that acts inside attention, compiles a
forward and a backward with all its parameters and checks that

* no items of a kernel of an attention call anything but memset: no scalar math call
  inside a tile loop;
* no product (an innermost loop of fused multiply-adds) moves a vector register to or
  from the stack;
* no function of an attention is so long that compiling it takes seconds.

Prints one line per encoding; exits with 1 if a check fails.
"""

import re
import subprocess
import sys
from pathlib import Path

PARAM = re.compile(r'= pos\.param "\w+" : +(tensor<[^>]*>)([^\n]*)')
LINK = """
func.func @f(%q: tensor<?x4x?x64xf32>) -> tensor<?x4x?x64xf32> {{
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@{name}, "{name}">]
    : tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, (tensor<?x4x?x64xf32>) -> (tensor<?x4x?x64xf32>), tensor<?x4x?xf32>
  return %o : tensor<?x4x?x64xf32>
}}
"""
AXIS = re.compile(r"\baxis (\d+)")
ALL_HEADS = re.compile(r"pos\.score \{\s*\^bb0\(%\w+: tensor<")
LABEL = re.compile(r"^(\.?\w+):")
# Memory is cleared by a call, nothing is computed by one.
CALL = re.compile(r"\s+call(?!q?\s+memset)")
MOST_LINES = 16000
PRODUCT = re.compile(r"\bv(fn?madd\w*|dpbf16)ps\b")
# A scalar of memory in all lanes (constants are relative to rip).
SCALAR = re.compile(r"\(%r(?!ip)\w+[^)]*\)(?:\{1to16\}|, %[yz]mm\d+$)")
BROADCAST = re.compile(r"vbroadcastss|1to16")
STACK = re.compile(r"%[yz]mm\d+.*\(%rsp|\(%rsp[^)]*\).*%[yz]mm\d+")


def parameters(name: str, folder: str) -> list[tuple[str, bool]]:
    """Types of what attention takes of an encoding, and whether each is trained: what
    functions for models read, and what defaults of options leave unused, is gone where
    the encoding is linked."""
    command = ["sextant-opt", "-", f"--pos-link-encodings=search-path={folder}"]
    run = subprocess.run(command, input=LINK.format(name=name), text=True, capture_output=True)
    found = PARAM.findall(run.stdout)
    return [(t, "frozen" not in rest and "f32" in t) for t, rest in found]


def module(name: str, text: str, dtype: str, params: list[tuple[str, bool]]) -> str:
    """An attention and its gradient that use the encoding `name`."""
    # A score of all heads has their number compiled in.
    heads = 4 if ALL_HEADS.search(text) else "?"
    rows, lse = f"tensor<?x{heads}x?x64x{dtype}>", f"tensor<?x{heads}x?xf32>"
    statistics = f"tensor<?x{heads}x?x2xf32>"
    arguments = "".join(f", %p{i}: {t}" for i, (t, _) in enumerate(params))
    given = ""
    if params:
        names = ", ".join(f"%p{i}" for i in range(len(params)))
        given = f"params({names} : {', '.join(t for t, _ in params)})"
    # Positions are never made up: an axis that the index does not have is given.
    axes = 1 + max(map(int, AXIS.findall(text)), default=0)
    if axes > 1:
        positions = f"tensor<?x?x{axes}xi32>"
        arguments += f", %at: {positions}"
        given += f" query_positions(%at : {positions}) key_positions(%at : {positions})"
    trained = [i for i, (_, is_trained) in enumerate(params) if is_trained]
    results = ", ".join([rows] * 3 + [params[i][0] for i in trained])
    # An encoding may need a mask.
    mask = '#pos.use<@causal, "past">, ' if "pos.require_past" in text else ""
    uses = f'uses [{mask}#pos.use<@{name}, "{name}">] {given}'
    first, *others = ["%dq", "%dk", "%dv"] + [f"%d{i}" for i in trained]
    return f"""
func.func @forward(%q: {rows}, %k: {rows}, %v: {rows}{arguments}) -> ({rows}, {lse}, {statistics}) {{
  %o, %lse, %stats = pos.attention %q, %k, (%v) {uses}
    : {rows}, {rows}, ({rows}) -> ({rows}), {lse}, {statistics}
  return %o, %lse, %stats : {rows}, {lse}, {statistics}
}}
func.func @backward(%q: {rows}, %k: {rows}, %v: {rows}, %o: {rows}, %stats: {statistics},
                    %do: {rows}, %dlse: {lse}{arguments}) -> ({results}) {{
  {", ".join([first, *others])} = pos.attention_backward %q, %k, (%v), (%o), %stats, (%do), %dlse
    {uses} gradients [{", ".join(map(str, trained))}]
    : {rows}, {rows}, ({rows}), ({rows}), {statistics}, ({rows}), {lse}
    -> {", ".join([rows, rows, f"({rows})"] + [params[i][0] for i in trained])}
  return {", ".join([first, *others])} : {results}
}}
"""


def functions(assembly: str):
    """Name and lines of each function."""
    name, lines = None, []
    for line in assembly.splitlines():
        label = LABEL.match(line)
        if label and not label[1].startswith("."):
            if name:
                yield name, lines
            name, lines = label[1], []
        elif name:
            lines.append(line)
    if name:
        yield name, lines


def innermost_loops(lines: list[str]):
    """Lines from a label to the jump back to it, without a label in between."""
    start = None
    for number, line in enumerate(lines):
        label = LABEL.match(line)
        if label:
            start, name = number, label[1]
        elif start is not None and re.match(rf"\s+j\w+\s+{re.escape(name)}$", line):
            yield lines[start : number + 1]
            start = None


def faults(assembly: str, allows_spills: bool) -> list[str]:
    found = []
    products = 0
    for name, lines in functions(assembly):
        if not name.endswith(("_forward_range", "_main_range")):
            continue
        found += [f"{name}:{line}" for line in lines if CALL.match(line)]
        if len(lines) > MOST_LINES:
            found.append(f"{name}: {len(lines)} lines, expected at most {MOST_LINES}")
        for loop in innermost_loops(lines):
            scalars = [x for x in loop if BROADCAST.search(x) and SCALAR.search(x)]
            # A third of what a payload does at most, in a loop, is that.
            multiplies = sum(bool(PRODUCT.search(x)) for x in loop)
            if multiplies < max(12, len(loop) / 3) or len(scalars) < 4:
                continue
            products += 1
            if not allows_spills:
                found += [f"{name}:{line}" for line in loop if STACK.search(line)]
    if products < 7:
        found.append(f"found {products} products, expected at least 7")
    return found


def main() -> int:
    folder, target, dtype = sys.argv[1:]
    status = 0
    for path in sorted(Path(folder).rglob("*.mlir")):
        text = path.read_text()
        if re.search(r"pos\.rows of \[?(embedding|query_input|key_input|value_input)", text):
            continue  # acts outside attention
        command = ["sextant-compile", "-", f"--target={target}", "--emit=asm", "--no-cache"]
        command += [f"--search-path={folder}"]
        run = subprocess.run(
            command,
            input=module(path.stem, text, dtype, parameters(path.stem, folder)),
            text=True,
            capture_output=True,
        )
        # Scores of all heads, before and after the payload, do not fit 16 registers.
        spills = target == "cpu:avx2" and ALL_HEADS.search(text) is not None
        wrong = faults(run.stdout, spills) if run.returncode == 0 else [run.stderr]
        right = "no calls" if spills else "no calls, no spills"
        print(f"{path.stem}: {'FAILED' if wrong else right}")
        for line in wrong:
            print("  " + line)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
