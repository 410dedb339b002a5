"""Beginning a run from the parameters of another one, to train new ones or some."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from .. import definitions
from ..errors import RunError
from ..uses import Use, parse_uses
from .compiled import CompiledModel
from .config import TrainConfig
from .model import uses_of
from .state import Run, read_state

# What two models of one shape have in common.
_SHAPE = (
    "model", "style", "gelu", "layers", "width", "heads", "kv_heads", "channels", "classes",
    "patch", "head",
)  # fmt: skip


class BeginError(RunError):
    """A model cannot begin from the parameters of a run."""


def begin_from(model: CompiledModel, path: str | Path) -> list[str]:
    """Copies the parameters of the run ``path`` into a model; gives the names of the
    model's other parameters, which keep their initial values. All of the run's must be
    the model's, too, and of the same shape; an encoding of the model that extends another
    one begins where that was trained. The optimizer begins anew."""
    run = read_state(path)
    _check_shape(run, model.config)
    _check_extended(run, model.config)
    stored = run.checkpoint.part("param")
    if lacking := sorted(set(stored) - set(model.params)):
        if run.config.shared != model.config.shared:
            raise BeginError(
                f"{run.path} is of a model whose layers {_sharing(run.config)}, and here they "
                f"{_sharing(model.config)}: begin with the same (--shared)"
            )
        raise BeginError(
            f"{run.path} has parameters that the model lacks, {_some(lacking)}: a model that "
            f"begins from a run has its encodings ({run.config.name}), besides new ones"
        )
    for name, tensor in stored.items():
        if tensor.shape != model.params[name].shape:
            raise BeginError(
                f"{run.path} is of a model of another shape: {name} is {tuple(tensor.shape)}, "
                f"here {tuple(model.params[name].shape)}"
            )
    with torch.no_grad():
        for name, tensor in stored.items():
            model.params[name].copy_(tensor)
    return sorted(set(model.params) - set(stored))


def _check_shape(run: Run, config: TrainConfig) -> None:
    for name in _SHAPE:
        there, here = getattr(run.config, name), getattr(config, name)
        if there != here:
            raise BeginError(
                f"{run.path} is of a model of another shape: {name} is {there}, here {here}"
            )


def _sharing(config: TrainConfig) -> str:
    return f"{'share' if config.shared else 'do not share'} the parameters of encodings"


def _check_extended(run: Run, config: TrainConfig) -> None:
    """The outputs at the start are those of the run only if it has what the new encodings
    extend, with the same options, and the model has it no more."""
    there = parse_uses(uses_of(run.config))
    here = parse_uses(uses_of(config))
    replaced = [_settings(use) for use in there if use not in here]
    for use in here:
        extended = definitions.describe(use.encoding).extends
        if not extended or use in there:
            continue
        start = definitions.started(extended, use)
        if _settings(start) in replaced:
            continue
        if _settings(start) in map(_settings, there):
            raise BeginError(
                f'"{use}" starts as "{_short(start)}" and takes its place: leave that out of the '
                "encodings"
            )
        raise BeginError(
            f'"{use}" starts as "{_short(start)}", with which {run.path} was not trained (its '
            f"encodings: {run.config.name}): begin from a run that has it, or give options with "
            "which it starts as that run"
        )


def _settings(use: Use) -> tuple[str, dict]:
    return use.encoding, definitions.option_values(use)


def _short(use: Use) -> Use:
    """The use without options that are as by default."""
    defaults = {o.name: o.default for o in definitions.describe(use.encoding).options}
    return replace(use, options={n: v for n, v in use.options.items() if v != defaults[n]})


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
