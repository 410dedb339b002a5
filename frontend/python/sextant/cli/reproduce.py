"""`sextant reproduce` trains and evaluates what a paper compares."""

from __future__ import annotations

import os
from pathlib import Path

from .data import add_data
from .jobs import add_jobs, checked_jobs

# Named here, so that --help need not load what trains.
_PAPERS = ("seqpe", "seqpe_images", "expe", "tape", "dape")
_SCALES = ("toy", "mini", "tiny")


def add(commands) -> None:
    parser = commands.add_parser(
        "reproduce",
        help="train and evaluate what a paper compares, beside its numbers",
        description="Trains every method that a paper compares, with the paper's settings at a "
        "smaller scale, evaluates it at 1x to 16x the training length by two protocols, or at four "
        "sizes of images, and writes FOLDER/PAPER/SCALE/report.html and table.md: losses beside "
        "the paper's numbers, and which of the orderings that the paper reports are held. Ctrl-C stops it at any "
        "moment; --resume goes on. results.json beside them holds what was measured, for --results.",
    )
    parser.add_argument("paper", choices=_PAPERS, help="what is reproduced")
    parser.add_argument("folder", nargs="?", default="reproduce", help="where files go (default reproduce)")
    parser.add_argument(
        "--scale",
        choices=_SCALES,
        default=_SCALES[0],
        help="toy: the demo's model, 4 layers of width 128 on 128 bytes; mini: 2 layers of width 64 "
        "on 64 bytes, a fraction of the time; tiny: seconds, to see that all of it runs (default "
        "toy)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the runs of the folder: finished ones stay as they are; one that has "
        "other settings is an error",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="train each method N times, with seeds 0 to N - 1, so that an ordering can be held "
        "against their spread (default 1, which decides nothing beyond its mark)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="METHOD",
        help="these methods only, and those that they begin with; --dry-run lists them",
    )
    parser.add_argument(
        "--remarks",
        metavar="FILE",
        help='lines "ORDERING: likely reason" or "FIGURE: what it shows" (default: remarks.txt '
        "beside them, if it is there)",
    )
    parser.add_argument(
        "--query",
        type=int,
        metavar="N",
        help="token of the held-out text whose scores dape's Figure 1 shows, counted from 0 "
        "(default: the last of four training lengths)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="list the runs, how far each is, and about how long the rest takes, and stop",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="train nothing: write report and tables of the runs that are finished",
    )
    parser.add_argument(
        "--results",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="results.json of the same reproduction in another folder or on another machine: its "
        "runs are not trained again, and tables and report count them",
    )
    parser.add_argument("--quiet", action="store_true", help="no line of progress")
    add_jobs(parser)
    add_data(parser, [])
    parser.add_argument(
        "--validation-data",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="another text whose beginning is held out (default: the end of the training text)",
    )
    parser.set_defaults(run=_reproduce)


def _reproduce(options) -> None:
    from .. import reproduce
    from ..reproduce.remarks import FILE, read_remarks
    from ..reproduce.tables import NOT_RUN

    if not 1 <= options.seeds <= 1000:
        raise ValueError(f"--seeds must be at least 1 and at most 1000, got {options.seeds}")
    jobs = checked_jobs(options)
    paper = reproduce.PAPERS[options.paper]
    found = reproduce.Reproduction.plan(
        paper,
        paper.scales[options.scale],
        options.folder,
        seeds=options.seeds,
        data={
            name: tuple(map(os.path.abspath, files))
            for name, files in (
                ("data", options.data),
                ("validation_data", options.validation_data),
            )
        },
        only=options.only,
        results=options.results,
    )
    if options.query is not None:
        found.check_query(options.query)
    if options.dry_run:
        print("\n".join(found.overview()))
        return
    file = Path(options.remarks) if options.remarks else found.folder / FILE
    remarks = read_remarks(file, paper.remarked) if options.remarks or file.exists() else {}
    if not options.report:
        found.run(resume=options.resume, progress=not options.quiet, jobs=jobs)
    outcome = reproduce.collect(found, remarks, options.query)
    for ordering, verdict in outcome.verdicts.items():
        mark = verdict.mark if verdict else NOT_RUN
        print(f"{ordering.name}: {mark}: {ordering.text}")
    for path in reproduce.write_reports(outcome):
        print(f"written: {path}")
