"""HTML reports of training runs."""

from .page import write_report
from .results import RunResult, read_run

__all__ = ["RunResult", "read_run", "write_report"]
