"""What encodings of all heads add to the scores of a text, in a trained model.

The bias depends on the scores, so it is shown for a text: queries and keys come from
the model, the rest is the definition, run literally.
"""

from __future__ import annotations

import torch

from .. import definitions, probe
from ..models.places import acts_in
from ..panels import printable
from .data import Text
from .given import hides_given
from .model import Model, uses_of

LENGTH = 64


def adaptive_biases(model: Model, text: Text, longest: int = LENGTH) -> list[dict]:
    """For each use with a score of all heads, for the beginning of the held-out text, of at
    most ``longest`` bytes: ``use``, ``text``, and ``layers``, by layer and head a list of rows, of which row i
    is what is added to the scores of keys 0 .. i."""
    uses = [u for u in uses_of(model.config) if probe.is_in_attention(u) and not hides_given(u)]
    shown = [i for i, use in enumerate(uses) if definitions.signature([use]).all_heads]
    if not shown:
        return []
    tokens = text.validation[: min(LENGTH, longest)]
    layers = model.attention_rows(tokens)
    letters = printable(bytes(tokens.tolist()))
    return [
        {
            "use": uses[index],
            "text": letters,
            "layers": [_rounded(_added(model, uses, index, *row)) for row in enumerate(layers)],
        }
        for index in shown
    ]


def _added(model: Model, uses: list[str], index: int, layer: int, rows) -> torch.Tensor:
    query, key, positions = rows
    if not acts_in(uses[index], layer):
        return torch.zeros(len(query), query.shape[1], key.shape[1])
    here = [use for use in uses if acts_in(use, layer)]
    place = here.index(uses[index])
    return probe.added_scores(here, place, model.encoding_params(layer), query, key, positions)


def _rounded(added: torch.Tensor) -> list[list[list[float]]]:
    """Rows of what is visible: [heads][query][key]."""
    return [
        [[round(v, 4) for v in row[: i + 1]] for i, row in enumerate(head)]
        for head in added.nan_to_num().tolist()
    ]
