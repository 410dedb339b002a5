#!/usr/bin/env python3
"""Runs what loads of mutated artifacts: each is refused, fails with an error, or runs.

    fuzz_artifacts.py LIBRARY FILE.sxt --seed N [--fields N] [--bytes N] [--keep FOLDER]

Fields: the artifact as JSON (flatc), with one to three fields changed: numbers, names,
kinds, lists cut, doubled and swapped, parts exchanged. Bytes: one to four bytes changed,
outside of the machine code, which a loaded program runs and nobody can check. Of a fat
artifact the parts stay as they are, which have checksums of their own, but what says
which bytes they are of. The checksum is mended. Mutants are loaded and run in a child process; one that ends by a
signal is a failure, and what ended it is kept in FOLDER.
"""

import argparse
import copy
import json
import pickle
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parents[1] / "runtime"
# The lists and the fields whose bytes are as good as a name, by the schema.
NAMED = {"Artifact.fbs": ("objects", "code"), "FatArtifact.fbs": ("blobs", "bytes")}
ENUMERATIONS = {"kind", "dtype", "predicate", "init"}
NUMBERS = [0, 1, 2, 3, 8, 9, 64, 255, 2**31 - 1, 2**32 - 1, 2**63 - 1, -1, -2, -(2**31)]
BATCH = 100


def seal(bodies):
    """The bodies with their checksums, FNV-1a with 64 bits; of all at once, since a loop
    over the bytes of each would take longer than all the rest."""
    order = sorted(range(len(bodies)), key=lambda n: -len(bodies[n]))
    longest = len(bodies[order[0]]) if bodies else 0
    rows = np.zeros((longest, len(bodies)), np.uint64)
    for column, number in enumerate(order):
        rows[: len(bodies[number]), column] = np.frombuffer(bodies[number], np.uint8)
    sums = np.full(len(bodies), 0xCBF29CE484222325, np.uint64)
    lengths = np.array([len(bodies[number]) for number in order])
    live = (lengths[None, :] > np.arange(longest)[:, None]).sum(1)
    for row, count in zip(rows, live):
        part = sums[:count]
        part ^= row[:count]
        part *= np.uint64(0x100000001B3)
    sealed = [b""] * len(bodies)
    for column, number in enumerate(order):
        sealed[number] = bodies[number] + struct.pack("<Q", int(sums[column]))
    return sealed


# --- bytes -------------------------------------------------------------------


def find_code(body):
    """The shared objects in an artifact, as ranges of bytes: an ELF file ends with the
    table of its sections."""
    ranges, at = [], body.find(b"\x7fELF")
    while at >= 0:
        (table,) = struct.unpack_from("<Q", body, at + 40)
        size, count = struct.unpack_from("<HH", body, at + 58)
        ranges.append(range(at, at + table + size * count))
        at = body.find(b"\x7fELF", ranges[-1].stop)
    return ranges


def find_parts(body):
    """The files in a fat artifact, as ranges of bytes: each begins with the offset of its
    root and its identifier, and the bytes of a blob follow their number."""
    ranges, at = [], body.find(b"SXT1")
    while at >= 0:
        (size,) = struct.unpack_from("<I", body, at - 8)
        ranges.append(range(at - 4, at - 4 + size))
        at = body.find(b"SXT1", at + 1)
    return ranges if schema_of(body) == "FatArtifact.fbs" else []


def mutate_bytes(body, code, source):
    """One to four bytes of what is not code."""
    mutant = bytearray(body)
    changed = 0
    while changed < source.randint(1, 4):
        place = source.randrange(len(mutant))
        if any(place in part for part in code):
            continue
        mutant[place] = source.choice(
            [source.randrange(256), mutant[place] ^ 1 << source.randrange(8), 0, 255])
        changed += 1
    return bytes(mutant)


# --- fields ------------------------------------------------------------------


def run_flatc(*arguments):
    return subprocess.run(["flatc", *map(str, arguments)], capture_output=True, text=True)


def schema_of(body):
    return "FatArtifact.fbs" if body[4:8] == b"SXTF" else "Artifact.fbs"


def to_json(body, folder):
    schema = RUNTIME / schema_of(body)
    # flatc takes no bytes of this alignment out of JSON, and the runtime needs none.
    (folder / schema.name).write_text(schema.read_text().replace(", force_align: 64", ""))
    (folder / "whole.bin").write_bytes(body)
    done = run_flatc("--json", "--strict-json", "--defaults-json", "--raw-binary", "-o", folder,
                     folder / schema.name, "--", folder / "whole.bin")
    if done.returncode:
        raise RuntimeError(f"flatc: {done.stdout}{done.stderr}")
    return json.loads((folder / "whole.json").read_text())


def take_code(tree, schema):
    """Takes the code out of a tree, to which it is as good as a name: gives the texts
    that stand for it, and for a part of it."""
    texts = {}
    entries, field = NAMED[schema]
    for number, entry in enumerate(tree.get(entries, [])):
        code = json.dumps(entry[field])
        entry[field] = f"@code{number}"
        texts[json.dumps(entry[field])] = code
        texts[json.dumps(f"@part{number}")] = code[: code.rfind(",", 0, len(code) // 2)] + "]"
    return texts


def to_bodies(trees, texts, schema, folder):
    """The trees as FlatBuffers; None for one that the schema does not hold."""
    files = []
    for number, tree in enumerate(trees):
        files.append(folder / f"tree{number}.json")
        text = json.dumps(tree)
        for name, code in texts.items():
            text = text.replace(name, code)
        files[-1].write_text(text)
    written = [file.with_suffix(".sxt") for file in files]
    for file in written:
        file.unlink(missing_ok=True)
    if run_flatc("--binary", "-o", folder, folder / schema, *files).returncode:
        for file in files:
            run_flatc("--binary", "-o", folder, folder / schema, file)
    return [file.read_bytes() if file.exists() else None for file in written]


def list_places(tree):
    """The path to every value of a tree, by kind; to no byte of data."""
    places, left = {}, [((), tree)]
    while left:
        path, value = left.pop()
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for index, inner in items:
            places.setdefault(get_kind((*path, index)), []).append((*path, index))
            if isinstance(inner, (dict, list)) and index != "bytes":
                left.append(((*path, index), inner))
    return places


def get_kind(path):
    """What a value is: the name of its field."""
    return next(part for part in reversed(path) if isinstance(part, str))


def follow(tree, path):
    for part in path:
        tree = tree[part]
    return tree


def change(tree, places, source):
    """Changes one of the places of a tree, which are listed by kind."""
    kinds, weights = list(places), [len(paths) for paths in places.values()]
    path = source.choice(places[source.choices(kinds, weights)[0]])
    try:
        container, index = follow(tree, path[:-1]), path[-1]
        value = container[index]
    except (LookupError, TypeError):
        return  # it went with a change before
    kind = source.random()
    if isinstance(value, str) and value.startswith("@code"):
        container[index] = value.replace("@code", "@part")
    elif kind < 0.1 and isinstance(container, dict):
        del container[index]
    elif isinstance(value, list) and value:
        mutate_list(value, source)
    elif isinstance(value, bool):
        container[index] = not value
    elif isinstance(value, (int, float)) and kind < 0.7:
        near = [value - 1, value + 1, value * 2]
        container[index] = source.choice(near + (NUMBERS if isinstance(value, int) else [0.0, -1.0]))
    elif get_kind(path) in ENUMERATIONS and kind < 0.3:
        container[index] = source.choice([0, 1, 2, 9, 77, 255])
    elif isinstance(value, str) and kind < 0.3:
        container[index] = source.choice(["", value[:-1], value + "x", "\u00e9" * 40])
    else:
        try:
            kin = follow(tree, source.choice(places[get_kind(path)]))
            container[index] = copy.deepcopy(kin)
        except (LookupError, TypeError):
            pass


def mutate_list(value, source):
    kind = source.randrange(4)
    at = source.randrange(len(value))
    if kind == 0:
        del value[at:]
    elif kind == 1:
        del value[at]
    elif kind == 2:
        value.insert(at, copy.deepcopy(source.choice(value)))
    else:
        other = source.randrange(len(value))
        value[at], value[other] = value[other], value[at]


def mutate_fields(pickled, places, source):
    mutant = pickle.loads(pickled)
    for _ in range(source.choice([1, 1, 2, 3])):
        change(mutant, places, source)
    return mutant


# --- running -----------------------------------------------------------------


def run_all(library, files):
    """What came of each file; an outcome "crashed" says how the child ended."""
    outcomes = []
    while len(outcomes) < len(files):
        rest = files[len(outcomes):]
        done = subprocess.run(
            [sys.executable, HERE / "run_artifacts.py", library, *rest], capture_output=True,
            text=True, errors="replace")
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
        ends = [line for line in lines if "end" in line]
        outcomes += [(line["outcome"], line["message"]) for line in ends]
        if len(ends) < len(rest):
            outcomes.append(("crashed", f"exit code {done.returncode}: {done.stderr[-2000:]}"))
    return outcomes


def fuzz(library, data, *, seed, fields, count, keep=None):
    """Counts of outcomes, and what is known of each crash."""
    source = random.Random(seed)
    body = data[:-8]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree = to_json(body, folder)
        texts = take_code(tree, schema_of(body))
        places, pickled = list_places(tree), pickle.dumps(tree)
        code = find_parts(body) or find_code(body)
        bodies = [mutate_bytes(body, code, source) for _ in range(count)]
        for first in range(0, fields, BATCH):
            trees = [mutate_fields(pickled, places, source) for _ in range(min(BATCH, fields - first))]
            bodies += [found for found in to_bodies(trees, texts, schema_of(body), folder) if found]
        files = []
        for number, mutant in enumerate(seal(bodies)):
            files.append(folder / f"mutant{number}.sxt")
            files[-1].write_bytes(mutant)
        outcomes = run_all(library, files)
        crashes = []
        for file, (outcome, message) in zip(files, outcomes):
            if outcome != "crashed":
                continue
            crashes.append(f"{file.name}: {message}")
            if keep:
                Path(keep).mkdir(parents=True, exist_ok=True)
                shutil.copy(file, Path(keep) / f"seed{seed}-{file.name}")
    return Counter(outcome for outcome, _ in outcomes), crashes


def main():
    parser = argparse.ArgumentParser(description="runs mutated artifacts")
    parser.add_argument("library", help="libsextant_torch.so")
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--fields", type=int, default=200, help="mutants by field")
    parser.add_argument("--bytes", type=int, default=400, help="mutants by byte")
    parser.add_argument("--keep", help="where what crashes is kept")
    options = parser.parse_args()
    outcomes, crashes = fuzz(
        options.library, options.artifact.read_bytes(), seed=options.seed,
        fields=options.fields, count=options.bytes, keep=options.keep)
    print("\n\n".join(crashes))
    print(f"seed {options.seed}: {dict(sorted(outcomes.items()))}")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
