"""Vision transformers: images in patches, pre-norm blocks as the GPT's, any encodings.

`build` prints a module with the functions

* ``loss(images, labels, ...) -> loss``: mean cross entropy in nats;
* ``sample_losses(images, labels, ...) -> losses``: one per image, [batch];
* ``logits(images, ...) -> logits``: [batch, classes];

and, from the loss, ``gradients``, ``update`` and ``train_step``
(`--nn-derive-backward`). Images are f32 [batch, channels, height, width], normalised as the
caller likes, of any batch, and of any height and width that the patch divides: one program
serves them all. Labels are i64 [batch], or f32 [batch, classes] where targets are soft.
All functions then take the tensors that encodings ask of the caller, and the parameters, as
those of `sextant.models.gpt` do.

>>> text = sextant.models.vit(encodings=["rope_2d"], classes=10, channels=1, patch=4)
>>> program = sextant.compile(text)
"""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import definitions
from ..checks import check_choice, check_settings
from ..definitions import EncodingLike
from ..errors import SettingError
from ..trace.tracer import Encoding
from ..uses import parse_use
from . import blocks
from .blocks import GIVEN, INDEX, normal
from .printer import Function, Input, Parameter, Value

GRID = "grid"
CLASS_HEAD, MEAN_HEAD = HEADS = ("class", "mean")
HARD, SOFT = TARGETS = ("hard", "soft")
# Option of an encoding that says whether tokens with a negative coordinate are no part of the
# grid; what positions of a class token may be, and its coordinates there.
OUTSIDE = "outside"
CLASS_POSITIONS = {"origin": (0, 0), OUTSIDE: (-1, -1)}


@dataclass(frozen=True)
class Config(blocks.Config):
    """What a model is.

    ``classes``, ``channels``: of the logits and of images. ``patch``: side of the squares
    into which images are cut; their pixels, by channel, row and column, are what a
    linear map makes a token of. ``head``: "class" (a learned token before those of the
    patches, whose row at the end the head reads) or "mean" (the mean of all rows; there is no
    such token). ``targets``: labels are "hard" (a class each) or "soft" (shares of classes).
    ``positions``: "grid", (row, column) of patches, int32 [1, tokens, 2], made in the model;
    "index", of one axis: tokens row by row, the class token first; or given at every call,
    as for the GPT, for the "model", each "sample" or each "layer", of two axes, class token
    first. ``class_position``, of the class token of a grid: "origin", (0, 0), where rotations
    turn nothing, or "outside", (-1, -1). An encoding that has an option `OUTSIDE` leaves such a
    token alone, or gives it a row of its own, where that is true, and it must be; of others the
    definition says what a negative coordinate means.

    Parameters are called ``patch.weight``, ``patch.bias``, ``class.token``,
    ``layers.0.query.weight`` and so on as in the GPT, ``norm.weight``, ``head.weight``,
    ``head.bias``; those of encodings as in the GPT. The class token starts normal with
    deviation 0.02, weights as the GPT's. All other settings are the GPT's.
    """

    positions: str = GRID
    classes: int = 10
    channels: int = 3
    patch: int = 4
    head: str = CLASS_HEAD
    class_position: str = "origin"
    targets: str = HARD

    def __post_init__(self):
        super().__post_init__()
        check_choice(self, "head", HEADS)
        check_choice(self, "class_position", tuple(CLASS_POSITIONS))
        check_choice(self, "targets", TARGETS)

    @property
    def sizes(self) -> tuple[str, ...]:
        return ("classes", "channels", "patch")

    @property
    def kinds_of_positions(self) -> tuple[str, ...]:
        return (GRID, INDEX, *GIVEN)

    @property
    def axes_of_positions(self) -> int:
        return 1 if self.positions == INDEX else 2

    @property
    def has_class_token(self) -> bool:
        return self.head == CLASS_HEAD


def build(config: Config) -> str:
    """The text of the model."""
    return Builder(config).text()


def vit(**settings) -> str:
    """As `build`, of a `Config` with these settings."""
    check_settings(settings, Config)
    return build(Config(**settings))


class Builder(blocks.Builder):
    """A ViT that is being printed. Of each function the values ``batch``, ``rows``,
    ``columns`` (of patches) and ``length`` (of tokens) are indices."""

    config: Config
    cure_for_axes = "Rows and columns are given by {cure}", {"positions": GRID}

    def _check_axes(self) -> None:
        super()._check_axes()
        if self.config.axes_of_positions == 1:
            return
        # Functions that see positions require for themselves what they take.
        asking = {f.instance for f in self.around.functions if f.asks("positions")}
        for encoding in self.config.encodings:
            is_seen = parse_use(str(encoding)).instance in asking
            reads = definitions.reads_positions([encoding])
            if reads and not is_seen and definitions.axes([encoding]) == 1:
                raise SettingError(
                    f'"{encoding}" reads positions of one axis; those of this model have two, row '
                    "and column. With {cure} tokens are counted row by row",
                    positions=INDEX,
                )
            self._check_outside(encoding)

    def _check_outside(self, encoding: EncodingLike) -> None:
        """No encoding takes a class token that stands outside the grid for a patch."""
        c = self.config
        if not c.has_class_token or c.class_position != OUTSIDE:
            return
        use = parse_use(str(encoding))
        name = encoding if isinstance(encoding, Encoding) else use.encoding
        options = {option.name: option for option in definitions.describe(name).options}
        own = options.get(OUTSIDE)
        if own and own.type == "i1" and not use.options.get(OUTSIDE, own.default):
            wanted = replace(use, options={**use.options, OUTSIDE: True})
            raise SettingError(
                f'the class token stands outside the grid, and "{encoding}" takes it for a patch: '
                f'write "{wanted}", or put it at the origin ({{cure}})',
                class_position="origin",
            )

    # ---- parameters ---------------------------------------------------------

    def _declare_first(self) -> None:
        c = self.config
        self._declare_weight("patch", c.width, c.channels * c.patch * c.patch)
        if c.has_class_token:
            self._add(Parameter("class.token", (c.width,), normal(0.02)))

    def _declare_last(self) -> None:
        self._declare_weight("head", self.config.classes, self.config.width)

    # ---- functions ----------------------------------------------------------

    def text(self) -> str:
        functions = [self._loss(), self._sample_losses(), self._logits()]
        return self._module_for_training(functions)

    def _begin(self, name: str, with_labels: bool, with_loss: bool = False) -> Function:
        c = self.config
        dims = ("batch", "", "height", "width")
        inputs = [Input("images", (None, c.channels, None, None), "f32", dims)]
        if with_labels and c.targets == SOFT:
            inputs.append(Input("labels", (None, c.classes), "f32", ("batch", "")))
        elif with_labels:
            inputs.append(Input("labels", (None,), "i64", ("batch",)))
        return self._function(name, inputs, with_loss)

    def _loss(self) -> str:
        f = self._begin("loss", with_labels=True, with_loss=True)
        loss = self._cross_entropy(f, "mean", with_loss=True)
        for part in self.calls.losses:
            loss = f.add(loss, part)
        return f.text([("loss", loss)], self._training_attributes())

    def _sample_losses(self) -> str:
        f = self._begin("sample_losses", with_labels=True)
        return f.text([("losses", self._cross_entropy(f, "none"))])

    def _logits(self) -> str:
        f = self._begin("logits", with_labels=False)
        return f.text([("logits", self._forward(f))])

    def _cross_entropy(self, f: Function, reduction: str, with_loss: bool = False) -> Value:
        """Of each image, or their mean."""
        logits = self._forward(f, with_loss)
        with f.within("loss"):
            logarithms = f.log_softmax(logits)
            if self.config.targets == HARD:
                return f.nll_loss(logarithms, self._checked_labels(f), reduction)
            losses = f.neg(f.sum(f.mul(f["labels"], logarithms), 1))
            return f.mean(losses, 0) if reduction == "mean" else losses

    def _checked_labels(self, f: Function) -> Value:
        classes = self.config.classes
        message = f"a label is none of the {classes} classes, which are 0 to {classes - 1}"
        least, most = (f.integers([n], (), "i64") for n in (0, classes - 1))
        labels = f.require_all("at_most", least, f["labels"], f["labels"], message)
        return f.require_all("at_most", labels, most, labels, message)

    # ---- the model ----------------------------------------------------------

    def _sizes(self, f: Function) -> list[Value]:
        return [f["batch"], f["length"]]

    def _prepare(self, f: Function) -> None:
        c = self.config
        with f.within("images"):
            patch = f.index(c.patch)
            f.values["batch"] = f.size(f["images"], 0)
            for dim, (side, count) in enumerate((("height", "rows"), ("width", "columns")), 2):
                size = f.size(f["images"], dim)
                f.check(
                    size, "multiple_of", patch,
                    f"the {side} of images is no multiple of the patch {c.patch}; crop, pad or "
                    "resize them",
                )  # fmt: skip
                f.check(patch, "at_most", size, f"the {side} of images is less than the patch")
                f.values[count] = f.quotient(size, patch)
            patches = f.product(f["rows"], f["columns"])
            extra = f.index(1 if c.has_class_token else 0)
            f.values["length"] = f.index_sum(patches, extra)
        with f.within("positions"):
            if c.positions in GIVEN:
                self._check_positions(f)
            elif c.positions == INDEX and self.around.asks("positions"):
                f.values["positions"] = f.reshape(
                    f.iota(f["length"]), (1, None, 1), [f["length"]]
                )
            elif c.positions == GRID and definitions.reads_positions(c.encodings):
                f.values["positions"] = self._grid(f, patches)

    def _check_positions(self, f: Function) -> None:
        token = ", and one for the class token" if self.config.has_class_token else ""
        for name, item in self.given.items():
            if name == "positions" or name.endswith(".positions"):
                f.check(
                    f.size(f[name], 1), "equal", f["length"],
                    f"{item.name} are one for each patch{token}: as many as tokens",
                )  # fmt: skip

    def _grid(self, f: Function, patches: Value) -> Value:
        """Positions (row, column) of tokens, [1, length, 2]."""
        columns = f.scalar(f["columns"], "i32")
        place = f.iota(patches)
        axes = [f.floor_divide(place, columns), f.remainder(place, columns)]
        grid = f.concat([f.reshape(a, (None, 1), [patches]) for a in axes], 1)
        if self.config.has_class_token:
            at = CLASS_POSITIONS[self.config.class_position]
            grid = f.concat([f.integers(at, (1, 2), "i32"), grid], 0)
        return f.reshape(grid, (1, None, 2), [f["length"]])

    def _forward(self, f: Function, with_loss: bool = False) -> Value:
        """Logits [batch, classes]. ``with_loss``: losses of encodings are computed, too."""
        with f.within("patches"):
            x = self._linear(f, self._patches(f), "patch")
            if self.config.has_class_token:
                token = f.reshape(f["class.token"], (1, 1, self.config.width))
                x = f.concat([f.broadcast(token, f.first(x, 1)), x], 1)
        with f.within("embedding"):
            x = self._embed(f, x)
        x = self._blocks(f, x, with_loss)
        with f.within("head"):
            if self.config.has_class_token:
                row = f.reshape(f.first(x, 1), (None, self.config.width), [f["batch"]])
                return self._linear(f, self._norm(f, row, "norm"), "head")
            return self._linear(f, f.mean(self._norm(f, x, "norm"), 1), "head")

    def _patches(self, f: Function) -> Value:
        """Pixels of patches [batch, patches, channels * patch * patch]."""
        c, side = self.config, self.config.patch
        batch, rows, columns = (f[n] for n in ("batch", "rows", "columns"))
        split: Sequence[int | None] = (None, c.channels, None, side, None, side)
        x = f.reshape(f["images"], tuple(split), [batch, rows, columns])
        # From (batch, channel, row, y, column, x) to (batch, row, column, channel, y, x).
        x = f.transpose(f.transpose(f.transpose(x, 1, 2), 2, 4), 3, 4)
        sizes = [batch, f.product(rows, columns)]
        return f.reshape(x, (None, None, c.channels * side * side), sizes)


class _CallableModule(types.ModuleType):
    """``sextant.models.vit(...)`` is ``sextant.models.vit.vit(...)``."""

    def __call__(self, **settings) -> str:
        return vit(**settings)


sys.modules[__name__].__class__ = _CallableModule
