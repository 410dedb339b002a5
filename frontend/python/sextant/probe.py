"""What encodings do, read off attention without knowing them.

A row that sees one key has that key's mapped score as its log-sum-exp. Over all
keys, values that are unit vectors give the row of probabilities, whose logarithm
plus the log-sum-exp are the mapped scores. Definitions are run literally, in
float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from .attention_function import attention
from .definitions import EncodingLike, signature

Params = Mapping[str, torch.Tensor]

_INSIDE = {"query", "key", "value"}


def is_in_attention(encoding: EncodingLike) -> bool:
    """Whether all that an encoding does is done inside attention."""
    return not signature([encoding]).operands - _INSIDE


def _with_past(encodings: Iterable[EncodingLike]) -> list[EncodingLike]:
    """The encodings, behind a mask where they ask for one."""
    found = list(encodings)
    return ["causal", *found] if signature(found).requires_past else found


def pair_scores(
    encodings: Iterable[EncodingLike],
    params: Params,
    query: torch.Tensor,
    key: torch.Tensor,
    distances: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """[heads, n] of the mapped scores of n pairs, each a row with one key.

    ``query`` and ``key`` are [n or 1, heads, head dim]; ``distances`` [n, axes] is how
    far the key stands before the query, which has the largest distance as its
    position.
    """
    count = len(distances)
    last = distances.amax(0).expand_as(distances)
    rows = [t.double().expand(count, -1, -1)[:, :, None] for t in (query, key)]
    with torch.no_grad():
        _, lse = attention(
            rows[0],
            rows[1],
            rows[1],
            _with_past(encodings),
            in_double(params),
            query_positions=last[:, None].to(torch.int32),
            key_positions=(last - distances)[:, None].to(torch.int32),
            scale=scale,
            return_lse=True,
            enable_gqa=True,
            target="reference",
        )
    return lse[:, :, 0].T.contiguous()


def along(length: int, axis: int = 0) -> torch.Tensor:
    """Distances 0, 1, ... on one of two axes, [length, 2]."""
    distances = torch.zeros(length, 2, dtype=torch.int64)
    distances[:, axis] = torch.arange(length)
    return distances


def bias_over_distance(
    encodings: Iterable[EncodingLike],
    params: Params,
    *,
    heads: int,
    head_dim: int,
    distances: int,
) -> torch.Tensor | None:
    """[heads, distances] of what is added to a score of 0 at distance 0, 1, ...
    before the query at position distances - 1; None when the encodings add nothing
    or need parameters of the caller. ``params`` may hold more than these need."""
    return _bias(encodings, params, heads, head_dim, along(distances))


def grid_steps(reach: int) -> torch.Tensor:
    """Distances of rows and columns from -reach to reach, row by row, [n, 2]."""
    steps = torch.arange(-reach, reach + 1)
    return torch.cartesian_prod(steps, steps)


def bias_over_grid(
    encodings: Iterable[EncodingLike],
    params: Params,
    *,
    heads: int,
    head_dim: int,
    reach: int,
) -> torch.Tensor | None:
    """[heads, rows, columns] of what is added to a score of 0 where the key stands -reach to
    reach rows and columns before the query; None as of `bias_over_distance`."""
    bias = _bias(encodings, params, heads, head_dim, grid_steps(reach))
    return None if bias is None else bias.unflatten(1, (2 * reach + 1, -1))


def _bias(
    encodings: Iterable[EncodingLike],
    params: Params,
    heads: int,
    head_dim: int,
    distances: torch.Tensor,
) -> torch.Tensor | None:
    encodings = list(encodings)
    found = signature(encodings)
    if any(p.given for p in found.params) or found.operands - _INSIDE:
        return None
    zeros = torch.zeros(1, heads, head_dim)
    own = {n: t for n, t in params.items() if n in found.by_name}
    bias = pair_scores(encodings, own, zeros, zeros, distances)
    if not bool(torch.isfinite(bias).all()) or not bool((bias != bias[:, :1]).any()):
        return None
    return bias


def mapped_scores(
    encodings: Iterable[EncodingLike],
    params: Params,
    query: torch.Tensor,
    key: torch.Tensor,
    positions: torch.Tensor | None = None,
) -> torch.Tensor:
    """[heads, queries, keys] of the mapped scores of query [heads, queries, head
    dim] and key [kv heads, keys, head dim]; minus infinity where a key is hidden or
    its probability is 0 in float64. Encodings' parameters are those of values that are
    as wide as keys."""
    kv_heads, count, dim = key.shape
    # Values have as many lanes as keys, and a part of the keys at a time. The last
    # part is of zeros: its output is what encodings add to outputs themselves.
    parts = -(-count // dim)
    units = torch.zeros(parts + 1, count, dim, dtype=torch.float64)
    keys = torch.arange(count)
    units[keys // dim, keys, keys % dim] = 1.0
    with torch.no_grad():
        output, lse = attention(
            query.double().expand(parts + 1, -1, -1, -1),
            key.double().expand(parts + 1, -1, -1, -1),
            units[:, None].expand(-1, kv_heads, -1, -1),
            _with_past(encodings),
            in_double(params),
            query_positions=positions,
            key_positions=positions,
            return_lse=True,
            enable_gqa=True,
            target="reference",
        )
    probabilities = (output[:-1] - output[-1:]).movedim(0, -2).flatten(-2)[..., :count]
    return probabilities.clamp_min(0.0).log() + lse[0, ..., None]


def added_scores(
    encodings: Sequence[EncodingLike],
    index: int,
    params: Params,
    query: torch.Tensor,
    key: torch.Tensor,
    positions: torch.Tensor | None = None,
) -> torch.Tensor:
    """[heads, queries, keys] of what encoding ``index`` of a list adds to the scores
    that those before it leave; NaN where a key is hidden. ``params`` may hold more
    than these need."""
    found = []
    for end in (index + 1, index):
        uses = list(encodings[:end])
        names = signature(uses).by_name
        own = {n: t for n, t in params.items() if n in names}
        found.append(mapped_scores(uses, own, query, key, positions))
    return found[0] - found[1]


def in_double(params: Params) -> dict[str, torch.Tensor]:
    """Parameters as the reference takes them in float64."""
    return {
        n: t.detach().double() if t.dtype.is_floating_point else t for n, t in params.items()
    }
