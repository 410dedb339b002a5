"""``make demo``: some encodings, trained, extrapolated and compared.

The setting is that of a plain PyTorch model with known losses (below); the demo
says how far each encoding is from them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .report import read_run, write_report
from .training.config import TrainConfig
from .training.data import load_text
from .training.loop import train
from .training.runs import evaluate_run

# Uses of encodings; each is trained by itself.
ENCODINGS = (
    "none",
    "sinusoidal",
    "rope",
    "alibi",
    "t5_bias",
    "kerple_log",
    "fire",
    "dape(kerple_log)",
)

# Losses of a plain PyTorch model at 1x, in nats per byte over all tokens, on the
# default text. Sinusoidal depends on seed and initial weights most of all: plain
# PyTorch with its default weights gives 2.62 where another run gave 2.50.
EXPECTED = {
    "none": 2.22,
    "sinusoidal": 2.50,
    "rope": 1.64,
    "alibi": 1.86,
    "kerple_log": 1.74,
}
CLOSE = 0.1

FULL = TrainConfig(residual="plain")
QUICK = replace(FULL, steps=60, warmup=10)
QUICK_VALIDATION = 16 * 1024


def run_demo(
    folder: str | Path,
    *,
    quick: bool = False,
    data: Sequence[str] = (),
    encodings: Sequence[str] = ENCODINGS,
) -> None:
    """Trains, evaluates and reports into ``folder``, one run per use of an encoding.

    Runs that are there already are resumed. ``quick`` (also ``DEMO=quick``)
    takes fewer steps, which are not compared with the expected losses.
    """
    quick = quick or os.environ.get("DEMO") == "quick"
    base = replace(QUICK if quick else FULL, data=tuple(data))
    folder = Path(folder)
    text = load_text(base.data, 8 * base.length + 1)
    if quick:
        text = replace(text, validation=text.validation[: QUICK_VALIDATION + 1])
    print(
        f"{len(encodings)} encodings, {base.steps} steps of {base.batch} x "
        f"{base.length} bytes each, on {text.source}"
    )
    began = time.perf_counter()
    runs = []
    for name in encodings:
        config = replace(base, encodings=() if name == "none" else (name,))
        run = folder / ("quick" if quick else "full") / name
        train(config, run, text=text)
        evaluate_run(run, text=text)
        runs.append(read_run(run))
    report = folder / "report.html"
    findings = write_report(report, runs)
    _print_table(runs)
    for finding in findings:
        print(f"{'holds' if finding.holds else 'does not hold'}: {finding.text}")
    if not quick and not data:
        _compare(runs)
    print(f"{time.perf_counter() - began:.0f} s; report: {report.resolve()}")


def _print_table(runs) -> None:
    multiples = sorted(runs[0].all_tokens)
    wide = 8 * len(multiples)
    first = max(12, *(len(run.name) + 2 for run in runs))
    head = "".join(f"{f'{m}x':>8}" for m in multiples)
    print(f"{'':{first}}{'all tokens':>{wide}}{f'last {runs[0].last} tokens':>{wide + 3}}")
    print(f"{'':{first}}{head}   {head}   ms/step")
    for run in runs:
        everything = "".join(f"{run.all_tokens[m]:8.3f}" for m in multiples)
        end = "".join(f"{run.last_tokens[m]:8.3f}" for m in multiples)
        print(f"{run.name:{first}}{everything}   {end}   {run.step_ms:7.1f}")


def _compare(runs) -> None:
    """Says which encodings are not within `CLOSE` of the plain PyTorch model at 1x."""
    are_close = True
    for run in runs:
        want = EXPECTED.get(run.name)
        if want is None:
            continue
        off = run.all_tokens[1] - want
        if abs(off) > CLOSE:
            are_close = False
            print(
                f"{run.name}: {run.all_tokens[1]:.3f} at 1x, plain PyTorch {want:.2f}: "
                f"off by {off:+.3f}, more than {CLOSE}"
            )
    if are_close:
        print(f"every loss at 1x is within {CLOSE} of the plain PyTorch model's")
