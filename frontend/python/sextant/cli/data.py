"""The argument of commands that read a text."""

from __future__ import annotations


def add_data(parser, default) -> None:
    parser.add_argument(
        "--data",
        nargs="+",
        default=default,
        metavar="FILE",
        help="text to train on, FILE.xz is decompressed (default: the sources of Python's standard "
        "library); of a vit IMAGES LABELS (IDX, maybe packed by xz), and maybe two more that are "
        "held out, or a folder of images by class, and maybe another one (default: ten letters in "
        "matplotlib's fonts, moved, turned and scaled by a seed; others are held out)",
    )
