"""The kinds of models, by `TrainConfig.model`."""

from __future__ import annotations

from .config import TrainConfig
from .kind import Kind
from .text import TextKind

_KINDS: dict[str, Kind] = {"gpt": TextKind()}


def kind_of(config: TrainConfig) -> Kind:
    """What is particular to models like the one that these settings are of."""
    return _KINDS[config.model]
