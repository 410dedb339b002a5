"""Evaluation of a run's folder: losses and biases, written beside the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ..report.results import RunResult, write_evaluation
from .biases import bias_over_distance
from .data import DataError, Text, load_text
from .evaluate import LAST, MULTIPLES, evaluate
from .loop import load_model


def evaluate_run(
    folder: str | Path,
    *,
    multiples: Sequence[int] = MULTIPLES,
    last: int = LAST,
    target: str | None = None,
    progress: bool = True,
    text: Text | None = None,
) -> RunResult:
    """Evaluates the checkpoint of ``folder`` and writes ``evaluation.json``."""
    folder = Path(folder)
    model, config, _ = load_model(folder, target)
    longest = max(multiples) * config.length
    if text is None:
        text = load_text(config.data)
    if len(text.validation) < longest + 1:
        raise DataError(
            f"the validation text has {len(text.validation)} bytes; {max(multiples)} x "
            f"{config.length} tokens need {longest + 1}"
        )
    all_tokens, last_tokens = evaluate(
        model, config, text, multiples=multiples, last=last, progress=progress
    )
    biases = []
    for layer in range(config.layers):
        bias = bias_over_distance(
            config.encodings,
            model.encoding_params(layer),
            heads=config.heads,
            head_dim=config.width // config.heads,
            distances=4 * config.length,
        )
        if bias is not None:
            biases.append([[round(v, 5) for v in row] for row in bias.tolist()])
    result = RunResult(
        name=config.name,
        config=asdict(config),
        all_tokens=all_tokens,
        last_tokens=last_tokens,
        last=last,
        parameters=model.size,
        biases=biases,
    )
    write_evaluation(folder, result)
    return result
