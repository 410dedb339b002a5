"""The argument of commands that read a text, or images."""

from __future__ import annotations

_IMAGES = (
    "; of a vit IMAGES LABELS (IDX, maybe packed by xz), and maybe two more that are held out, or "
    "a folder of images by class, and maybe another one (default: ten letters in matplotlib's "
    "fonts, moved, turned and scaled by a seed; others are held out)"
)


def add_data(parser, default, *, or_images: bool = False) -> None:
    parser.add_argument(
        "--data",
        nargs="+",
        action="extend",
        default=default,
        metavar="FILE",
        help="text to train on, FILE.xz is decompressed (default: the sources of Python's standard "
        "library)" + (_IMAGES if or_images else ""),
    )
