"""The command line: ``sextant train | eval | tables | report | encodings | demo``.

Exit codes: 0 done, 1 failed (a line on stderr says why), 2 wrong arguments, 130 and
143 interrupted by ctrl-C and SIGTERM (the checkpoint is usable).
"""

from __future__ import annotations

import argparse
import builtins
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from . import definitions
from .errors import CompileError, RunError
from .training.config import TrainConfig
from .training.interruption import Interrupted
from .uses import parse_use

_HELP = {
    "style": "block of the model: gpt2 or llama",
    "layers": "number of layers",
    "width": "width of the model",
    "heads": "attention heads",
    "kv_heads": "heads of keys and values (0: as many as heads)",
    "length": "tokens of a training block",
    "batch": "blocks of a step",
    "steps": "training steps",
    "lr": "peak learning rate",
    "warmup": "steps of linear warm-up",
    "final": "learning rate at the end, as a fraction of the peak",
    "residual": "initial weights into the residual stream: scaled or plain",
    "clip": "bound on the global norm of the gradients (0: none)",
    "weight_decay": "decoupled weight decay",
    "beta1": "AdamW's decay of the first moment",
    "beta2": "AdamW's decay of the second moment",
    "max_position": "random positions below this, in training and evaluation (0: none)",
    "positions_per": "what random positions are drawn for: layer or model",
    "shift": "probability that a training step has shifted positions",
    "shift_per": "what a shifted step draws a window of positions for: batch or sample",
    "shift_range": "windows have positions below this",
    "shift_windows": "windows that are drawn at the start (0: others at every step)",
    "mask": "what hides later tokens, none where encodings do; prefix has blocks with a prefix "
    "that all see",
    "seed": "seed of weights and data",
    "target": "what kernels are compiled for: cpu, cpu:avx2, cpu:avx512, ...",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; gives the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options) or 0
    except Interrupted as interrupted:
        print(f"sextant: {interrupted}", file=sys.stderr)
        return 128 + interrupted.signal
    except KeyboardInterrupt:
        print("sextant: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:  # whatever it is, what a user can do about it is a line
        if getattr(options, "debug", False) or os.environ.get("SEXTANT_DEBUG"):
            traceback.print_exc()
        print(f"sextant: error: {_message(error)}", file=sys.stderr)
        return 1


# Errors whose text stands by itself.
_TOLD = (CompileError, RunError, ImportError, ValueError, TypeError, MemoryError)


def _message(error: Exception) -> str:
    """What went wrong, without where in the program."""
    text = str(error).strip()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, builtins.RuntimeError):  # PyTorch's have its stack behind them
        text = text.split("\nException raised from", 1)[0]
        return text.removeprefix("[enforce fail at ").strip() or type(error).__name__
    if text and isinstance(error, _TOLD):
        return text
    if isinstance(error, MemoryError):
        return "out of memory; take smaller sizes"
    return f"{type(error).__name__}: {text}; with --debug, where it comes from".replace(": ;", ";")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="sextant",
        description="Trains and evaluates small GPTs with any positional encodings.",
        epilog="`sextant COMMAND --help` lists a command's arguments. Environment: SEXTANT_PATH, "
        "folders of encodings; SEXTANT_DEBUG, as --debug; XDG_CACHE_HOME, where compiled "
        "kernels are kept (sextant/ in it).",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="print version and commit, and exit"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_train(commands)
    _add_eval(commands)
    _add_tables(commands)
    _add_report(commands)
    _add_encodings(commands)
    _add_demo(commands)
    return parser


class _Parser(argparse.ArgumentParser):
    """Every command takes --debug, before its name or behind it."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show the whole traceback of an error",
        )


class _Version(argparse.Action):
    """Prints the revision only when it is asked for: finding it takes time."""

    def __call__(self, parser, *arguments):
        from .revision import revision

        print(f"sextant {revision()}")
        parser.exit()


# train ----------------------------------------------------------------------


def _add_train(commands) -> None:
    parser = commands.add_parser(
        "train",
        help="train a GPT on byte text",
        description="Trains a GPT on bytes. A folder that holds a run goes on with it: "
        "settings come from the run, and need not be given again; --steps may be raised, "
        "which extends it. Ctrl-C and SIGTERM end after the step at hand and save it.",
    )
    parser.add_argument("folder", help="where the run's files go")
    parser.add_argument(
        "--encodings",
        nargs="*",
        default=argparse.SUPPRESS,
        metavar="USE",
        help='encodings besides the mask, such as rope or "window(size=64)"; none for NoPE '
        "(default none)",
    )
    _add_data(parser, argparse.SUPPRESS)
    parser.add_argument(
        "--train",
        default=argparse.SUPPRESS,
        metavar="PATTERN,...",
        type=lambda text: [p.strip() for p in text.split(",") if p.strip()],
        help="parameters that are trained, the others are frozen: an encoding, or parts of "
        'names such as "fire,embedding,norm,layers.0" (default: all)',
    )
    parser.add_argument(
        "--init",
        default=argparse.SUPPRESS,
        metavar="RUN",
        help="a run whose parameters this one begins with; those of new encodings begin as ever",
    )
    parser.add_argument(
        "--group",
        dest="groups",
        action="append",
        default=argparse.SUPPRESS,
        metavar="PATTERN: SETTING",
        help='settings of the optimizer for some parameters, such as "fire: rate=0.5, decay=0, '
        'clip=5": rate is a factor, clip bounds their gradients alone; may be given again',
    )
    parser.add_argument(
        "--given",
        action="append",
        default=argparse.SUPPRESS,
        metavar="ENCODING.SETTING=VALUE",
        help="a setting of what makes the tensors that an encoding is given, such as "
        "document.separator=\"#\" or prefix.length=16; may be given several times",
    )
    for field in fields(TrainConfig):
        if field.name in _HELP:
            parser.add_argument(
                "--" + field.name.replace("_", "-"),
                type=type(field.default),
                default=argparse.SUPPRESS,
                help=f"{_HELP[field.name]} (default {field.default})",
            )
    parser.add_argument(
        "--save-every", type=int, default=100, help="steps between checkpoints"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="do not resume from a checkpoint"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check settings, text and encodings, say what would be trained, and stop",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=_train)


def _add_data(parser, default) -> None:
    parser.add_argument(
        "--data",
        nargs="+",
        default=default,
        metavar="FILE",
        help="text to train on (default: the sources of Python's standard library)",
    )


def _train(options) -> None:
    from .report.results import CHECKPOINT
    from .training.loop import plan, train
    from .training.state import read_state

    if options.save_every < 1:
        raise ValueError(f"--save-every must be at least 1, got {options.save_every}")
    given = {f.name: getattr(options, f.name) for f in fields(TrainConfig) if f.name in options}
    # A run goes on from anywhere.
    given["data"] = [os.path.abspath(path) for path in given.get("data", [])]
    if "init" in given:
        given["init"] = os.path.abspath(given["init"])
    path = Path(options.folder) / CHECKPOINT
    resume = not options.fresh and path.exists()
    if resume:
        if not given["data"]:
            del given["data"]
        config = replace(read_state(path).config, **given)
    else:
        config = TrainConfig(**given)
    if options.dry_run:
        print("\n".join(plan(config, options.folder, resume=resume)))
        return
    train(
        config,
        options.folder,
        save_every=options.save_every,
        resume=resume,
        progress=not options.quiet,
    )
    print(f"trained; evaluate with: sextant eval {options.folder}")


# eval -----------------------------------------------------------------------


def _add_eval(commands) -> None:
    parser = commands.add_parser(
        "eval",
        help="evaluate at multiples of the training length",
        description="Losses on held-out text, in two protocols: all tokens of "
        "non-overlapping blocks, and the last tokens of each block. A run is evaluated from "
        "what its folder holds, wherever that is; what of text and definitions is another "
        "here than in the training is said.",
    )
    parser.add_argument("folders", nargs="+", help="runs")
    parser.add_argument(
        "--multiples",
        nargs="+",
        type=int,
        default=[1, 2, 4, 8],
        metavar="N",
        help="lengths, in training lengths",
    )
    parser.add_argument(
        "--last", type=int, default=64, help="tokens that the second protocol counts"
    )
    parser.add_argument("--target", help="what kernels are compiled for")
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="ENCODING.OPTION=VALUE",
        help="another value of an encoding's option than in the training, such as "
        "rope.base=500000.0, or dape.fire.threshold=16 of a host; may be given several times",
    )
    parser.add_argument(
        "--tables",
        metavar="FILE",
        help="take what encodings make of positions from a file of sextant tables",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=_eval)


def _eval(options) -> None:
    from .training.runs import evaluate_run

    if min(options.multiples) < 1 or options.last < 1:
        raise ValueError("multiples and --last are at least 1")
    for folder in options.folders:
        result = evaluate_run(
            folder,
            multiples=options.multiples,
            last=options.last,
            target=options.target,
            settings=options.settings,
            tables=options.tables,
            progress=not options.quiet,
        )
        for note in result.notes:
            print(f"sextant: note: {folder}: {note}", file=sys.stderr)
        print(f"{result.name}: nats per byte")
        for label, losses in (
            ("all tokens", result.all_tokens),
            (f"last {result.last} tokens", result.last_tokens),
        ):
            numbers = "  ".join(f"{m}x {loss:.3f}" for m, loss in losses.items())
            print(f"  {label}: {numbers}")


# tables ---------------------------------------------------------------------


def _add_tables(commands) -> None:
    parser = commands.add_parser(
        "tables",
        help="write what a run's encodings make of positions alone",
        description="Writes what functions of encodings make of the positions 0, 1, ... and "
        "of trained parameters alone, for each layer where layers differ, for evaluations "
        "that take it instead of making it (sextant eval RUN --tables FILE).",
    )
    parser.add_argument("folder", help="a run")
    parser.add_argument("--length", type=int, required=True, help="number of positions")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the file (default: tables.safetensors in the run)"
    )
    parser.add_argument("--target", help="what kernels are compiled for")
    parser.set_defaults(run=_tables)


def _tables(options) -> None:
    from .training.runs import write_run_tables

    path = write_run_tables(options.folder, options.length, options.output, options.target)
    print(f"tables: {path}; evaluate with: sextant eval {options.folder} --tables {path}")


# report ---------------------------------------------------------------------


def _add_report(commands) -> None:
    parser = commands.add_parser(
        "report",
        help="write an HTML report of evaluated runs",
        description="Table, curves, learned biases, step times, and whether the "
        "orderings of the literature hold in these runs. Runs of the same encodings with "
        "several seeds are shown with their spread, and decide only beyond it.",
    )
    parser.add_argument("folders", nargs="+", help="evaluated runs")
    parser.add_argument("-o", "--output", default="report.html", help="the file")
    parser.set_defaults(run=_report)


def _report(options) -> None:
    from .report import read_run, write_report

    findings = write_report(options.output, [read_run(f) for f in options.folders])
    for finding in findings:
        print(f"{finding.verdict}: {finding.text}")
    print(f"report: {options.output}")


# encodings ------------------------------------------------------------------


def _add_encodings(commands) -> None:
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
    drawing.add_argument("--heads", type=int, default=4, help="attention heads (default 4)")
    drawing.add_argument("--head-dim", type=int, default=64, help="their width (default 64)")
    drawing.add_argument(
        "--length", type=int, default=0, help="how far distances go, or rows of a text"
    )
    drawing.add_argument(
        "--text", default="", help="rows are its letters; equal ones have equal rows"
    )
    drawing.add_argument(
        "--seed", type=int, default=0, help="seed of initial parameters and of rows (default 0)"
    )
    drawing.add_argument(
        "--run",
        dest="folder",
        metavar="FOLDER",
        help="take the parameters that this run has trained",
    )
    drawing.add_argument("--layer", type=int, default=0, help="layer of the run (default 0)")
    parser.set_defaults(run=_encodings)


def _encodings(options) -> None:
    if options.plot is not None:
        _plot(options)
        return
    for text in options.names:
        use = parse_use(text)
        definitions.signature([text])  # what is wrong with options and hosts
        for name in (use.encoding, *(host.encoding for host in use.hosts)):
            info = definitions.describe(name)
            print(info)
            print(f"  file: {info.file}")
    if options.names:
        return
    found = definitions.encodings()
    width = max((len(e.name) for e in found), default=0)
    for encoding in found:
        print(f"{encoding.name:<{width}}  {encoding.formula}")


_LONGEST = 2**16
_WIDEST = 2**14


def _plot(options) -> None:
    from .plot import plot_encodings

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
    from .training.runs import open_run, trained_params

    with open_run(options.folder) as (model, run):
        draw(*trained_params(model, run, options.names, options.layer))


# demo -----------------------------------------------------------------------


def _add_demo(commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="train, evaluate and compare some encodings",
        description="Trains a GPT with each of some encodings, evaluates them beyond "
        "their training length, and writes a report.",
    )
    parser.add_argument("folder", nargs="?", default="demo", help="where files go")
    parser.add_argument(
        "--quick", action="store_true", help="a smaller setting, under three minutes"
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="USE",
        help='one more encoding, such as "dape(alibi)"; may be repeated',
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="train each N times, with seeds 0 to N - 1, to see the spread (default 1; the time "
        "is N times as long)",
    )
    _add_data(parser, [])
    parser.set_defaults(run=_demo)


def _demo(options) -> None:
    from .demo import ENCODINGS, run_demo

    if not 1 <= options.seeds <= 1000:
        raise ValueError(f"--seeds must be at least 1 and at most 1000, got {options.seeds}")
    run_demo(
        options.folder,
        quick=options.quick,
        seeds=options.seeds,
        data=tuple(os.path.abspath(path) for path in options.data),
        encodings=tuple(dict.fromkeys([*ENCODINGS, *options.also])),
    )
