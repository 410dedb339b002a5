"""What encodings add to a score, read off attention.

With zero queries and one key, a row's log-sum-exp is the mapped score itself. A
batch of such rows, at positions 0, -1, -2, ... of the key, gives the bias over
distance of any encoding, without knowing it. The definition is run literally.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from ..attention import attention
from ..definitions import EncodingLike, signature


def bias_over_distance(
    encodings: Iterable[EncodingLike],
    params: Mapping[str, torch.Tensor],
    *,
    heads: int,
    head_dim: int,
    distances: int,
) -> torch.Tensor | None:
    """[heads, distances] of what is added to a score of 0 at distance 0, 1, ...;
    None when the encodings add nothing or need parameters of the caller."""
    encodings = list(encodings)
    found = signature(encodings)
    if any(p.given for p in found.params) or found.operands - {"query", "key", "value"}:
        return None
    row = torch.zeros(distances, heads, 1, head_dim)
    here = torch.arange(distances, dtype=torch.int32).reshape(-1, 1, 1)
    with torch.no_grad():
        _, lse = attention(
            row,
            row,
            row,
            encodings,
            dict(params),
            query_positions=here,
            key_positions=torch.zeros_like(here),
            return_lse=True,
            target="reference",
        )
    bias = lse[:, :, 0].T.contiguous()
    if not bool(torch.isfinite(bias).all()) or not bool((bias != bias[:, :1]).any()):
        return None
    return bias
