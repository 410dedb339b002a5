#!/usr/bin/env python3
"""Runs sextant-opt on mutations of our own .mlir files: it may refuse them, with
an error, and must not crash or hang.

    mutate.py OPT --seed N --count N [--flags FLAG...] [--encodings] FILE...

A mutation makes one to three changes in a piece of a file (files are cut at
`// -----`); most replace a word by another of its kind, some break the text. With
`--encodings` the files are definitions; each is given a function with an attention
and its gradient that use it, so that the passes have work to do. Many mutations
share one process; when it ends by a signal, they are run one by one, and the
guilty ones are printed. SEXTANT_SEED draws others.
"""

import argparse
import os
import pathlib
import random
import re
import subprocess
import sys

BATCH = 50
SECONDS = 60
SEPARATOR = "// -----"
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|[%@#^!]?[\w.$-]+|\s+|.', re.DOTALL)
ATTENTION = """
func.func @mutant(%q: tensor<2x4x?x8xf32>, %lse: tensor<2x4x?xf32>{arguments}) {{
  %o, %l, %s = pos.attention %q, %q, (%q) uses {uses} {params}
    : tensor<2x4x?x8xf32>, tensor<2x4x?x8xf32>, (tensor<2x4x?x8xf32>)
    -> (tensor<2x4x?x8xf32>), tensor<2x4x?xf32>, tensor<2x4x?x2xf32>
  %dq, %dk, %dv{results} = pos.attention_backward %q, %q, (%q), (%o), %s, (%q), %lse
    uses {uses} {params} gradients [{numbers}]
    : tensor<2x4x?x8xf32>, tensor<2x4x?x8xf32>, (tensor<2x4x?x8xf32>),
      (tensor<2x4x?x8xf32>), tensor<2x4x?x2xf32>, (tensor<2x4x?x8xf32>), tensor<2x4x?xf32>
    -> tensor<2x4x?x8xf32>, tensor<2x4x?x8xf32>, (tensor<2x4x?x8xf32>){types}
  return
}}
"""
ROWS = """
func.func @mutant(%x: tensor<2x?x8xf32>{arguments}) -> tensor<2x?x8xf32> {{
  %y = pos.map_rows %x of embedding uses {uses} {params}
    : tensor<2x?x8xf32> -> tensor<2x?x8xf32>
  return %y : tensor<2x?x8xf32>
}}
"""


def with_user(text):
    """A definition, and an attention and its gradient (or a row map) that use it."""
    name = re.search(r"pos\.encoding @(\w+)", text)
    if not name:
        return text
    found = re.findall(r'pos\.param "\w+"\s*:\s*(tensor<[^>]*>)([^\n]*)', text)
    types = [kind for kind, _ in found]
    trained = [i for i, (kind, rest) in enumerate(found)
               if kind.endswith("f32>") and "frozen" not in rest]
    names = ", ".join(f"%p{i}" for i in range(len(types)))
    user = ROWS if "of [embedding]" in text else ATTENTION
    return text + user.format(
        arguments="".join(f", %p{i}: {kind}" for i, kind in enumerate(types)),
        uses=f'[#pos.use<@{name[1]}, "{name[1]}">]',
        params=f"params({names} : {', '.join(types)})" if types else "",
        numbers=", ".join(map(str, trained)),
        results="".join(f", %d{i}" for i in trained),
        types="".join(f", {types[i]}" for i in trained))


def kin(token, words):
    """Words that may stand where a token stands without breaking the syntax."""
    if re.fullmatch(r"-?\d+", token):
        return ["0", "1", "-1", "2", "7", "31", "32", "2147483647", "-2147483648"]
    if re.fullmatch(r"-?\d+\.\d*(e[+-]?\d+)?", token):
        return ["0.0", "-0.0", "1.0", "-1.0", "1.0e+39", "1.0e-45", "3.0e+38", "0x7FC00000",
                "0x7F800000"]
    if re.fullmatch(r"\w+\.[\w.]+", token):
        return [word for word in words
                if re.fullmatch(r"\w+\.[\w.]+", word) and word[-1] == token[-1]]
    if token[0] in "%@#^!\"":
        return [word for word in words if word[0] == token[0]]
    return [word for word in words if word.isidentifier()] if token.isidentifier() else []


def mutate_meaning(tokens, random_source):
    """Replaces a word by one of its kin from the same text: often still parses."""
    words = sorted({token for token in tokens if token.strip()})
    at = random_source.choice([i for i, token in enumerate(tokens) if token.strip()])
    others = kin(tokens[at], words)
    if others:
        tokens[at] = random_source.choice(others)
    return tokens


def mutate_text(tokens, words, random_source):
    """Breaks the text: drops, doubles, swaps, replaces or flips."""
    solid = [i for i, token in enumerate(tokens) if token.strip()]
    at = random_source.choice(solid)
    kind = random_source.randrange(7)
    if kind == 0:
        tokens[at] = ""
    elif kind == 1:
        tokens[at] = tokens[at] + " " + tokens[at]
    elif kind == 2:
        other = random_source.choice(solid)
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif kind == 3:
        tokens[at] = random_source.choice(words)
    elif kind == 4:
        del tokens[at:at + random_source.randint(1, 12)]
    elif kind == 5:
        tokens[at] = chr(ord(tokens[at][0]) ^ (1 << random_source.randrange(7))) + tokens[at][1:]
    else:
        lines = "".join(tokens).split("\n")
        del lines[random_source.randrange(len(lines))]
        tokens = TOKEN.findall("\n".join(lines))
    return tokens


def mutate(text, words, random_source):
    """The text after one to three random changes."""
    tokens = TOKEN.findall(text)
    for _ in range(random_source.randint(1, 3)):
        if not any(token.strip() for token in tokens):
            break
        if random_source.random() < 0.75:
            tokens = mutate_meaning(tokens, random_source)
        else:
            tokens = mutate_text(tokens, words, random_source)
    # Mutants share a process, so none may hold a separator of its own.
    return "".join(tokens).replace(SEPARATOR, "")


def run(opt, flags, mutants):
    """The exit code of one process on some mutants; None when it hangs."""
    text = f"\n{SEPARATOR}\n".join(mutants)
    try:
        done = subprocess.run(
            [opt, "--split-input-file", "-o", "/dev/null", *flags],
            input=text.encode("utf-8", "replace"), capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, "no end"
    return done.returncode, done.stderr.decode("utf-8", "replace")


def crashed(code):
    return code is None or code < 0 or code > 1


def main():
    parser = argparse.ArgumentParser(description="mutates .mlir files")
    parser.add_argument("opt")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--flags", default="", help="flags of sextant-opt, by spaces")
    parser.add_argument("--encodings", action="store_true")
    options = parser.parse_args()
    flags = options.flags.split()

    pieces = []
    for path in sorted(options.files):
        for piece in path.read_text().split(SEPARATOR):
            pieces.append(with_user(piece) if options.encodings else piece)
    words = sorted({word for piece in pieces for word in TOKEN.findall(piece) if word.strip()})
    drawn = int(os.environ.get("SEXTANT_SEED") or 0)
    random_source = random.Random(drawn << 8 | options.seed)
    mutants = [mutate(random_source.choice(pieces), words, random_source)
               for _ in range(options.count)]

    guilty = 0
    for first in range(0, len(mutants), BATCH):
        batch = mutants[first:first + BATCH]
        if not crashed(run(options.opt, flags, batch)[0]):
            continue
        for mutant in batch:
            code, message = run(options.opt, flags, [mutant])
            if crashed(code):
                guilty += 1
                print(f"crash or hang, exit code {code}, of:\n{mutant}\n{message[-3000:]}\n")
    print(f"SEXTANT_SEED={drawn}, seed {options.seed}: {len(mutants)} mutations of {len(pieces)} pieces, "
          f"{guilty} crashes")
    return 1 if guilty else 0


if __name__ == "__main__":
    sys.exit(main())
