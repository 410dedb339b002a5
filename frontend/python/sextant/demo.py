"""``make demo``: some encodings, trained, extrapolated and compared, on text and on images.

The setting on text is that of a plain PyTorch model with known losses (below); the demo
says how far each encoding is from them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import torch

from . import side_by_side
from .report import read_run, write_report
from .report.groups import Group, group
from .training.config import VIT, TrainConfig
from .training.data import load_text
from .training.images import Images, load_images, spread
from .training.kind import Data
from .training.kinds import kind_of
from .training.loop import train
from .training.runs import evaluate_run
from .training.step_bar import StepBar

# Uses of encodings; each is trained by itself. fire's threshold is to the training
# length, 128, as in DAPE's runs; seqpe's digits reach the lengths of the evaluation, its
# samples are as many as a text of this size needs, and its initial values, 0.02 at the
# paper's width of 768, are those of a width of 128: times the root of 768 / 128.
ENCODINGS = (
    "none",
    "sinusoidal",
    "rope",
    "alibi",
    "t5_bias",
    "kerple_log",
    "fire(threshold=16)",
    "dape(kerple_log)",
    "seqpe(digits=4, max_position=2000, deviation=0.049, pivots=8, candidates=16, windows=8, "
    "offsets=16)",
    "expe",
)

# Of images, whose training size has six by six patches, and whose largest has twelve by
# twelve.
IMAGE_ENCODINGS = (
    "learned(rows=36, grid_rows=6, grid_columns=6)",
    "rope_2d",
    "seqpe(form=mul, axes=2, digits=2, max_position=32, sampling=image, pivots=8, candidates=16, "
    "windows=8, offsets=16)",
)

# Losses of plain PyTorch models at 1x, in nats per byte over all tokens, on the default
# text: the least and the greatest. Sinusoidal depends on seed and initial weights most of
# all, the greater is with PyTorch's default weights; seeds here give 2.51 to 2.61.
EXPECTED = {
    "none": (2.22, 2.22),
    "sinusoidal": (2.50, 2.62),
    "rope": (1.64, 1.64),
    "alibi": (1.86, 1.86),
    "kerple_log": (1.74, 1.74),
}
CLOSE = 0.1

# gelu: what torch.nn.GELU is, and a tenth of a step faster than that by tanh.
FULL = TrainConfig(residual="plain", gelu="erf")
QUICK = replace(FULL, steps=60, warmup=10)
QUICK_VALIDATION = 16 * 1024
IMAGES = TrainConfig(
    model=VIT, gelu="erf", layers=2, width=64, heads=4, head="mean", lr=3e-3, steps=600
)
QUICK_IMAGES = replace(IMAGES, steps=60, warmup=10)
QUICK_HELD_OUT = 200


def run_demo(
    folder: str | Path,
    *,
    quick: bool = False,
    seeds: int = 1,
    data: Sequence[str] = (),
    encodings: Sequence[str],
    image_encodings: Sequence[str],
    jobs: int = 0,
) -> None:
    """Trains, evaluates and reports into ``folder``, ``seeds`` runs per use of an
    encoding: GPTs on a text, which ``data`` names, and ViTs on the default images;
    ``jobs`` at a time (0: `jobs_for`), with PyTorch's number of threads in all.

    Runs that are there already are resumed. ``quick`` (also ``DEMO=quick``)
    takes fewer steps, which are not compared with the expected losses.
    """
    quick = quick or os.environ.get("DEMO") == "quick"
    base = replace(QUICK if quick else FULL, data=tuple(data))
    folder = Path(folder)
    text = load_text(base.data, 8 * base.length + 1)
    if quick:
        text = replace(text, validation=text.validation[: QUICK_VALIDATION + 1])
    configs = _configs(base, encodings, seeds)
    image_configs = _configs(QUICK_IMAGES if quick else IMAGES, image_encodings, seeds)
    for config in (*configs, *image_configs):
        # What is wrong with the last is said before the first is trained.
        kind_of(config).check_uses(config)
    times = f", {seeds} seeds" if seeds > 1 else ""
    print(
        f"{len(encodings)} encodings{times}, {base.steps} steps of {base.batch} x "
        f"{base.length} bytes each, on {text.source}"
    )
    began = time.perf_counter()
    folders = folder / ("quick" if quick else "full")
    trainings = [_Training(config, _folder(folders, config), text) for config in configs]
    if image_configs:
        first = image_configs[0]
        images = _load_images(first, quick)
        print(
            f"{len(image_encodings)} encodings of images{times}, {first.steps} steps of "
            f"{first.batch} each, on {images.source}"
        )
        trainings += [
            _Training(config, _folder(folders / "images", config), images)
            for config in image_configs
        ]
    # The longest first, so that no thread is without work at the end: encodings are listed
    # from simple to elaborate, and images take less than text.
    _train([*reversed(trainings[: len(configs)]), *trainings[len(configs) :]], jobs)
    runs = [read_run(training.folder) for training in trainings[: len(configs)]]
    image_runs = [read_run(training.folder) for training in trainings[len(configs) :]]
    report = folder / "report.html"
    findings = write_report(report, [*runs, *image_runs])
    groups = group(runs)
    _print_table(groups)
    for finding in findings:
        print(f"{finding.verdict}: {finding.text}")
    if not quick and not data:
        _compare(groups)
    if image_runs:
        _print_accuracies(group(image_runs))
    print(f"{time.perf_counter() - began:.0f} s; report: {report.resolve()}")


def _configs(base: TrainConfig, encodings: Sequence[str], seeds: int) -> list[TrainConfig]:
    return [
        replace(base, encodings=(name,), seed=seed) for name in encodings for seed in range(seeds)
    ]


def _load_images(config: TrainConfig, quick: bool) -> Images:
    images = load_images(config.data, config.size)
    if quick:
        images = replace(images, held_out=spread(images.held_out, QUICK_HELD_OUT))
    return images


def _folder(folder: Path, config: TrainConfig) -> Path:
    return folder / (f"{config.name}.seed{config.seed}" if config.seed else config.name)


@dataclass(frozen=True)
class _Training:
    config: TrainConfig
    folder: Path
    data: Data


def _train(trainings: Sequence[_Training], jobs: int) -> None:
    """Trains and evaluates what is not, side by side."""
    threads = torch.get_num_threads()
    jobs = jobs or side_by_side.jobs_for(len(trainings), threads, max(map(_bytes, trainings)))
    tasks = [side_by_side.Task(_train_one, (training,)) for training in trainings]
    with StepBar([(training.config.name, training.config.steps) for training in trainings]) as bar:
        try:
            side_by_side.run(tasks, jobs, threads, bar.step)
        except side_by_side.TaskFailed as failed:
            raise failed.error from None


def _bytes(training: _Training) -> int:
    kind = kind_of(training.config)
    return kind.training_bytes(kind.completed(training.config, training.data))


def _train_one(training: _Training, *, tell: Callable[[int], None]) -> None:
    train(
        training.config, training.folder, data=training.data, progress=False, after_step=tell
    )
    tell(training.config.steps)  # also of one that was finished before
    evaluate_run(training.folder, progress=False)


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


def _print_accuracies(groups: Sequence[Group]) -> None:
    """Top-1 of the means of seeds, by size."""
    sizes = sorted(groups[0].runs[0].accuracy)
    first = max(12, *(len(found.name) + 2 for found in groups))
    print(f"{'top-1':{first}}{''.join(f'{n:>8}' for n in sizes)}   ms/step")
    for found in groups:
        shares = "".join(f"{fmean(found.losses('accuracy', n)):8.1%}" for n in sizes)
        print(f"{found.name:{first}}{shares}   {fmean(found.step_ms):7.1f}")


def _compare(groups: Sequence[Group]) -> None:
    """Says which encodings are not within `CLOSE` of plain PyTorch models at 1x."""
    are_close = True
    for found in groups:
        if found.name not in EXPECTED:
            continue
        loss = fmean(found.losses("all_tokens", 1))
        nearest = min(max(loss, EXPECTED[found.name][0]), EXPECTED[found.name][1])
        if abs(loss - nearest) > CLOSE:
            are_close = False
            print(
                f"{found.name}: {loss:.3f} at 1x, plain PyTorch {nearest:.2f}: "
                f"off by {loss - nearest:+.3f}, more than {CLOSE}"
            )
    if are_close:
        print(f"every loss at 1x is within {CLOSE} of that of plain PyTorch")
