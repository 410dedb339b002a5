"""Checks of single arguments, whose errors name the argument."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from numbers import Integral
from typing import NamedTuple

import torch

from .errors import nearest


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
    """A tensor where one is expected, under a name of one line."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{label} must be a tensor, got {type(value).__name__}")
    if value.is_nested:
        raise TypeError(
            f"{label} must be a dense tensor, got a nested one ({value.layout}): pad it "
            'with torch.nested.to_padded_tensor, and hide keys that it adds by the encoding "padding"'
        )
    if value.layout != torch.strided:
        raise TypeError(f"{label} must be a dense tensor, got {value.layout}")
    if "\n" in label:
        raise ValueError(f"the name of a parameter has one line, got {label!r}")


def check_flag(label: str, value) -> None:
    """A bool where one is expected."""
    if not isinstance(value, bool):
        raise TypeError(f"{label} must be True or False, got {value!r}")


def check_count(label: str, value, least: int | None = 1) -> None:
    """A whole number that is large enough, if it has to be."""
    if isinstance(value, bool) or not isinstance(value, (Integral, torch.SymInt)):
        raise TypeError(f"{label} must be a whole number, got {value!r}")
    if least is not None and value < least:
        words = "must not be negative" if least == 0 else f"must be at least {least}"
        raise ValueError(f"{label} {words}, got {value}")


def check_choice(settings, name: str, choices: Sequence[str]) -> None:
    """A field of settings that is one of some names."""
    value = getattr(settings, name)
    if value not in choices:
        raise ValueError(f'unknown {name} "{value}"{nearest(value, choices)}')


def check_settings(names: Iterable[str], config: type) -> None:
    """Names of fields of a dataclass of settings."""
    known = [f.name for f in fields(config)]
    for name in names:
        if name not in known:
            raise ValueError(f'unknown setting "{name}"{nearest(name, known)}')


def check_seed(value) -> None:
    """A whole number of 64 bits."""
    check_count("seed", value, least=None)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"seed must fit 64 bits, got {value}")


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
