"""What a run stores: enough to go on, and to be evaluated anywhere.

Besides parameters and the optimizer's state, a checkpoint holds the settings, the
held-out data, the digest of the whole data, and the definitions of its encodings.
"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from .. import definitions
from ..errors import NOT_FINITE, RunError
from ..report.results import CHECKPOINT
from ..revision import revision
from .checkpoint import Checkpoint, CheckpointError, read_checkpoint, write_checkpoint
from .compiled import CompiledModel
from .config import TrainConfig
from .data import DataError
from .kind import Data, Kind
from .kinds import kind_of
from .model import uses_of
from .settings import SettingError, Settings, with_settings


class NotFiniteError(RunError):
    """A parameter, or what the optimizer knows of it, is NaN or infinite."""


def save(
    model: CompiledModel,
    data: Data,
    found: Definitions,
    step: int,
    path: Path,
    extended: list,
    more: Mapping[str, str],
) -> None:
    """Writes the state of a run after ``step`` steps, with ``more`` metadata, unless a number
    of it is not finite: then the checkpoint before stays, and the error names the tensor."""
    tensors = {f"param/{n}": t.cpu() for n, t in model.params.items()}
    tensors |= {f"state/{n}": t.cpu() for n, t in model.state.items()}
    if bad := not_finite(tensors):
        raise NotFiniteError(
            f"after step {step}, {bad}; {path} keeps what it held before, if anything; {NOT_FINITE}"
        )
    kind = kind_of(model.config)
    tensors |= kind.held_out(data)
    metadata = {
        **more,
        "config": model.config.dump(),
        "step": str(step),
        kind.noun: data.digest,
        "source": data.source,
        "definitions": json.dumps(found.texts),
        "samplers": json.dumps(found.samplers),
        "extended": json.dumps(extended),
        "revision": revision(),
        "saved": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }
    write_checkpoint(path, Checkpoint(tensors, metadata))


def not_finite(tensors: dict[str, torch.Tensor]) -> str:
    """Says which tensor holds what is not finite; empty when all are."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not (fine := torch.isfinite(tensor)).all():
            kind, _, rest = name.partition("/")
            what = "parameter" if kind == "param" else "the optimizer's"
            count = int((~fine).sum())
            return f'{what} "{rest}" is not finite ({count} of {tensor.numel()} elements)'
    return ""


# Definitions -----------------------------------------------------------------------


@dataclass(frozen=True)
class Definitions:
    """Texts of a run's definitions, and of the samplers beside them, by name, and what of
    them is another than what is installed here (``resampled``: only the sampler)."""

    texts: dict[str, str]
    samplers: dict[str, str]
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    resampled: tuple[str, ...] = ()

    @classmethod
    def installed(cls, config: TrainConfig) -> Definitions:
        texts = definitions.texts(uses_of(config))
        return cls(texts, definitions.sampler_texts(texts))

    @classmethod
    def stored(cls, texts: dict[str, str], samplers: dict[str, str]) -> Definitions:
        here = {name: definitions.text_of(name) for name in texts}
        beside = definitions.sampler_texts(texts)
        same = [n for n in texts if here[n] == texts[n]]
        return cls(
            texts,
            samplers,
            tuple(n for n in texts if here[n] not in (None, texts[n])),
            tuple(n for n in texts if here[n] is None),
            tuple(n for n in same if n in samplers and samplers[n] != beside.get(n)),
        )

    def used(self) -> contextlib.AbstractContextManager:
        """Inside, names mean these texts."""
        own = {n: self.texts[n] for n in (*self.changed, *self.missing, *self.resampled)}
        return definitions.defined(own, self.samplers) if own else contextlib.nullcontext()

    @property
    def notes(self) -> list[str]:
        notes = [f'the definition of "{n}" has changed since the training' for n in self.changed]
        notes += [f'"{n}" is not installed here, or its file is damaged' for n in self.missing]
        notes = [f"{note}: the run's own definition is used" for note in notes]
        notes += [
            f'the sampler of "{n}" has changed since the training: the run\'s own sampler is used'
            for n in self.resampled
        ]
        return notes


# Reading -----------------------------------------------------------------------------


@dataclass
class Run:
    """A run that was read: ``step`` finished steps, and the ``digest`` of its data.
    ``extended``: pairs of the step at which the number of steps was raised, and that
    number before. ``settings``: other options that it is opened with. ``notes`` say in
    what the run differs from what is here."""

    config: TrainConfig
    checkpoint: Checkpoint
    path: Path
    definitions: Definitions
    extended: list[list[int]]
    settings: Settings = field(default_factory=Settings)

    @property
    def kind(self) -> Kind:
        return kind_of(self.config)

    @property
    def step(self) -> int:
        return self.checkpoint.step

    @property
    def digest(self) -> str:
        return self.checkpoint.metadata[self.kind.noun]

    @property
    def source(self) -> str:
        return self.checkpoint.metadata["source"]

    @property
    def provenance(self) -> dict:
        """Where the run is from, as a report names it."""
        stored = self.checkpoint.metadata
        names = ("source", "revision", "saved")
        return {n: stored[n] for n in names} | {
            self.kind.noun: self.digest,
            "step": self.step,
            "extended": self.extended,
            "checkpoint": self.path.name,
        }

    def held_out(self) -> Any:
        """The held-out data that the run stores, as its kind has it (`Text` of a GPT); of
        the rest only the digest."""
        return self.kind.restored(self.checkpoint.tensors, self.source, self.digest)

    def notes(self) -> list[str]:
        return [*self.settings.notes, *self.definitions.notes, *self._data_notes()]

    def _data_notes(self) -> list[str]:
        end, kind = "the held-out part that the run stores is used", self.kind
        try:
            digest = kind.digest(self.config)
        except DataError as error:
            return [f"the {kind.noun} {kind.be} not here ({error}): {end}"]
        if digest != self.digest:
            return [
                f"the {kind.noun}, {self.source}, {kind.have} changed since the training: {end}"
            ]
        return []

    def load_into(self, model: CompiledModel, made: Container[str] = ()) -> None:
        """Copies parameters, but for those that stay as the model ``made`` them, and the
        optimizer's state into a model of the same settings."""
        for label, own in (("param", model.params), ("state", model.state)):
            stored = self.checkpoint.part(label)
            if set(stored) != set(own):
                missing = ", ".join(sorted(set(own) ^ set(stored))[:4])
                raise CheckpointError(f"{self.path} does not fit the model: {missing} ...")
            for name, tensor in stored.items():
                if tensor.shape != own[name].shape or tensor.dtype != own[name].dtype:
                    raise CheckpointError(
                        f"{self.path} does not fit the model: {name} is {tuple(tensor.shape)}, "
                        f"expected {tuple(own[name].shape)}"
                    )
                if name not in made:
                    own[name].copy_(tensor)


def read_state(path: str | Path) -> Run:
    """A run's checkpoint, by its file or folder; raises `CheckpointError`."""
    path = Path(path)
    if path.is_dir():
        path = path / CHECKPOINT
    checkpoint = read_checkpoint(path)
    stored = checkpoint.metadata
    try:
        config = TrainConfig.load(stored["config"])
        # Runs of encodings without samplers may be older than these.
        samplers = json.loads(stored.get("samplers", "{}"))
        found = Definitions.stored(json.loads(stored["definitions"]), samplers)
        run = Run(config, checkpoint, path, found, json.loads(stored["extended"]))
        held_out = run.kind.held_out_names
        for name in held_out:
            if name not in checkpoint.tensors or not run.provenance:
                raise KeyError(name)
    except KeyError as error:
        raise CheckpointError(
            f"{path} is not a checkpoint of a training run: it lacks {error}"
        ) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} has settings of another version: {error}") from None
    if bad := not_finite({n: t for n, t in checkpoint.tensors.items() if n not in held_out}):
        raise CheckpointError(f"{path} is of a run that failed: {bad}")
    return run


@contextlib.contextmanager
def open_run(
    path: str | Path,
    target: str | None = None,
    settings: Sequence[str] = (),
    given: Sequence[str] = (),
) -> Iterator[tuple[Any, Run]]:
    """A run and its model (`Model` of a GPT), with other values of encodings' options if
    ``settings`` say so, and of what makes the tensors that they are given if ``given`` does.
    Inside, names of encodings mean what they meant in the training."""
    run = read_state(path)
    config = replace(run.config, target=target) if target else run.config
    with run.definitions.used():
        if settings:
            run.settings = with_settings(config.encodings, settings, run.path.parent)
            config = replace(config, encodings=run.settings.encodings)
        if given:
            run.settings = run.settings.with_given(given, config.given)
            config = replace(config, given=(*config.given, *given))
        model = run.kind.model(config)
        # Of the encodings' definitions, not of the run's choice of what it trains.
        made = {p.name for p in definitions.signature(uses_of(config)).params if not p.trained}
        frozen = {n for n in model.params if any(n.endswith(f".{m}") for m in made)}
        try:
            run.load_into(model, {n for n in frozen if run.settings.concern(n)})
        except CheckpointError as error:
            if settings:
                raise SettingError(f"{', '.join(settings)}: other parameters: {error}") from None
            raise
        yield model, run
