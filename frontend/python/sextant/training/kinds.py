"""The kinds of models, by `TrainConfig.model`."""

from __future__ import annotations

from .config import GPT, VIT, TrainConfig
from .image_kind import ImageKind
from .kind import Kind
from .text import TextKind

_KINDS: dict[str, Kind] = {GPT: TextKind(), VIT: ImageKind()}


def kind_of(config: TrainConfig) -> Kind:
    """What is particular to models like the one that these settings are of."""
    return _KINDS[config.model]
