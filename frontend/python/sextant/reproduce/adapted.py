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

# Training lengths that the piece of text has, and the layer that is drawn.
MULTIPLE = 4
LAYER = 1


@dataclass(frozen=True)
class Adapted:
    """By head, a number for each key up to the query: the score as it is scaled, what the
    hosts add to it, and what the network adds to both."""

    scores: torch.Tensor
    host: torch.Tensor
    added: torch.Tensor


def adapted_biases(folder: Path) -> str:
    """The curves of the last query of a held-out piece, as an <svg> element."""
    with open_run(folder) as (model, run):
        length = MULTIPLE * model.config.length
        layer = min(LAYER, model.config.layers - 1)
        tokens = run.held_out().validation[:length]
        found = adapted(model, tokens, layer, length - 1)
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
