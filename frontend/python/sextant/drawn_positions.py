"""Randomised positions (Ruoss et al. 2023, Randomized Positional Encodings, section 3)."""

from __future__ import annotations

import torch

from .checks import check_count


def random_positions(
    length: int, max_length: int, generator: torch.Generator | None = None
) -> torch.Tensor:
    """A sorted draw of ``length`` different positions below ``max_length``, int32
    (length): positions for any encoding, for queries and keys alike, as
    ``query_positions`` and ``key_positions`` of `sextant.attention` take them.

    The paper draws anew at every attention call, one draw for the whole batch, also
    in evaluation, and keeps ``max_length`` above every length to be met.

    Raises ValueError if ``length`` is negative or larger than ``max_length``.
    """
    for name, value in (("length", length), ("max_length", max_length)):
        check_count(name, value, least=None)
    if not 0 <= length <= max_length:
        raise ValueError(
            f"cannot draw {length} different positions below {max_length}: max_length "
            "must be at least the longest sequence"
        )
    drawn = torch.randperm(max_length, generator=generator)[:length]
    return drawn.sort().values.to(torch.int32)
