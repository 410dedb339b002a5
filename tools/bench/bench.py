"""make bench: ratios against PyTorch and our own plain kernel.

Usage: bench.py [--only SECTION...] [--match TEXT...] [--threads N...] [--rounds N]
                [--quick] [--output FOLDER]

Prints a table and writes it, with a JSON of the same numbers, to `--output`
(tools/bench/results by default). `--match` measures only works whose text in the
table's first column holds one of the texts.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

# Idle workers of either side would otherwise spin on the core that is measured.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
HERE = Path(__file__).resolve().parent
# Characters of a file's name before its ending: file systems take 255 in all.
LONGEST_STEM = 200
sys.path.insert(0, str(HERE))

import host  # noqa: E402
import torch  # noqa: E402
from rows import Row, Settings  # noqa: E402
from sections import SECTIONS  # noqa: E402


def _spread(row: Row) -> str:
    if row.low is None or row.high is None:
        return ""
    return f"{row.low:.3g} - {row.high:.3g}"


def _line(row: Row) -> str:
    goal = "" if row.goal is None else f"{'<=' if row.at_most else '>='} {row.goal:g}"
    holds = {None: "", True: "yes", False: "NO"}[row.holds]
    value = f"{row.value:.3g} {row.unit}"
    return f"| {row.work} | {row.threads} | {value} | {_spread(row)} | {goal} | {holds} | {row.note} |"


HEAD = "| work | threads | median | spread | goal | holds | |\n|---|---|---|---|---|---|---|"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument(
        "--match",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="only works whose text in the first column holds one of these",
    )
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="small shapes, three rounds")
    parser.add_argument(
        "--output",
        type=Path,
        default=HERE / "results",
        metavar="FOLDER",
        help="for DATE-PROCESSOR[-SECTIONS][-MATCHES].md and .json (default: tools/bench/results)",
    )
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    rows: list[Row] = []
    today = datetime.date.today().isoformat()
    text = [f"{host.describe()}, {os.cpu_count()} cores, PyTorch {torch.__version__}, {today}"]
    print(text[0])
    for name in options.only:
        counts = options.threads if name != "compile" else [1]
        title = None
        for threads in counts:
            torch.set_num_threads(threads)
            settings = Settings(threads, options.rounds, match=tuple(options.match))
            if options.quick:
                settings = replace(settings, rounds=3, shapes=((1, 4, 512, 64),), is_quick=True)
            for row in SECTIONS[name](settings):
                if row.section != title:
                    title = row.section
                    head = f"\n{title}\n\n{HEAD}"
                    print(head)
                    text.append(head)
                print(_line(row), flush=True)
                text.append(_line(row))
                rows.append(row)
    if options.match and not rows:
        texts = " or ".join(map(repr, options.match))
        parser.error(f"--match: no work of {', '.join(options.only)} holds {texts}")
    options.output.mkdir(parents=True, exist_ok=True)
    parts = [] if set(options.only) == set(SECTIONS) else options.only
    stem = "-".join([today, host.processor(), *parts, *options.match]).lower()
    stem = re.sub("[^a-z0-9]+", "-", stem)
    if len(stem) > LONGEST_STEM:  # a part of it and a number of the whole
        stem = f"{stem[:LONGEST_STEM]}-{hashlib.sha256(stem.encode()).hexdigest()[:8]}"
    (options.output / f"{stem}.md").write_text("\n".join(text) + "\n")
    record = {"machine": text[0], "rows": [row.as_dict() for row in rows]}
    (options.output / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n")
    missed = [row for row in rows if row.holds is False]
    print(f"\n{len(rows)} numbers, {len(missed)} below their goal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
