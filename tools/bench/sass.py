#!/usr/bin/env python3
"""Counts the instructions of a kernel's main loop, without a GPU.

    tools/bench/sass.py MODEL.mlir [--target cuda:sm_80] [--dims 64 64]
    tools/bench/sass.py --uses alibi --params 'tensor<?xf32>' [--dims 64 64] [--backward]

Compiles a model for a GPU of NVIDIA, assembles it with ptxas and reads the machine code
that nvdisasm writes of it. Of each kernel that multiplies on tensor cores it prints one
line: what ptxas says (registers, bytes of spills) and what one pass of the loop over
keys, in a backward over queries, takes of a thread, per score that the thread holds.

A loop has paths that are rarely taken: rows that are not aligned, tiles of which the
mask shows a part. Counted is the path with the most products, of these one with the
most copies to shared memory, and of these the shortest.

The numbers are those of the code, not of a run. A model says which unit of a GPU they
keep busy for how long, over the clocks of the products: a unit near 1 or above bounds
the kernel. It knows rates only, no latencies. `--dims` are those of the rows of queries
and of values. How many scores a thread has follows from them and its HMMA: a forward
multiplies each once, a backward those of queries three times and those of values twice.
"""

from __future__ import annotations

import argparse
import collections
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

SECTION = re.compile(r"^\s*\.section\s+\.text\.(?P<name>\w+)", re.MULTILINE)
LABEL = re.compile(r"^(?P<name>\.L\w+):")
INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:(?P<guard>@!?U?P\w+)\s+)?(?P<name>[A-Z][\w.]*)(?P<rest>[^;]*);"
)
TARGET = re.compile(r"`\((?P<name>\.L\w+)\)")
RESOURCES = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?(?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)
ARITHMETIC = ("FFMA", "FADD", "FMUL")


@dataclass
class Block:
    """Instructions that run one after the other, and where control goes behind them."""

    names: list[str] = field(default_factory=list)
    next: list[int] = field(default_factory=list)


def blocks_of(text: str) -> list[Block]:
    """The basic blocks of a kernel's listing."""
    blocks = [Block()]
    labels: dict[str, int] = {}
    jumps: list[tuple[int, str]] = []
    ended = True  # whether control does not fall into the next block

    def begin(falls: bool) -> None:
        if blocks[-1].names or blocks[-1].next:
            blocks.append(Block())
        if falls and len(blocks) > 1:
            blocks[-2].next.append(len(blocks) - 1)

    for line in text.splitlines():
        if label := LABEL.match(line):
            begin(not ended)
            labels[label["name"]] = len(blocks) - 1
            ended = False
            continue
        match = INSTRUCTION.match(line)
        if not match or match["name"] == "NOP":
            continue
        if blocks[-1].next:
            begin(falls=False)
        # What never runs fills a slot all the same.
        blocks[-1].names.append("IDLE" if match["guard"] == "@!PT" else match["name"])
        base = match["name"].split(".")[0]
        always = match["guard"] in (None, "@PT") and ".DIV" not in match["name"]
        ended = base == "EXIT" and always
        if base == "BRA" and (target := TARGET.search(match["rest"])):
            always &= "P" not in match["rest"].split("`")[0]
            jumps.append((len(blocks) - 1, target["name"]))
            ended = always
            blocks.append(Block())
            if not always:
                blocks[-2].next.append(len(blocks) - 1)
    for source, name in jumps:
        blocks[source].next.append(labels[name])
    return blocks


def count(names: list[str], *bases: str) -> int:
    return sum(name.split(".")[0] in bases for name in names)


def loop_of(blocks: list[Block]) -> list[str]:
    """The instructions of one pass of the loop with the most products, the innermost of
    those that have as many."""
    found: list[list[str]] = []
    for end, block in enumerate(blocks):
        for start in block.next:
            path = path_between(blocks, start, end) if start <= end else None
            if path is not None:
                found.append(path)
    return max(found, key=lambda names: (count(names, "HMMA"), -len(names)), default=[])


def rank(names: list[str]) -> tuple[int, int, int]:
    return count(names, "HMMA"), count(names, "LDGSTS"), -len(names)


def path_between(blocks: list[Block], start: int, end: int) -> list[str] | None:
    """The best path, which goes through no loop inside."""
    best: dict[int, list[str] | None] = {end: blocks[end].names}
    # Those behind a block come before it, but for blocks that it is reached from.
    stack, entered = [(start, iter(blocks[start].next))], {start}
    while stack:
        number, rest = stack[-1]
        following = next((n for n in rest if n not in best and n not in entered), None)
        if number != end and following is not None:
            entered.add(following)
            stack.append((following, iter(blocks[following].next)))
            continue
        stack.pop()
        if number not in best:
            paths = [path for n in blocks[number].next if (path := best.get(n)) is not None]
            own = blocks[number].names
            best[number] = own + max(paths, key=rank) if paths else None
    return best[start]


# Of a multiprocessor, per clock: FLOP of mma.sync in bf16, instructions of a warp, lanes of
# MUFU, bytes of shared memory. Those of products on an H200 are what mma.sync is said to
# reach there, not what wgmma does.
RATES = {"A100": (2048, 4, 16, 128), "H200": (2600, 4, 16, 128)}
PRODUCT_FLOP = 2 * 16 * 8 * 16
LANES = 32


def shared_bytes(name: str) -> int:
    """Of shared memory that an instruction of a warp reads or writes, without conflicts."""
    base = name.split(".")[0]
    if base == "LDSM":
        return LANES * 4 * int(name.rpartition(".")[2])
    wide = re.search(r"\.(64|128)\b", name)
    return LANES * (int(wide[1]) // 8 if wide else 4) if base in ("LDGSTS", "LDS", "STS") else 0


@dataclass
class Counts:
    kernel: str
    registers: int
    spills: int
    scores: float
    names: list[str]

    def per_score(self, *bases: str) -> float:
        number = count(self.names, *bases) if bases else len(self.names)
        return number / self.scores

    def clocks(self, gpu: str) -> dict[str, float]:
        """Of units other than those of products, over the clocks of these."""
        flop, issue, mufu, shared = RATES[gpu]
        products = count(self.names, "HMMA") * PRODUCT_FLOP / flop
        busy = {
            "issue": len(self.names) / issue,
            "MUFU": count(self.names, "MUFU") * LANES / mufu,
            "shared memory": sum(map(shared_bytes, self.names)) / shared,
        }
        return {unit: clocks / products for unit, clocks in busy.items()}

    def __str__(self) -> str:
        other = collections.Counter(name.split(".")[0] for name in self.names)
        parts = [
            f"{self.kernel}: {self.registers} registers, {self.spills} bytes of spills,",
            f"{len(self.names)} instructions for {self.scores:g} scores:",
            f"{self.per_score():.2f} per score; MUFU {self.per_score('MUFU'):.2f},",
            f"LDS {self.per_score('LDS'):.2f}, f32 {self.per_score(*ARITHMETIC):.2f};",
            " ".join(f"{name} {number}" for name, number in other.most_common()),
        ]
        for gpu in RATES:
            units = ", ".join(f"{unit} {share:.2f}" for unit, share in self.clocks(gpu).items())
            parts.append(f"\n  {gpu}, over the clocks of products: {units}")
        return " ".join(parts)


def tool(name: str) -> str:
    """A program of NVIDIA, which set-up puts beside the Python that runs this."""
    for folder in Path(sys.prefix).glob("lib/python*/site-packages/nvidia/*/bin"):
        if (folder / name).exists():
            return str(folder / name)
    return name


def run(*command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, input=text, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr or done.stdout}")
    return done


def lanes_of(kernel: str, dims: tuple[int, int]) -> int:
    """The lanes of rows that a kernel multiplies for each score."""
    head, value = (-(-dim // 16) * 16 for dim in dims)
    return 3 * head + 2 * value if kernel.endswith("_backward_fragments") else head + value


def measure(model: str, target: str, dims: tuple[int, int], *flags: str) -> list[Counts]:
    """The counts of the kernels of a model that multiply on tensor cores."""
    compiled = run(
        "sextant-compile", "-", f"--target={target}", "--emit=asm", "--o=-", *flags, text=model
    )
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(compiled.stdout)
        architecture = "-arch=" + target.rpartition(":")[2]
        said = run(tool("ptxas"), architecture, "-v", f"--output-file={cubin}", str(source))
        listing = run(tool("nvdisasm"), "-c", str(cubin)).stdout
    resources = {m["name"]: m for m in RESOURCES.finditer(said.stdout + said.stderr)}
    found = []
    starts = [*SECTION.finditer(listing)]
    for match, after in zip(starts, [*starts[1:], None], strict=True):
        text = listing[match.start() : after.start() if after else None]
        names = loop_of(blocks_of(text))
        if products := count(names, "HMMA"):
            own = resources[match["name"]]
            spills = int(own["stores"]) + int(own["loads"])
            scores = 64 * products / lanes_of(match["name"], dims)
            found.append(Counts(match["name"], int(own["registers"]), spills, scores, names))
    return found


def attention(uses: list[str], params: list[str], dims: tuple[int, int]) -> str:
    """A forward of any length, with names of encodings and types of their parameters."""
    head, value = (f"tensor<?x?x?x{dim}xbf16>" for dim in dims)
    named = ", ".join(f'#pos.use<@{name}, "{name}">' for name in uses)
    arguments = "".join(f", %p{i}: {of_type}" for i, of_type in enumerate(params))
    given = f"{', '.join(f'%p{i}' for i in range(len(params)))} : {', '.join(params)}"
    return f"""
      func.func @f(%q: {head}, %k: {head}, %v: {value}{arguments}) -> {value} {{
        %o, %l = pos.attention %q, %k, (%v) uses [{named}] {f"params({given})" if params else ""}
          : {head}, {head}, ({value}) -> ({value}), tensor<?x?x?xf32>
        return %o : {value}
      }}"""


def attention_backward(
    uses: list[str], params: list[str], dims: tuple[int, int], gradients: bool = True
) -> str:
    """Likewise a backward, with or without gradients of the parameters."""
    head, value = (f"tensor<?x?x?x{dim}xbf16>" for dim in dims)
    statistics, row = "tensor<?x?x?x2xf32>", "tensor<?x?x?xf32>"
    named = ", ".join(f'#pos.use<@{name}, "{name}">' for name in uses)
    arguments = "".join(f", %p{i}: {of_type}" for i, of_type in enumerate(params))
    given = f"{', '.join(f'%p{i}' for i in range(len(params)))} : {', '.join(params)}"
    wanted = range(len(params)) if gradients else ()
    names = ["%dq", "%dk", "%dv", *(f"%dp{i}" for i in wanted)]
    trained = "".join(f", {params[i]}" for i in wanted)
    results = f"{head}, {head}, {value}{trained}"
    return f"""
      func.func @f(%q: {head}, %k: {head}, %v: {value}, %o: {value}, %s: {statistics},
                   %do: {value}, %dl: {row}{arguments}) -> ({results}) {{
        {", ".join(names)} = pos.attention_backward %q, %k, (%v), (%o), %s, (%do), %dl
          uses [{named}] {f"params({given})" if params else ""} gradients [{", ".join(map(str, wanted))}]
          : {head}, {head}, ({value}), ({value}), {statistics}, ({value}), {row}
          -> {head}, {head}, ({value}){trained}
        return {", ".join(names)} : {results}
      }}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", nargs="?", help="- for standard input; none: an attention")
    parser.add_argument("--uses", nargs="*", default=[], help="names of encodings")
    parser.add_argument("--params", nargs="*", default=[], help="types of what they take")
    parser.add_argument("--backward", action="store_true", help="not the forward, with all gradients")
    parser.add_argument("--target", default="cuda:sm_80")
    parser.add_argument("--dims", type=int, nargs=2, default=(64, 64))
    arguments = parser.parse_args()
    dims = tuple(arguments.dims)
    if arguments.model:
        model = sys.stdin.read() if arguments.model == "-" else Path(arguments.model).read_text()
    else:
        make = attention_backward if arguments.backward else attention
        model = make(arguments.uses, arguments.params, dims)
    for counts in measure(model, arguments.target, dims):
        print(counts)


if __name__ == "__main__":
    main()
