"""`sextant tables` writes tables of a run's positions."""

from __future__ import annotations

import shlex


def add(commands) -> None:
    parser = commands.add_parser(
        "tables",
        help="write what the encodings of a run on text make of positions alone",
        description="Writes what functions of encodings make of the positions 0, 1, ... and "
        "of trained parameters alone, for each layer where layers differ, for evaluations "
        "that take it instead of making it (sextant eval RUN --tables FILE). Runs on images need "
        "none: their evaluation makes it once for many images.",
    )
    parser.add_argument("folder", help="a run on text")
    parser.add_argument("--length", type=int, required=True, help="number of positions")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the file (default: tables.safetensors in the run)"
    )
    parser.add_argument("--target", help="what kernels are compiled for (default: as in the training)")
    parser.set_defaults(run=_tables)


def _tables(options) -> None:
    from ..training.runs import write_run_tables

    path = write_run_tables(options.folder, options.length, options.output, options.target)
    words = shlex.join(
        ["sextant", "eval", options.folder, "--tables", str(path), "--lengths", str(options.length)]
    )
    print(f"tables: {path}; evaluate with: {words}")
