"""`sextant encodings` lists, describes and draws encodings."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Sequence

from .. import definitions
from ..uses import parse_use
from .flags import flag


def add(commands) -> None:
    parser = commands.add_parser(
        "encodings",
        help="list encodings, describe one, or draw what it does",
        description="Encodings of the user's folder, of SEXTANT_PATH, and Sextant's "
        "own. With --plot a picture: bias or rotated score over distance by head, "
        "visible keys, rows of embeddings; for scores that depend on the contents of "
        "rows, what is added to the scores of a text.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="encodings to describe, or to draw in one picture, such as rope or "
        '"dape(kerple_log, hidden=8)"',
    )
    parser.add_argument(
        "--plot",
        nargs="?",
        const="",
        metavar="FILE.png",
        help="draw what it does (default file: its name, here)",
    )
    drawing = parser.add_argument_group("with --plot")
    # Not there unless given: what is given in vain is an error.
    drawing.add_argument(
        "--heads", type=int, default=argparse.SUPPRESS, help="attention heads (default 4)"
    )
    drawing.add_argument(
        "--head-dim", type=int, default=argparse.SUPPRESS, help="their width (default 64)"
    )
    drawing.add_argument(
        "--length",
        type=int,
        default=argparse.SUPPRESS,
        help="how far distances go, or rows of a text, or rows and columns of a grid",
    )
    drawing.add_argument(
        "--text",
        default=argparse.SUPPRESS,
        help="rows are its letters; equal ones have equal rows",
    )
    drawing.add_argument(
        "--seed",
        type=int,
        default=argparse.SUPPRESS,
        help="seed of initial parameters and of rows (default 0)",
    )
    drawing.add_argument(
        "--run",
        dest="folder",
        default=argparse.SUPPRESS,
        metavar="FOLDER",
        help="take the parameters that this run has trained, and its heads",
    )
    drawing.add_argument(
        "--layer",
        type=int,
        default=argparse.SUPPRESS,
        help="with --run: which of its layers (default 0)",
    )
    parser.set_defaults(run=_encodings)


# What a picture is drawn with where nothing is given.
_DRAWN = {
    "heads": 4, "head_dim": 64, "length": 0, "text": "", "seed": 0, "folder": "", "layer": 0,
}  # fmt: skip


def _encodings(options) -> None:
    given = [name for name in _DRAWN if name in options]
    if options.plot is not None:
        vain = {"heads", "head_dim"} if "folder" in given else {"layer"}
        if idle := vain.intersection(given):
            reason = "a run has its own heads" if "folder" in given else "a layer is one of a --run"
            raise ValueError(f"{_flags(idle)} says nothing here: {reason}")
        if not getattr(options, "folder", "a run"):
            raise ValueError("--run needs the folder of a run, got an empty name")
        _plot(argparse.Namespace(**{**_DRAWN, **vars(options)}))
        return
    if given:
        raise ValueError(f"{_flags(given)} says something of pictures alone: give --plot, too")
    for text in options.names:
        use = parse_use(text)
        definitions.signature([text])  # what is wrong with options and hosts
        for name in (use.encoding, *(host.encoding for host in use.hosts)):
            info = definitions.describe(name)
            print(info)
            print(f"  file: {info.file}")
    if options.names:
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = definitions.encodings()
    for warning in said:
        print(f"sextant: note: {warning.message}", file=sys.stderr)
    width = max((len(e.name) for e in found), default=0)
    for encoding in found:
        print(f"{encoding.name:<{width}}  {encoding.formula}")


def _flags(names: Iterable[str]) -> str:
    spelled = {"folder": "run"}
    return " and ".join(sorted(flag(spelled.get(n, n)) for n in names))


_LONGEST = 2**16
_WIDEST = 2**14


def _plot(options) -> None:
    from ..plot import plot_encodings

    if not options.names:
        raise ValueError("--plot needs an encoding: sextant encodings NAME --plot [FILE.png]")
    for name in ("heads", "head_dim"):
        if (given := getattr(options, name)) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {given}")
    if options.heads * options.head_dim > _WIDEST:
        raise ValueError(
            f"--heads times --head-dim must be at most {_WIDEST}, got "
            f"{options.heads * options.head_dim}"
        )
    if options.length < 0:
        raise ValueError(f"--length must not be negative, got {options.length}")
    if options.length > _LONGEST:
        raise ValueError(f"--length must be at most {_LONGEST}, got {options.length}")
    if not 0 <= options.seed < 2**31:
        raise ValueError(f"--seed must be at least 0 and less than 2^31, got {options.seed}")

    def draw(uses: Sequence[str], settings: dict) -> None:
        path = plot_encodings(
            uses,
            options.plot,
            length=options.length,
            seed=options.seed,
            text=options.text.encode("utf-8", "surrogateescape"),
            **settings,
        )
        print(f"picture: {path}")

    if not options.folder:
        draw(options.names, {"heads": options.heads, "head_dim": options.head_dim})
        return
    from ..training.runs import open_run, trained_params

    # Of which only parameters are read: where they were trained is of no matter.
    with open_run(options.folder, "cpu") as (model, run):
        draw(*trained_params(model, run, options.names, options.layer))
