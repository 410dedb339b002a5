"""Lengths of the prefixes of a text's blocks, as prefix language models have them."""

import torch


def given(tokens, options, seed, step, *, length=0):
    """Every block has a prefix of ``length`` tokens or, for 0, one of a length drawn from 1
    to all but one token. Of what the prefix shows to itself nothing is to predict: the
    first token behind it is the first that counts."""
    batch, size = tokens.shape
    if length < 0:
        raise ValueError(f"a prefix has at least 1 token, or 0 for a length that is drawn, got {length}")
    if length >= size or size < 2:
        raise ValueError(f"a prefix of {max(length, 1)} tokens leaves none to predict in a block of {size}")
    draw = torch.Generator().manual_seed((seed << 32) + step)
    drawn = torch.randint(1, size, (batch,), generator=draw)
    lengths = torch.full_like(drawn, length) if length else drawn
    # Token t is to predict token t + 1.
    counted = torch.arange(1, size + 1) >= lengths[:, None]
    return {"length": lengths.to(torch.int32), "counted": counted}
