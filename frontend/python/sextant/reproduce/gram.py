"""Products of the rows that functions of an encoding make of positions: which positions
are alike for attention, and for the encoder itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from ..report import figures
from ..training.model import Model
from ..training.settings import with_settings
from ..training.state import Run, open_run
from ..training.tables import make_tables
from .listing import ReproduceError

# Training lengths that positions cover.
MULTIPLE = 4
# Of digits that come again.
PERIODS = (10, 100)


def gram_matrices(folder: Path, embedded: Sequence[str] = ()) -> str:
    """Of a run whose encoding makes a row for queries and one for keys, as an <svg> element.
    ``embedded``: settings of the encoding with which its rows are its embeddings."""
    with open_run(folder) as (model, run):
        length = model.config.length
        found = matrices(model, run, MULTIPLE * length, embedded)
    shown = {name: rows.tolist() for name, rows in found.items()}
    return figures.matrices(shown, length)


def matrices(
    model: Model, run: Run, count: int, embedded: Sequence[str] = ()
) -> dict[str, torch.Tensor]:
    """[count, count] of the products of embeddings, of the rows of all heads, and of each
    head. The names of the first two say how much of digits comes again in them (`stripes`)."""
    products = gram(make_tables(model, run, count).tensors)
    found = {"all heads": products.sum(0)}
    if embedded:
        plain = _with_settings(model, run, embedded)
        own = gram(make_tables(plain, run, count).tensors).sum(0)
        found = {"embeddings": own, **found}
    said = {_said(name, rows): rows for name, rows in found.items()}
    return said | {f"head {head}": rows for head, rows in enumerate(products)}


def _said(name: str, products: torch.Tensor) -> str:
    fitting = [period for period in PERIODS if 2 * period <= len(products)]
    return "\n".join([name, *(f"stripes of {p}: {stripes(products, p):+.2f}" for p in fitting)])


def _with_settings(model: Model, run: Run, settings: Sequence[str]) -> Model:
    """The model with other values of options, by which it may lose parameters."""
    chosen = with_settings(run.config.encodings, settings, run.path.parent)
    found = Model(replace(model.config, encodings=chosen.encodings))
    for name, tensor in found.params.items():
        own = model.params.get(name)
        if own is not None and own.shape == tensor.shape:
            tensor.copy_(own)
        elif tensor.numel():
            raise ReproduceError(
                f"{', '.join(settings)}: {name} has shape {list(tensor.shape)} with it, which the "
                f"run {run.path.parent} does not hold"
            )
    return found


def gram(tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """[heads, positions, positions] of the products of the two tables of a run, rows of
    queries first."""
    query, key = (tensor[0].double() for tensor in tensors.values())
    return query @ key.transpose(-1, -2)


def stripes(products: torch.Tensor, period: int) -> float:
    """How far products of positions a multiple of ``period`` apart stand out from those of
    positions half a period nearer or farther, in standard deviations of all: the height of a
    wave of that period. What changes evenly with a position or the distance counts as 0, and
    so does what positions are to themselves."""
    count, half = len(products), period // 2
    if count < 2 * period:
        raise ValueError(f"stripes of {period} take {2 * period} positions, got {count}")
    around = (products[:, : -2 * half] + products[:, 2 * half :]) / 2
    bent = products[:, half:-half] - around
    apart = (torch.arange(count)[:, None] - torch.arange(half, count - half)).abs()
    at, between = (
        bent[(apart % period == phase) & (apart >= period)].mean() for phase in (0, half)
    )
    return ((at - between) / 4 / products.std()).item()
