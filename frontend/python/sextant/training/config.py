"""Settings of a training run."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ..checks import check_choice, check_settings
from ..models.blocks import DTYPES, INDEX, RESIDUALS, STYLES, check_gelu
from ..models.groups import Group
from ..models.vit import CLASS_POSITIONS, GRID, HEADS
from ..trace.tracer import Encoding
from ..uses import Use, parse_setting

# Stands for the empty list of encodings (NoPE).
NONE = "none"
# Kinds of models (`kinds`).
GPT, VIT = MODELS = ("gpt", "vit")
# What hides later tokens from a model of language.
MASK = "causal"
# Settings that one kind of model has.
_OF_TEXT = ("length", "mask", "given", "validation", "validation_data")
_OF_IMAGES = (
    "size", "channels", "classes", "patch", "head", "class_position", "positions", "flip", "crop",
    "label_smoothing", "mixup",
)  # fmt: skip
# Settings of several texts, some of them paths.
_PATHS = ("data", "validation_data")
_LISTS = ("encodings", *_PATHS, "groups", "train", "given")
# Settings that a kind of model does not have.
FOREIGN = {GPT: _OF_IMAGES, VIT: _OF_TEXT}


@dataclass
class TrainConfig:
    """What defines a run: two runs of equal settings give the same weights.

    ``model``: "gpt" on text, or "vit" on images.
    ``encodings``: uses in order ("none" alone is the empty list), behind the ``mask``
    that hides later tokens ("none" where the encodings do). ``style``: "gpt2" or "llama".
    ``gelu``: of a gpt2 block, "tanh" or "erf"; ``dtype``: of what is multiplied, "f32" or
    "bf16" (`models.gpt.Config`).
    ``length``: tokens of a training block. ``warmup``: steps of linear warm-up; then the
    rate falls linearly to ``final`` times its peak ``lr``.
    ``residual``: initial scale of the residual stream's weights, "scaled" or "plain"
    (`models.gpt.Config`). ``clip``: bound on the global norm of the gradients.
    ``groups``: settings of the optimizer for some parameters, as ``fire: rate=0.5``
    (`models.groups.Group`); ``train``: patterns of the parameters that are trained, none
    for all. ``init``: the folder of a run whose parameters this one begins with.
    ``max_position``: not 0 for random positions below it, in training and evaluation,
    drawn for each layer, or for the whole model if ``positions_per`` is "model";
    ``positions_beyond``: what a sequence of an evaluation that is longer than that has, "error"
    if it is refused, or "index" for its indices.
    ``shift``: the probability that positions of a training step are shifted windows, one
    for the batch or, if ``shift_per`` is "sample", one for each sample, of positions below
    ``shift_range``; ``shift_windows`` of them are drawn at the start, 0 for new ones at
    every step (`shift.Shift`). ``given``: settings of what makes tensors that encodings
    are given, as ``NAME.separator=#`` (`given`). ``shared``: layers share the parameters of
    encodings. ``validation``: bytes that are held out, 0 for the first 64 KiB of the last
    5 %, or of ``validation_data`` if that is named. ``validate_every``: steps after which the
    loss on some of what is held out is taken, and the best checkpoint kept; 0 for never.

    Of a model of images, ``size`` is the side of its training images, and they have
    ``channels`` and ``classes``: 0 for what the data has, which a run then stores.
    ``patch``, ``head``, ``class_position`` and ``positions`` ("grid" or "index") are those of
    `models.vit.Config`. ``flip``: the probability that left and right of an image are
    exchanged; ``crop``: the black margin of which an image is cut out anew; ``label_smoothing``:
    the share of a target that all classes have; ``mixup``: not 0 for mixing images in
    ratios of the beta distribution of this parameter (`augment`).
    """

    model: str = "gpt"
    encodings: tuple[str, ...] = ()
    style: str = "gpt2"
    gelu: str = "tanh"
    dtype: str = "f32"
    layers: int = 4
    width: int = 128
    heads: int = 4
    kv_heads: int = 0
    length: int = 128
    batch: int = 32
    steps: int = 400
    lr: float = 2e-3
    warmup: int = 50
    final: float = 0.1
    clip: float = 1.0
    residual: str = "scaled"
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    max_position: int = 0
    positions_per: str = "layer"
    positions_beyond: str = "error"
    shift: float = 0.0
    shift_per: str = "batch"
    shift_range: int = 20000
    shift_windows: int = 320
    size: int = 0
    channels: int = 0
    classes: int = 0
    patch: int = 4
    head: str = "class"
    class_position: str = "origin"
    positions: str = "grid"
    flip: float = 0.0
    crop: int = 0
    label_smoothing: float = 0.0
    mixup: float = 0.0
    mask: str = MASK
    given: tuple[str, ...] = ()
    shared: bool = False
    seed: int = 0
    data: tuple[str, ...] = ()
    validation: int = 0
    validation_data: tuple[str, ...] = ()
    validate_every: int = 0
    groups: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    init: str = ""
    target: str = "cpu"

    def __post_init__(self):
        check_choice(self, "model", MODELS)
        for name in _LISTS:
            setattr(self, name, _listed(name, getattr(self, name)))
        if self.encodings == (NONE,):
            self.encodings = ()
        if NONE in self.encodings:
            others = ", ".join(e for e in self.encodings if e != NONE)
            raise ValueError(f'"{NONE}" means no encoding and stands alone, got {others} with it')
        if self.model == GPT and self.mask in self.encodings:
            raise ValueError(
                f'"{self.mask}" is the mask already, which stands before the encodings: leave it out '
                f"of them, or set mask {NONE}"
            )
        for setting in self.given:
            parse_setting(setting)
        for group in self.groups:
            Group.parse(group)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, int) and not 0 <= value < 2**31:
                raise ValueError(
                    f"{field.name} must not be negative and less than 2^31, got {_short(value)}"
                )
        for name in ("layers", "width", "heads", "length", "patch", "batch", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.width % self.heads:
            raise ValueError(
                f"width {self.width} is not a multiple of heads {self.heads}"
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(
                f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}"
            )
        check_choice(self, "style", STYLES)
        check_gelu(self.gelu, self.style)
        check_choice(self, "dtype", DTYPES)
        check_choice(self, "residual", RESIDUALS)
        for name in ("lr", "clip", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(
                    f"{name} must be finite and not negative, got {getattr(self, name)}"
                )
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        if not 0 <= self.final <= 1:
            raise ValueError(f"final must be in [0, 1], got {self.final}")
        check_choice(self, "positions_per", ("layer", "model"))
        check_choice(self, "positions_beyond", ("error", "index"))
        self._check_kind()
        self._check_positions()
        self._check_shift()

    def _check_kind(self) -> None:
        """Settings of the other kind of model are refused, and those of images checked."""
        other, what = FOREIGN[self.model], "images" if self.model == GPT else "text"
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in other and value != field.default:
                raise ValueError(
                    f"{field.name} {_spelled(value)} is a setting of models of {what}, which a "
                    f"{self.model} is not: leave it out"
                )
        check_choice(self, "head", HEADS)
        check_choice(self, "class_position", tuple(CLASS_POSITIONS))
        check_choice(self, "positions", (GRID, INDEX))
        if not 0 <= self.flip <= 1:
            raise ValueError(f"flip is a probability, at least 0 and at most 1, got {self.flip}")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"label_smoothing is a share, at least 0 and less than 1, got "
                f"{self.label_smoothing}"
            )
        if not 0 <= self.mixup < math.inf:
            raise ValueError(f"mixup must be finite and not negative, got {self.mixup}")
        if self.size % self.patch:
            below = self.size // self.patch * self.patch
            near = f"{below} or {below + self.patch}" if below else f"{self.patch}"
            raise ValueError(
                f"images of {self.size} x {self.size} are not divided by patch {self.patch}: take "
                f"another patch, or a size of {near}"
            )

    def _check_positions(self) -> None:
        if 0 != self.max_position < self.reach:
            raise ValueError(
                f"max_position {self.max_position} is less than {self._reach_name} {self.reach}"
            )
        if self.positions == "index" and (self.max_position or self.shift):
            name = "max_position" if self.max_position else "shift"
            raise ValueError(
                f'{name} {getattr(self, name)} takes rows and columns of patches: positions "index" '
                "has none"
            )

    @property
    def reach(self) -> int:
        """How many positions there are along an axis; 0 of images whose size is not known."""
        return self.length if self.model == GPT else self.size // self.patch

    @property
    def _reach_name(self) -> str:
        return "length" if self.model == GPT else "the patches of a row,"

    @property
    def has_soft_targets(self) -> bool:
        """Whether labels of steps are shares of classes."""
        return bool(self.label_smoothing or self.mixup)

    def _check_shift(self) -> None:
        if not 0 <= self.shift <= 1:
            raise ValueError(f"shift is a probability, at least 0 and at most 1, got {self.shift}")
        check_choice(self, "shift_per", ("batch", "sample"))
        if not self.shift:
            return
        if self.shift_range <= self.reach:
            raise ValueError(
                f"{self.reach} positions below shift_range {self.shift_range} cannot be shifted: "
                "take a larger one"
            )
        if self.max_position:
            raise ValueError(
                f"shift {self.shift} and max_position {self.max_position} both choose the "
                "positions of a step: take one of them"
            )

    @property
    def name(self) -> str:
        """A short name: the encodings, or "none", behind a mask that is not the usual one."""
        masks = () if self.model != GPT or self.mask in (MASK, NONE) else (self.mask,)
        return "+".join((*masks, *self.encodings)) or NONE

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        rest = max(self.steps - self.warmup, 1)
        done = min((step - self.warmup) / rest, 1.0)
        return self.lr * (1 - (1 - self.final) * done)

    def dump(self) -> str:
        """JSON text that `load` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def load(cls, text: str) -> TrainConfig:
        """Settings from JSON; a name that is unknown is an error."""
        values = json.loads(text)
        check_settings(values, cls)
        return cls(**values)


def _listed(name: str, values: Iterable[object]) -> tuple[str, ...]:
    """A setting of several texts, or paths; one alone, and what is no text, is an error."""
    if isinstance(values, (str, os.PathLike)):
        raise TypeError(f"{name} is a list, got {str(values)!r} alone: write [{str(values)!r}]")
    found = []
    for value in values:
        if isinstance(value, os.PathLike) or (name in _PATHS and isinstance(value, str)):
            value = str(Path(value))
        if isinstance(value, Use):
            value = str(value)
        if not isinstance(value, str):
            cure = ""
            if isinstance(value, Encoding):
                file = f'open("{value.name}.mlir", "w").write({value.name}.text)'
                cure = f'; write it into a folder of SEXTANT_PATH, {file}, and name it "{value.name}"'
            raise TypeError(
                f"{name} of a run are texts, which it stores, got {type(value).__name__}{cure}"
            )
        found.append(value)
    return tuple(found)


def _spelled(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _short(value: int) -> str:
    return str(value) if abs(value) < 10**20 else f"a number of {len(str(abs(value)))} digits"
