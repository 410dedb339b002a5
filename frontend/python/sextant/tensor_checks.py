"""Checks of tensors among arguments, whose errors name the argument."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Like(NamedTuple):
    """What checks read of a tensor, by which calls are told apart."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Like:
        return cls(tensor.shape, tensor.dtype, tensor.device)

    @property
    def is_meta(self) -> bool:
        return self.device.type == "meta"

    def dim(self) -> int:
        return len(self.shape)


Described = torch.Tensor | Like


def check_tensor(label: str, value) -> None:
    """A tensor where one is expected."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{label} must be a tensor, got {type(value).__name__}")
    if value.is_nested:
        raise TypeError(
            f"{label} must be a dense tensor, got a nested one ({value.layout}): pad it "
            'with torch.nested.to_padded_tensor, and hide keys that it adds by the encoding "padding"'
        )
    if value.layout != torch.strided:
        raise TypeError(f"{label} must be a dense tensor, got {value.layout}")


def check_devices(first: str, tensor: Described, others) -> None:
    """All operands are where the first one is: ``others`` are pairs of a label and a
    tensor or None."""
    for label, other in others:
        if other is None or other.device == tensor.device:
            continue
        cure = (
            "give it values first (to_empty and reset_parameters, or load them)"
            if other.is_meta
            else f'move it with .to("{tensor.device}")'
        )
        raise ValueError(f"{label} is on {other.device}, {first} is on {tensor.device}: {cure}")
