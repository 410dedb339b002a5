"""Evaluation of a run's folder: losses and biases, or the accuracy of classifiers, written
beside the checkpoint.

A run is evaluated from what it stores: settings, parameters, definitions and the
held-out data, so its folder can be anywhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from .. import definitions
from ..errors import nearest
from ..models.places import acts_in
from ..models.vit import INDEX
from ..probe import bias_over_distance, bias_over_grid, is_in_attention
from ..report.results import (
    CHECKPOINT,
    EVALUATION,
    LOG,
    RunResult,
    read_log,
    read_run,
    write_evaluation,
)
from ..uses import parse_uses
from .adaptive import adaptive_biases
from .best import BEST
from .compiled import CompiledModel
from .config import GPT, VIT
from .evaluate import LAST, MULTIPLES, EvaluationError, evaluate
from .given import hides_given
from .image_evaluation import evaluate_images
from .image_model import ImageModel, tokens_of
from .model import Model, uses_of
from .state import Run, open_run, read_state
from .tables import FILE as TABLES
from .tables import TablesError, make_tables, read_tables, write_tables


def evaluate_run(
    folder: str | Path,
    *,
    multiples: Sequence[int] = (),
    lengths: Sequence[int] = (),
    last: int = 0,
    most_blocks: int = 0,
    sizes: Sequence[int] = (),
    best: bool = False,
    target: str | None = None,
    settings: Sequence[str] = (),
    given: Sequence[str] = (),
    tables: str | Path | None = None,
    progress: bool = True,
    file: str = EVALUATION,
) -> RunResult:
    """Evaluates the checkpoint of ``folder`` and writes the result into ``file`` of it, with
    other values of encodings' options if ``settings`` name some, as ``expe.scaled=0.5`` does.
    Of texts ``multiples`` of the training length, and ``lengths`` in tokens (without either
    `MULTIPLES`), and the ``last`` tokens (default `LAST`), on the text of at most
    ``most_blocks`` blocks of the longest (0: all of it); ``given``: other settings of what
    makes tensors of the text; ``tables``: a file of `write_tables`, whose rows are taken
    instead of made. ``best``: evaluates the checkpoint with the least loss on held-out data.
    Of images ``sizes`` (default `default_sizes`).
    The result has the encodings as they were evaluated; its notes say what is not as
    it was in the training."""
    folder = _folder_of(folder)
    if tables is not None and settings:
        raise TablesError(
            f"{tables} holds tables of the run as it was trained, not with "
            f"{', '.join(settings)}: take one of --tables and --set"
        )
    if best and not (folder / BEST).exists():
        raise EvaluationError(
            f"{folder} holds no {BEST}: train with --validate-every N, which keeps it"
        )
    with open_run(folder / BEST if best else folder, target, settings, given) as (model, run):
        asked = {"multiples": multiples, "lengths": lengths, "last": last, "blocks": most_blocks}
        _check_asked(run, asked | {"tables": tables, "sizes": sizes})
        if isinstance(model, ImageModel):
            found = evaluate_images(model, run.held_out(), sizes, progress=progress)
            measured: dict[str, Any] = {
                "accuracy": found.accuracy,
                "size_losses": found.losses,
                **_image_biases(model),
            }
        else:
            multiples = multiples or (() if lengths else MULTIPLES)
            wanted = [*(m * model.config.length for m in multiples), *lengths]
            measured = _text_measures(
                model, run, wanted, last or LAST, most_blocks, tables, progress
            )
        notes = [*(_best_notes(run) if best else []), *measured.pop("notes", []), *run.notes()]
        result = RunResult(
            name=model.config.name,
            config=asdict(replace(model.config, target=run.config.target)),
            parameters=model.size,
            provenance=run.provenance,
            notes=notes,
            **measured,
        )
    write_evaluation(folder, result, file)
    return result


def _folder_of(folder: str | Path) -> Path:
    """A run's folder, in which something is written."""
    folder = Path(folder)
    if folder.is_file():
        raise EvaluationError(f"{folder} is a file: name the folder of the run, {folder.parent}")
    return folder


def _best_notes(run: Run) -> list[str]:
    return [
        f"evaluated at step {run.step}, of {run.config.steps}, where the loss on some of the "
        "held-out data was least"
    ]


# Rows and columns, at most, of which an evaluation of images tells the biases.
_FARTHEST = 16
# What an evaluation can be asked, by kind of model.
_ASKED = {GPT: ("multiples", "lengths", "last", "blocks", "tables"), VIT: ("sizes",)}


def _check_asked(run: Run, asked: Mapping[str, Any]) -> None:
    own = _ASKED[run.config.model]
    for name, value in asked.items():
        if value and name not in own:
            known = " or ".join(f"--{n}" for n in own)
            raise EvaluationError(
                f"{run.path.parent} is a run on {run.kind.noun}, which --{name} does not serve; "
                f"it has {known}"
            )


def _text_measures(
    model: Model,
    run: Run,
    lengths: Sequence[int],
    last: int,
    most_blocks: int,
    tables: str | Path | None,
    progress: bool,
) -> dict[str, Any]:
    """What a `RunResult` says of a model of texts."""
    config = run.config
    if 0 < config.max_position < max(lengths) and config.positions_beyond == "error":
        raise EvaluationError(
            f"{run.path.parent} draws positions below {config.max_position} (--max-position), of which "
            f"blocks of {max(lengths)} tokens need more: take shorter ones, or train with a larger one "
            "or with --positions-beyond index"
        )
    text = run.held_out()
    if tables is not None:
        model.take_tables(read_tables(tables, run, max(lengths)).rows)
    all_tokens, last_tokens = evaluate(
        model, text, lengths=lengths, last=last, most_blocks=most_blocks, progress=progress
    )
    return {
        "all_tokens": all_tokens,
        "last_tokens": last_tokens,
        "last": last,
        "notes": _text_notes(len(text.validation), most_blocks * max(lengths)),
        # No farther than losses were taken: positions, or a table, may reach no farther.
        "biases": _by_layer(model, bias_over_distance, distances=min(4 * config.length, max(lengths))),
        "adaptive": adaptive_biases(model, text, max(lengths)),
    }


def _text_notes(held_out: int, asked: int) -> list[str]:
    """A note where an evaluation took a part of the held-out text: ``asked`` tokens, each of
    which is to be predicted from those before it; 0 for all."""
    if not asked or asked + 1 >= held_out:
        return []
    return [f"evaluated on the first {asked + 1:,} of {held_out:,} held-out bytes"]


def read_trained(folder: str | Path) -> RunResult:
    """A run as a report reads it; one that is not evaluated as far as it was trained."""
    folder = Path(folder)
    if (folder / EVALUATION).exists():
        return read_run(folder)
    run = read_state(folder)
    config = json.loads(run.config.dump())
    result = RunResult(run.config.name, config, provenance=run.provenance)
    read_log(result, folder)
    return result


def write_run_tables(
    folder: str | Path, length: int, path: str | Path | None = None, target: str | None = None
) -> Path:
    """Writes the tables of a run at a length, and gives their file, by default one in
    the run's folder; never one that is the run's own."""
    folder = _folder_of(folder)
    found = Path(path) if path else folder / TABLES
    own = [folder / name for name in (CHECKPOINT, BEST, LOG, EVALUATION)]
    if os.path.realpath(found) in map(os.path.realpath, own):
        raise TablesError(f"{found} is a file of the run: name another one for its tables")
    with open_run(folder, target) as (model, run):
        if run.config.model != GPT:
            raise TablesError(
                f"{folder} is a run on {run.kind.noun}: tables serve texts, whose blocks are "
                "evaluated one by one. An evaluation of images makes those of a size once for many "
                "of them, and needs no file: sextant eval RUN --sizes ..."
            )
        write_tables(found, make_tables(model, run, length))
    return found


def _image_biases(model: ImageModel) -> dict[str, list]:
    """Over rows and columns up to those of the training, or over the index of patches."""
    config = model.config
    if config.positions == INDEX:
        count = tokens_of(config, config.size)
        return {"biases": _by_layer(model, bias_over_distance, distances=count)}
    reach = min(config.size // config.patch - 1, _FARTHEST)
    return {"grid_biases": _by_layer(model, bias_over_grid, reach=reach)}


def _by_layer(
    model: CompiledModel, measure: Callable[..., torch.Tensor | None], **extent: int
) -> list[list]:
    """Of each layer with a bias, what its encodings add to a score by head."""
    config = model.config
    inside = [use for use in config.encodings if is_in_attention(use) and not hides_given(use)]
    found = []
    for layer in range(config.layers):
        bias = measure(
            [use for use in inside if acts_in(use, layer)],
            model.encoding_params(layer),
            heads=config.heads,
            head_dim=config.width // config.heads,
            **extent,
        )
        if bias is not None:
            # Whole numbers of 1e-5: what a picture shows of them is less.
            found.append(bias.mul(1e5).round().div(1e5).tolist())
    return found


def trained_params(
    model: CompiledModel, run: Run, names: Sequence[str], layer: int
) -> tuple[list[str], dict]:
    """Some of a run's encodings, by name or instance: their uses as text, and what
    `sextant.plot.plot_encodings` draws of them: heads, head_dim, params, note."""
    config, folder = run.config, run.path.parent
    if not 0 <= layer < config.layers:
        raise ValueError(f"the run {folder} has layers 0 to {config.layers - 1}, got {layer}")
    uses = [_use_in(run, name) for name in names]
    for use in uses:
        if not acts_in(use, layer):
            raise ValueError(f'the run {folder} has "{use}" in its first layer only, got {layer}')
    known = _all_params(model, layer)
    for use in uses:
        for param in definitions.signature([use]).params:
            if param.given and param.name not in known:
                raise ValueError(
                    f'"{use}" takes "{param.name}", which is made or given anew at every call: the '
                    f"run {folder} has no values of it to draw; without --run examples are drawn"
                )
    return uses, {
        "heads": config.heads,
        "head_dim": config.width // config.heads,
        "params": [
            {n: known[n] for n in definitions.signature([use]).by_name if n in known}
            for use in uses
        ],
        "note": f"{folder}, layer {layer}, step {run.step}",
    }


def _use_in(run: Run, name: str) -> str:
    uses = {use.instance: use for use in parse_uses(uses_of(run.config))}
    for use in ([uses[name]] if name in uses else uses.values()):
        if name in (use.instance, use.encoding, str(use)):
            return str(use)
    raise ValueError(f'the run {run.path.parent} has no encoding "{name}"{nearest(name, uses)}')


def _all_params(model: CompiledModel, layer: int) -> dict:
    """Encodings' parameters of a layer and of the embedding by public name."""
    prefix = "embedding."
    named = model.params.items()
    outside = {n[len(prefix) :]: t.cpu() for n, t in named if n.startswith(prefix)}
    return outside | model.encoding_params(layer)
