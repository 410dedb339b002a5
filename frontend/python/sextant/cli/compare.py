"""`sextant compare` draws the curves of runs in one report."""

from __future__ import annotations

from .notes import tell_notes


def add(commands) -> None:
    parser = commands.add_parser(
        "compare",
        help="draw the curves of runs in one report",
        description="One page of any runs on the same data: training loss over steps and over "
        "time, loss on held-out data, losses by length with the standard deviation of seeds, and "
        "the settings that differ. Runs that differ in the seed alone are one line of a table. A "
        "run that goes on, or is not evaluated, is shown as far as it is.",
    )
    parser.add_argument("folders", nargs="+", metavar="RUN", help="runs")
    parser.add_argument("-o", "--output", default="compare.html", help="the file (default compare.html)")
    parser.set_defaults(run=_compare)


def _compare(options) -> None:
    from ..report.compare import with_deviation, write_comparison
    from ..training.runs import read_trained

    runs = [read_trained(folder) for folder in options.folders]
    groups = write_comparison(options.output, runs)
    for folder, run in zip(options.folders, runs):
        tell_notes(folder, run)
    for found in groups:
        ends = [run.steps[-1][1] for run in found.runs if run.steps]
        print(f"{found.name}: seeds {', '.join(map(str, found.seeds))}, last loss "
              f"{with_deviation(ends) or 'none'}")
    print(f"comparison: {options.output}")
