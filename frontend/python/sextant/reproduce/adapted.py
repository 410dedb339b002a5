"""What an encoding of all heads adds for one query of a text: the scores, the terms of its
hosts, and what its network makes of both, over the distance of keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from .. import definitions, probe
from ..models.places import acts_in
from ..report import figures
from ..training.model import uses_of
from ..training.state import open_run
from ..uses import parse_use
from .listing import ReproduceError

# Training lengths that a piece of text has, and the layer that is drawn.
MULTIPLE = 4
LAYER = 1


@dataclass(frozen=True)
class Adapted:
    """By head, a number for each key up to the query: the score as it is scaled, what the
    hosts add to it, and what the network adds to both."""

    scores: torch.Tensor
    host: torch.Tensor
    added: torch.Tensor


def adapted_biases(folder: Path, query: int | None = None) -> str:
    """The curves of a query of the held-out text, by default the last of a piece of `MULTIPLE`
    training lengths, as an <svg> element."""
    with open_run(folder) as (model, run):
        place = MULTIPLE * model.config.length - 1 if query is None else query
        layer = min(LAYER, model.config.layers - 1)
        text = run.held_out().validation
        if not 0 <= place < len(text):
            raise ReproduceError(
                f"query {place} is not of the held-out text of {folder}, which has "
                f"{len(text)} bytes"
            )
        found = adapted(model, text[: place + 1], layer, place)
    return figures.query_curves(
        {
            "scores": found.scores.tolist(),
            "host": found.host.tolist(),
            "added by the network": found.added.tolist(),
        }
    )


def adapted(model, tokens: torch.Tensor, layer: int, query: int) -> Adapted:
    """What stands before the softmax of a query of a text, counted from 0, in a layer."""
    uses = uses_of(model.config)
    shown = next(u for u in uses if definitions.signature([u]).all_heads and acts_in(u, layer))
    use = parse_use(shown)
    rows = model.attention_rows(tokens)[layer]
    own, keys = rows[0][:, query : query + 1], rows[1][:, : query + 1]
    params = model.encoding_params(layer)
    masks = [u for u in uses if "mask" in definitions.describe(parse_use(u).encoding).places]
    prefix = f"{use.instance}."
    # A host has its parameters below the encoding that it is in.
    inner = {n.removeprefix(prefix): t for n, t in params.items() if n.startswith(prefix)}
    hosts = [str(replace(host, instance=host.encoding)) for host in use.hosts]

    def mapped(encodings: list[str], values: dict[str, torch.Tensor]) -> torch.Tensor:
        names = definitions.signature(encodings).by_name
        needed = {n: t for n, t in values.items() if n in names}
        return probe.mapped_scores(encodings, needed, own, keys)[:, 0]

    scores = mapped(masks, {})
    with_host = mapped([*masks, *hosts], inner)
    everything = mapped([*masks, shown], params)
    return Adapted(scores, with_host - scores, everything - with_host)
