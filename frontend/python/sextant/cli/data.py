"""The argument of commands that read a text."""

from __future__ import annotations


def add_data(parser, default) -> None:
    parser.add_argument(
        "--data",
        nargs="+",
        default=default,
        metavar="FILE",
        help="text to train on, FILE.xz is decompressed (default: the sources of Python's standard "
        "library)",
    )
