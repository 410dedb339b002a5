"""`sextant report` writes a report of runs."""

from __future__ import annotations

from .notes import tell_notes


def add(commands) -> None:
    parser = commands.add_parser(
        "report",
        help="write an HTML report of evaluated runs",
        description="Table, curves, learned biases, step times, and whether the "
        "orderings of the literature hold in these runs. Runs of the same encodings with "
        "several seeds are shown with their spread, and decide only beyond it.",
    )
    parser.add_argument("folders", nargs="+", help="evaluated runs")
    parser.add_argument("-o", "--output", default="report.html", help="the file (default report.html)")
    parser.set_defaults(run=_report)


def _report(options) -> None:
    from ..report import read_run, write_report

    runs = [read_run(folder) for folder in options.folders]
    findings = write_report(options.output, runs)
    for folder, run in zip(options.folders, runs):
        tell_notes(folder, run)
    for finding in findings:
        print(f"{finding.verdict}: {finding.text}")
    print(f"report: {options.output}")
