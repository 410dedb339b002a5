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
from statistics import fmean

from .report import read_run, write_report
from .report.groups import Group, group
from .training.config import TrainConfig
from .training.data import load_text
from .training.loop import train
from .training.model import check_uses
from .training.runs import evaluate_run

# Uses of encodings; each is trained by itself. fire's threshold is to the training
# length, 128, as in DAPE's runs; seqpe's digits reach the lengths of the evaluation, and
# its samples are as many as a text of this size needs.
ENCODINGS = (
    "none",
    "sinusoidal",
    "rope",
    "alibi",
    "t5_bias",
    "kerple_log",
    "fire(threshold=16)",
    "dape(kerple_log)",
    "seqpe(digits=4, max_position=2000, pivots=8, candidates=16, windows=8, offsets=16)",
    "expe",
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
    seeds: int = 1,
    data: Sequence[str] = (),
    encodings: Sequence[str] = ENCODINGS,
) -> None:
    """Trains, evaluates and reports into ``folder``, ``seeds`` runs per use of an
    encoding.

    Runs that are there already are resumed. ``quick`` (also ``DEMO=quick``)
    takes fewer steps, which are not compared with the expected losses.
    """
    quick = quick or os.environ.get("DEMO") == "quick"
    base = replace(QUICK if quick else FULL, data=tuple(data))
    folder = Path(folder)
    text = load_text(base.data, 8 * base.length + 1)
    if quick:
        text = replace(text, validation=text.validation[: QUICK_VALIDATION + 1])
    configs = [
        replace(base, encodings=(name,), seed=seed) for name in encodings for seed in range(seeds)
    ]
    for config in configs:  # what is wrong with the last is said before the first is trained
        check_uses(config)
    times = f", {seeds} seeds" if seeds > 1 else ""
    print(
        f"{len(encodings)} encodings{times}, {base.steps} steps of {base.batch} x "
        f"{base.length} bytes each, on {text.source}"
    )
    began = time.perf_counter()
    runs = []
    for config in configs:
        run = folder / ("quick" if quick else "full") / config.name
        if config.seed:
            run = run.with_name(f"{run.name}.seed{config.seed}")
        train(config, run, data=text)
        evaluate_run(run)
        runs.append(read_run(run))
    report = folder / "report.html"
    findings = write_report(report, runs)
    groups = group(runs)
    _print_table(groups)
    for finding in findings:
        print(f"{finding.verdict}: {finding.text}")
    if not quick and not data:
        _compare(groups)
    print(f"{time.perf_counter() - began:.0f} s; report: {report.resolve()}")


def _print_table(groups: Sequence[Group]) -> None:
    last = groups[0].runs[0].last
    multiples = sorted(groups[0].runs[0].all_tokens)
    wide = 8 * len(multiples)
    first = max(12, *(len(found.name) + 2 for found in groups))
    head = "".join(f"{f'{m}x':>8}" for m in multiples)
    print(f"{'':{first}}{'all tokens':>{wide}}{f'last {last} tokens':>{wide + 3}}")
    print(f"{'':{first}}{head}   {head}   ms/step")
    for found in groups:
        everything, end = (
            "".join(f"{fmean(found.losses(protocol, m)):8.3f}" for m in multiples)
            for protocol in ("all_tokens", "last_tokens")
        )
        print(f"{found.name:{first}}{everything}   {end}   {fmean(found.step_ms):7.1f}")


def _compare(groups: Sequence[Group]) -> None:
    """Says which encodings are not within `CLOSE` of the plain PyTorch model at 1x."""
    are_close = True
    for found in groups:
        want = EXPECTED.get(found.name)
        if want is None:
            continue
        loss = fmean(found.losses("all_tokens", 1))
        if abs(loss - want) > CLOSE:
            are_close = False
            print(
                f"{found.name}: {loss:.3f} at 1x, plain PyTorch {want:.2f}: "
                f"off by {loss - want:+.3f}, more than {CLOSE}"
            )
    if are_close:
        print(f"every loss at 1x is within {CLOSE} of the plain PyTorch model's")
