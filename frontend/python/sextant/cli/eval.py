"""`sextant eval` evaluates runs."""

from __future__ import annotations

from .failures import Failures
from .notes import tell_notes


def add(commands) -> None:
    parser = commands.add_parser(
        "eval",
        help="evaluate at multiples of the training length, or at sizes of images",
        description="Losses on held-out text, in two protocols: all tokens of "
        "non-overlapping blocks, and the last tokens of each block. Of a run on images top-1 "
        "accuracy and loss at several sizes, to which the held-out images that the run stores are "
        "resized (bicubic, antialiased); those of the default letters, and of files that differ "
        "in size, are stored at twice the training size, others as they are. A run is evaluated "
        "from what its folder holds, wherever that is; what of data and definitions is another "
        "here than in the training is said. One that fails keeps no other from it; the exit code "
        "is then 1.",
    )
    parser.add_argument("folders", nargs="+", help="runs")
    parser.add_argument(
        "--multiples",
        nargs="+",
        action="extend",
        type=int,
        default=[],
        metavar="N",
        help="lengths of text, in training lengths (default 1 2 4 8, unless --lengths names some)",
    )
    parser.add_argument(
        "--lengths",
        nargs="+",
        action="extend",
        type=int,
        default=[],
        metavar="N",
        help="lengths of text in tokens, any; beside --multiples if both are given",
    )
    parser.add_argument(
        "--blocks",
        type=int,
        default=0,
        metavar="N",
        help="take the held-out text of at most N blocks of the longest length (default: all)",
    )
    parser.add_argument(
        "--last", type=int, help="tokens that the second protocol counts (default 64)"
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        action="extend",
        type=int,
        default=[],
        metavar="N",
        help="sizes of images (default 1, 1.25, 1.5 and 2 times that of the training, in whole "
        "patches)",
    )
    parser.add_argument(
        "--best",
        action="store_true",
        help="evaluate the step with the least loss on held-out data (sextant train "
        "--validate-every), not the last",
    )
    parser.add_argument("--target", help="what kernels are compiled for (default: as in the training)")
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
        "--given",
        action="append",
        default=[],
        metavar="ENCODING.SETTING=VALUE",
        help="another setting than in the training of what makes tensors of the text, such as "
        "prefix.length=16; may be given several times",
    )
    parser.add_argument(
        "--tables",
        metavar="FILE",
        help="take what encodings make of positions from a file of sextant tables",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=_eval)


def _eval(options) -> int:
    from ..report.results import NotStoredError

    if min([1, *options.multiples, *options.lengths]) < 1:
        raise ValueError("multiples and lengths are at least 1")
    if options.blocks < 0 or (options.last is not None and options.last < 1):
        raise ValueError("--last is at least 1, and --blocks is not negative")
    with Failures(options.folders, options) as failures:
        for folder in options.folders:
            try:
                _show(folder, _evaluated(folder, options))
            except BrokenPipeError:
                raise
            except Exception as error:
                # Of a folder that others may only read, say.
                if isinstance(error, NotStoredError) and error.result:
                    _show(folder, error.result)
                failures.add(folder, error)
    return failures.code


def _evaluated(folder: str, options):
    from ..training.runs import evaluate_run

    return evaluate_run(
        folder,
        multiples=options.multiples,
        lengths=options.lengths,
        most_blocks=options.blocks,
        last=options.last or 0,
        sizes=options.sizes,
        best=options.best,
        target=options.target,
        settings=options.settings,
        given=options.given,
        tables=options.tables,
        progress=not options.quiet,
    )


def _show(folder: str, result) -> None:
    tell_notes(folder, result)
    if result.accuracy:
        print(f"{result.name}: top-1 accuracy (loss in nats)")
        for size, share in result.accuracy.items():
            print(f"  {size} x {size}: {share:.1%} ({result.size_losses[size]:.3f})")
        return
    trained = result.config["length"]
    print(f"{result.name}: nats per byte, at lengths in units of {trained} tokens")
    for label, losses in (
        ("all tokens", result.all_tokens),
        (f"last {result.last} tokens", result.last_tokens),
    ):
        numbers = "  ".join(f"{_named(m, trained)} {loss:.3f}" for m, loss in losses.items())
        print(f"  {label}: {numbers}")


def _named(multiple: float, trained: int) -> str:
    """The length in training lengths, and in tokens where it is no multiple."""
    from ..report.results import multiple_name

    tokens = "" if isinstance(multiple, int) else f" ({round(multiple * trained)})"
    return multiple_name(multiple) + tokens
