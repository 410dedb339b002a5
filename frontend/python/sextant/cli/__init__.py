"""The command line: ``sextant train | eval | tables | report | compare | reproduce |
encodings | demo``, a file of this folder each.

Exit codes: 0 done, 1 failed (a line on stderr says why), 2 wrong arguments, 130, 143 and
129 interrupted by ctrl-C, SIGTERM and a terminal that was closed (the checkpoint is usable).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence

from ..memory import keep_freed_memory
from ..training.interruption import Interrupted
from . import compare, demo, encodings, eval, report, reproduce, tables, train
from .failures import tell_error

# In the order of `sextant --help`.
_COMMANDS = (train, eval, tables, report, compare, reproduce, encodings, demo)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; gives the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # paths need be no text of its encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    keep_freed_memory()
    code = _run(options)
    try:
        if sys.stdout:  # which a shell may have closed
            sys.stdout.flush()
    except OSError as error:
        # Python would try again when it ends, and complain in its own words.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"sextant: error: the standard output: {error.strerror}", file=sys.stderr)
        return code or 1
    return code


def _run(options: argparse.Namespace) -> int:
    """Runs a command, and says what went wrong; gives the exit code."""
    try:
        return options.run(options) or 0
    except Interrupted as interrupted:
        with contextlib.suppress(OSError):  # of a terminal that is no longer there
            print(f"sextant: {interrupted}", file=sys.stderr)
        return 128 + interrupted.signal
    except KeyboardInterrupt:
        print("sextant: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:  # whatever it is, what a user can do about it is a line
        tell_error(error, options)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="sextant",
        description="Trains and evaluates small GPTs and ViTs with any positional encodings.",
        epilog="`sextant COMMAND --help` lists a command's arguments. Environment: SEXTANT_PATH, "
        "folders of encodings, before which come those of XDG_DATA_HOME (sextant/encodings in it); "
        "SEXTANT_TARGET, which target cpu is; SEXTANT_PRODUCTS, which library multiplies matrices; "
        "SEXTANT_KEEP_MEMORY, how many MiB of large blocks stay for the next call (default all); "
        "SEXTANT_CHECK=reads, a read outside of a parameter is an error; SEXTANT_DEBUG, as --debug; "
        "OMP_NUM_THREADS, threads; XDG_CACHE_HOME, where compiled kernels are kept (sextant/ in it).",
    )
    parser.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        help="print version and commit, and the compiler's, and exit",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add(commands)
    return parser


class _Parser(argparse.ArgumentParser):
    """Every command takes --debug, before its name or behind it; an error says what a list
    of its options has swallowed."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show the whole traceback of an error",
        )

    def parse_known_args(self, args=None, namespace=None):
        self._words = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(self._words, namespace)

    def error(self, message):
        found = [a for a in self._actions if a.option_strings and a.nargs in ("*", "+")]
        if message.startswith("the following arguments are required"):
            found = [a for a in found if self._takes_words(a.option_strings[0])]
        else:
            found = [a for a in found if message.startswith(f"argument {a.option_strings[0]}: invalid")]
        if found:
            lists = " and ".join(a.option_strings[0] for a in found)
            places = ", ".join(str(a.metavar or a.dest) for a in self._actions if not a.option_strings)
            message += (
                f"; words behind {lists} are taken for that list, up to the next option: write "
                f"{places} before it, behind another option, or at the end behind --"
            )
        super().error(message)

    def _takes_words(self, option: str) -> bool:
        """Whether the option, which may be abbreviated, is given with words of its own."""
        return any(
            len(word) > 2 and option.startswith(word) and not following.startswith("-")
            for word, following in zip(self._words, self._words[1:])
        )


class _Version(argparse.Action):
    """Prints the revision only when it is asked for: finding it takes time."""

    def __call__(self, parser, *arguments):
        from .. import backend
        from ..revision import revision

        print(f"sextant {revision()}")
        try:
            print(f"compiler: {backend.compiler().version()}")
        except ImportError as error:
            parser.exit(1, f"sextant: error: {error}\n")
        parser.exit()
