"""Decoder transformers: GPT-2 style and Llama style blocks, any encodings.

`build` prints a module with the functions

* ``loss(tokens, labels, ...) -> loss``: mean cross entropy in nats over the labels
  that are not `IGNORED` (evaluate the last k tokens of a block by ignoring the
  labels before);
* ``token_losses(tokens, labels, ...) -> losses``: one per token, 0 where ignored;
* ``logits(tokens, ...) -> logits``;

and, from the loss, ``gradients``, ``update`` and ``train_step``
(`--nn-derive-backward`). Tokens and labels are i64 [batch, length], of any batch and
length. All functions then take the tensors that encodings ask of the caller, and
the parameters, in one order: `sextant.compile(text)` knows their names. What encodings
do around attention (gates that they make, states, losses that are added to ``loss``) is
in calls of their own functions.

>>> text = sextant.models.gpt(encodings=["causal", "rope"], layers=4, width=128, heads=4)
>>> program = sextant.compile(text)
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass

from ..checks import check_settings
from ..definitions import EncodingLike
from . import blocks
from .blocks import INDEX, normal
from .printer import Function, Input, Parameter, Value

IGNORED = -100


@dataclass(frozen=True)
class Config(blocks.Config):
    """What a model is.

    ``style``: "gpt2" (layer norm, gelu, biases) or "llama" (rms norm, silu-gated
    MLP, no biases). ``gelu``: the gelu of a gpt2 block, "tanh", GPT-2's approximation, or
    "erf", PyTorch's own (`torch.nn.GELU`), which takes a third of the time on a CPU.
    ``encodings``: uses in order, causal among them if wanted.
    ``kv_heads``: heads of key and value, 0 for as many as ``heads``. ``hidden``:
    width of the MLP, 0 for 4 times the width (gpt2) or 8/3 of it, rounded up to a
    multiple of 32 (llama). ``tied``: the head's weight is the embedding's.
    ``shared``: layers share the encodings' parameters, whatever their scope.
    ``positions``: "index", 0, 1, ...; or given at every call, int32 [1, length, axes], by
    the name ``positions`` for the whole "model", or ``embedding.positions`` (where embeddings
    have encodings) and ``layers.0.positions`` for each "layer" (random positions); or
    by the name ``positions`` for each "sample", [1 or a divisor of batch, length, axes].
    ``axes``: how many coordinates given positions have.

    Parameters are called ``embedding.weight``, ``layers.0.query.weight``,
    ``layers.0.mlp.up.bias``, ``norm.weight``; those of encodings
    ``layers.0.attention.<instance>.<param>``, ``attention.<instance>.<param>``
    where the layers share them, ``embedding.<instance>.<param>``.

    Weights start uniform in +-1 / sqrt(fan in), the embedding normal with deviation
    0.02. ``residual``: whether weights that write into the residual stream start
    divided by sqrt(2 layers) ("scaled", as in GPT-2) or like the others ("plain").
    ``dtype``: of what is multiplied, "f32" or "bf16", as under PyTorch's autocast: products
    of matrices and attention have operands and results of it, and are summed up in f32;
    parameters, their gradients, norms, sums and losses stay f32 (`--nn-narrow-products`).
    ``beta1`` to ``clip`` are settings of AdamW; matrices decay. ``groups``: other
    settings for some parameters. ``trained``: patterns of the parameters that are
    trained, the others are frozen; none for all. groups.py says what patterns name.
    """

    encodings: tuple[EncodingLike, ...] = ("causal",)
    vocabulary: int = 256
    tied: bool = True
    axes: int = 1

    def __post_init__(self):
        super().__post_init__()
        if self.axes > 1 and self.positions == INDEX:
            raise ValueError(
                f"axes {self.axes}: indices have one axis; positions of several are given at "
                'every call (positions="model", "sample" or "layer")'
            )

    @property
    def sizes(self) -> tuple[str, ...]:
        return ("vocabulary", "axes")

    @property
    def axes_of_positions(self) -> int:
        return self.axes


def build(config: Config) -> str:
    """The text of the model."""
    return Builder(config).text()


def build_rows(config: Config) -> str:
    """The text of a module with one function, ``rows(tokens, ...) -> layers.0.query,
    layers.0.key, layers.1.query, ...``: what enters each layer's attention, [batch,
    heads, length, head dim], before its encodings act. Parameters are those of
    `build`."""
    return Builder(config).rows_text()


def gpt(**settings) -> str:
    """As `build`, of a `Config` with these settings."""
    check_settings(settings, Config)
    return build(Config(**settings))


class Builder(blocks.Builder):
    """A GPT that is being printed."""

    config: Config
    cure_for_axes = (
        "Give it such positions at every call: {cure}, say",
        {"positions": "model", "axes": 2},
    )

    def _declare_first(self) -> None:
        c = self.config
        self._add(Parameter("embedding.weight", (c.vocabulary, c.width), normal(0.02), True))

    def _declare_last(self) -> None:
        if not self.config.tied:
            self._declare_weight("head", self.config.vocabulary, self.config.width, bias=False)

    def text(self) -> str:
        functions = [self._loss(), self._token_losses(), self._logits()]
        return self._module_for_training(functions)

    def rows_text(self) -> str:
        f = self._begin("rows", ("tokens",))
        self._forward(f)
        named = [
            (f"{layer}.{name}", value)
            for layer, pair in self.rows.items()
            for name, value in zip(("query", "key"), pair)
        ]
        return self.module(f.text(named))

    def _begin(self, name: str, inputs: Iterable[str], with_loss: bool = False) -> Function:
        tokens = [Input(n, (None, None), "i64", ("batch", "length")) for n in inputs]
        return self._function(name, tokens, with_loss)

    def _sizes(self, f: Function) -> list[Value]:
        return [f.size(f["tokens"], 0), f.size(f["tokens"], 1)]

    def _prepare(self, f: Function) -> None:
        if self.config.positions == INDEX and self.around.asks("positions"):
            with f.within("positions"):
                length = f.size(f["tokens"], 1)
                f.values["positions"] = f.reshape(f.iota(length), (1, None, 1), [length])

    def _loss(self) -> str:
        f = self._begin("loss", ("tokens", "labels"), with_loss=True)
        loss = self._cross_entropy(f, "mean", with_loss=True)
        for part in self.calls.losses:
            loss = f.add(loss, part)
        return f.text([("loss", loss)], self._training_attributes())

    def _token_losses(self) -> str:
        f = self._begin("token_losses", ("tokens", "labels"))
        rows = self._cross_entropy(f, "none")
        return f.text([("losses", f.reshape(rows, (None, None), self._sizes(f)))])

    def _logits(self) -> str:
        f = self._begin("logits", ("tokens",))
        return f.text([("logits", self._forward(f))])

    def _cross_entropy(self, f: Function, reduction: str, with_loss: bool = False) -> Value:
        logits = self._forward(f, with_loss)
        with f.within("loss"):
            rows = f.product(*self._sizes(f))
            flat = f.reshape(logits, (None, self.config.vocabulary), [rows])
            labels = f.reshape(f["labels"], (None,), [rows])
            return f.nll_loss(f.log_softmax(flat), labels, reduction, IGNORED)

    def _forward(self, f: Function, with_loss: bool = False) -> Value:
        """Logits [batch, length, vocabulary]. ``with_loss``: losses of encodings are
        computed, too."""
        with f.within("embedding"):
            x = self._embed(f, f.embedding(f["embedding.weight"], f["tokens"]))
        x = self._blocks(f, x, with_loss)
        with f.within("head"):
            head = "embedding.weight" if self.config.tied else "head.weight"
            return f.linear(self._norm(f, x, "norm"), f[head])


class _CallableModule(types.ModuleType):
    """``sextant.models.gpt(...)`` is ``sextant.models.gpt.gpt(...)``."""

    def __call__(self, **settings) -> str:
        return gpt(**settings)


sys.modules[__name__].__class__ = _CallableModule
