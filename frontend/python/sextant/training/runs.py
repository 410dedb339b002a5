"""Evaluation of a run's folder: losses and biases, written beside the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from .. import definitions
from ..errors import nearest
from ..probe import bias_over_distance
from ..report.results import RunResult, write_evaluation
from ..uses import parse_uses
from .adaptive import adaptive_biases
from .data import DataError, Text, load_text
from .evaluate import LAST, MULTIPLES, evaluate
from .loop import load_model
from .model import Model


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
        adaptive=adaptive_biases(model, text),
    )
    write_evaluation(folder, result)
    return result


def trained_params(folder: str | Path, name: str, layer: int) -> tuple[str, dict]:
    """One of a run's encodings, by its name or instance: its use as text, and what
    `sextant.plot.plot_encoding` draws of it: heads, head_dim, params, note."""
    model, config, step = load_model(folder)
    uses = {use.instance: use for use in parse_uses(("causal", *config.encodings))}
    use = uses.get(name) or next((u for u in uses.values() if name in (u.encoding, str(u))), None)
    if use is None:
        raise ValueError(f'the run {folder} has no encoding "{name}"{nearest(name, uses)}')
    if not 0 <= layer < config.layers:
        raise ValueError(f"the run {folder} has layers 0 to {config.layers - 1}, got {layer}")
    names = definitions.signature([str(use)]).by_name
    params = {n: t for n, t in _all_params(model, layer).items() if n in names}
    return str(use), {
        "heads": config.heads,
        "head_dim": config.width // config.heads,
        "params": params,
        "note": f"{folder}, layer {layer}, step {step}",
    }


def _all_params(model: Model, layer: int) -> dict:
    """Encodings' parameters of a layer and of the embedding by public name."""
    prefix = "embedding."
    outside = {n[len(prefix) :]: t for n, t in model.params.items() if n.startswith(prefix)}
    return outside | model.encoding_params(layer)
