"""The argument of commands that train several runs: how many at a time."""

from __future__ import annotations


def add_jobs(parser) -> None:
    parser.add_argument(
        "--jobs",
        type=int,
        default=0,
        metavar="N",
        help="trainings at a time, each in a process with its share of the threads (default: one "
        "per thread, as far as there are trainings and memory; results are the same)",
    )


def checked_jobs(options) -> int:
    if not 0 <= options.jobs <= 1000:
        raise ValueError(f"--jobs must be at least 0 and at most 1000, got {options.jobs}")
    return options.jobs
