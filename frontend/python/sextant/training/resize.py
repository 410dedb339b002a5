"""Images at another size, in trainings and evaluations alike."""

from __future__ import annotations

from typing import overload

import torch
from torch.nn.functional import interpolate

from .disk_file import DiskRows

_AT_ONCE = 1 << 22  # elements


@overload
def resized(images: torch.Tensor, size: int) -> torch.Tensor: ...
@overload
def resized(images: DiskRows, size: int) -> torch.Tensor | DiskRows: ...
def resized(images: torch.Tensor | DiskRows, size: int) -> torch.Tensor | DiskRows:
    """Images uint8 [count, height, width, channels] as squares of a size: bicubic, and
    antialiased where they become smaller (as PyTorch does it), rounded to whole values."""
    if images.shape[1:3] == (size, size):
        return images
    largest = max(images[0].numel(), size * size * images.shape[3])
    parts = []
    for part in images.split(max(_AT_ONCE // largest, 1)):
        pixels = interpolate(
            part.permute(0, 3, 1, 2).float(),
            size=(size, size),
            mode="bicubic",
            align_corners=False,
            antialias=True,
        )
        parts.append(pixels.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1))
    return torch.cat(parts)
