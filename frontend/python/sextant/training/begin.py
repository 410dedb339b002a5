"""Beginning a run from the parameters of another one, to train new ones or some."""

from __future__ import annotations

from pathlib import Path

import torch

from ..errors import RunError
from .model import Model
from .state import read_state


class BeginError(RunError):
    """A model cannot begin from the parameters of a run."""


def begin_from(model: Model, path: str | Path) -> list[str]:
    """Copies the parameters of the run ``path`` into a model; gives the names of the
    model's other parameters, which keep their initial values. All of the run's must be
    the model's, too, and of the same shape. The optimizer begins anew."""
    run = read_state(path)
    stored = run.checkpoint.part("param")
    if lacking := sorted(set(stored) - set(model.params)):
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


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
