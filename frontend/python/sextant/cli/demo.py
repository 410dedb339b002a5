"""`sextant demo` trains and compares some encodings."""

from __future__ import annotations

import os

from .data import add_data
from .jobs import add_jobs, checked_jobs


def add(commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="train, evaluate and compare some encodings",
        description="Trains a GPT with each of some encodings, and a small ViT with each of some "
        "others, evaluates them beyond their training length or size, and writes a report.",
    )
    parser.add_argument("folder", nargs="?", default="demo", help="where files go (default demo)")
    parser.add_argument(
        "--quick", action="store_true", help="a smaller setting, under three minutes"
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="USE",
        help='one more encoding of GPTs, such as "dape(alibi)"; may be repeated',
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="train each N times, with seeds 0 to N - 1, to see the spread (default 1; the time "
        "is N times as long)",
    )
    add_jobs(parser)
    add_data(parser, [])
    parser.set_defaults(run=_demo)


def _demo(options) -> None:
    from ..demo import ENCODINGS, IMAGE_ENCODINGS, run_demo

    if not 1 <= options.seeds <= 1000:
        raise ValueError(f"--seeds must be at least 1 and at most 1000, got {options.seeds}")
    run_demo(
        options.folder,
        quick=options.quick,
        seeds=options.seeds,
        data=tuple(os.path.abspath(path) for path in options.data),
        encodings=tuple(dict.fromkeys([*ENCODINGS, *options.also])),
        image_encodings=IMAGE_ENCODINGS,
        jobs=checked_jobs(options),
    )
