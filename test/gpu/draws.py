"""Random numbers that any machine and any version of PyTorch draw alike.

PyTorch promises no such thing of its generators. A number here is a function of a seed,
a name and its place, in sums and products of integers, which are exact.
"""

import zlib

import torch

# How many uniform numbers are added up to a normal one, whose variance is then 1.
ADDENDS = 12
# Multipliers and shifts of a hash of 32 bits that keeps to 63 bits between its steps
# (Ettinger's search of such hashes: each bit of the input changes half of the output's).
STEPS = ((15, 0x2C1B3C6D), (12, 0x297A2D39))
LAST_SHIFT = 15
MASK = 2**32 - 1


def hashed(words: torch.Tensor) -> torch.Tensor:
    """A hash of 32-bit words, which int64 holds."""
    for shift, factor in STEPS:
        words = ((words ^ (words >> shift)) * factor) & MASK
    return words ^ (words >> LAST_SHIFT)


def normal(seed: int, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Numbers of mean 0 and variance 1 in float64, nearly normal (none beyond 6)."""
    count = torch.Size(shape).numel()
    stream = hashed(torch.tensor((zlib.crc32(name.encode()) ^ seed) & MASK))
    words = hashed(hashed(torch.arange(count * ADDENDS) ^ stream) ^ stream)
    sums = words.reshape(count, ADDENDS).sum(1)
    return ((sums.double() + ADDENDS / 2) / 2**32 - ADDENDS / 2).reshape(shape)
