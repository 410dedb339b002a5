"""A step of decoding: one query per head against the keys and values of a cache, which
is as many bytes as it has operations or more. Against `scaled_dot_product_attention`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from rows import DTYPES, Row, Settings, forward
from timing import Rounds

import sextant

# Batch, heads, heads of keys, keys, head dim.
SHAPES = [(1, 32, 32, 4096, 128), (8, 32, 8, 2048, 128), (1, 32, 8, 16384, 128), (64, 12, 12, 256, 64)]


def decode(settings: Settings) -> Iterator[Row]:
    """Against PyTorch on the same rows; bytes of keys and values per second."""
    section = "decode vs scaled_dot_product_attention"
    for shape in SHAPES:
        batch, heads, kv_heads, keys, dim = shape
        for dtype in DTYPES:
            work = f"{shape} {dtype} one query"
            if not settings.wants(work):
                continue
            query = torch.randn(batch, heads, 1, dim).to(DTYPES[dtype])
            key, value = (
                torch.randn(batch, kv_heads, keys, dim).to(DTYPES[dtype]) for _ in range(2)
            )

            def ours():
                return sextant.attention(query, key, value, enable_gqa=True)

            def torchs():
                return torch.nn.functional.scaled_dot_product_attention(
                    query, key, value, enable_gqa=True
                )

            candidates = {"ours": forward(ours), "torch": forward(torchs)}
            rounds = Rounds(candidates, settings.rounds)
            rate = sum(r.numel() * r.element_size() for r in (key, value)) / rounds.median("ours")
            note = f"{rate / 1e9:.1f} GB/s of keys and values"
            yield settings.ratio(section, work, rounds, "ours", "torch", 1.0, note)
