"""Products of the rows that functions of an encoding make of positions: which positions
are alike for attention."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from ..report import figures
from ..training.state import open_run
from ..training.tables import make_tables

# Training lengths that positions cover.
MULTIPLE = 4


def gram_matrices(folder: Path) -> str:
    """Of a run whose encoding makes a row for queries and one for keys, as an <svg> element."""
    with open_run(folder) as (model, run):
        length = model.config.length
        products = gram(make_tables(model, run, MULTIPLE * length).tensors)
    shown = {"all heads": products.sum(0)}
    shown |= {f"head {head}": rows for head, rows in enumerate(products)}
    return figures.matrices({name: rows.tolist() for name, rows in shown.items()}, length)


def gram(tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """[heads, positions, positions] of the products of the two tables of a run, rows of
    queries first."""
    query, key = (tensor[0].double() for tensor in tensors.values())
    return query @ key.transpose(-1, -2)
