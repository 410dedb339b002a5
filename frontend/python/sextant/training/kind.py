"""What is particular to models of one kind of data.

The loop, checkpoints and the command line ask a `Kind` and know no data. `kinds` has
one for each value of `TrainConfig.model`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import torch

from ..memory import gibibytes, memory_limit
from .compiled import CompiledModel, ModelError
from .config import TrainConfig


class Data(Protocol):
    """What a model is trained on. ``source`` says where it is from, ``digest`` is a
    SHA-256 by which it is recognised."""

    @property
    def source(self) -> str: ...

    @property
    def digest(self) -> str: ...


D = TypeVar("D", bound=Data)


class Kind(ABC, Generic[D]):
    """Models of one kind of data.

    ``noun``: what errors call the data, by which a checkpoint stores its digest;
    ``another``, ``be`` and ``have`` are what English makes of it.
    ``held_out_names``: the tensors of `held_out`. ``extents``: settings by which a step
    grows.
    """

    noun: str
    another: str
    be: str
    have: str
    held_out_names: tuple[str, ...]
    extents: str

    @abstractmethod
    def check_uses(self, config: TrainConfig) -> None:
        """Encodings that such a model cannot be trained with are a `ModelError`."""

    @abstractmethod
    def training_bytes(self, config: TrainConfig) -> int:
        """About what a training takes at least."""

    def check_memory(self, config: TrainConfig) -> None:
        """Settings whose training cannot fit into memory are a `ModelError`."""
        needed, limit = self.training_bytes(config), memory_limit()
        if needed > limit:
            raise ModelError(
                f"a model of {config.layers} layers of width {config.width} and a step of "
                f"{self.step_size(config)} take about {gibibytes(needed)}, there are "
                f"{gibibytes(limit)}; take a smaller {self.extents}, width or number of layers"
            )

    @abstractmethod
    def load(self, config: TrainConfig) -> D:
        """The data of a training; what is wrong with it is a `DataError`."""

    def completed(self, config: TrainConfig, data: D) -> TrainConfig:
        """The settings with what the data says of them."""
        return config

    @abstractmethod
    def digest(self, config: TrainConfig) -> str:
        """The digest of the data as it is now; a `DataError` if it is not here."""

    @abstractmethod
    def model(self, config: TrainConfig) -> CompiledModel:
        """A new model."""

    def check_model(self, model: Any) -> None:
        """A model that would learn what it is not to, or that cannot be run where steps of
        its training may be, is a `ModelError`; the bits of its training stay as they were."""
        model.check_farthest()

    @abstractmethod
    def batch(
        self, config: TrainConfig, data: D, step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and labels of a step, counted from 0: a pure function of seed and step,
        so that a resumed run sees the same."""

    @abstractmethod
    def validation_loss(self, model: Any, data: D) -> float:
        """The mean loss on some of the held-out data, always the same of it; a training
        goes on from it with the bits that it would have had without."""

    @abstractmethod
    def held_out(self, data: D) -> dict[str, torch.Tensor]:
        """What a checkpoint stores of the data, so that an evaluation needs no more."""

    @abstractmethod
    def restored(self, tensors: Mapping[str, torch.Tensor], source: str, digest: str) -> D:
        """The data as far as a checkpoint has stored it."""

    @abstractmethod
    def data_line(self, data: D) -> str:
        """The data, for a person."""

    @abstractmethod
    def step_size(self, config: TrainConfig) -> str:
        """How much of the data a step takes, for a person."""

    def position_lines(self, config: TrainConfig) -> list[str]:
        """Which positions steps have if they do not begin at 0, for a person."""
        return []
