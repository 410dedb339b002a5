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

import math
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass, replace

from .. import definitions
from ..definitions import EncodingLike
from ..errors import nearest
from . import around
from .around import Around, Calls, ModelFunction
from .groups import Group, arrange
from .places import (
    ATTENTION,
    EMBEDDING,
    Placed,
    acts_in,
    first_only,
    model_parameters,
    parameters,
    place,
)
from .printer import Function, Input, Parameter, Value, number

IGNORED = -100
STYLES = ("gpt2", "llama")
RESIDUALS = ("scaled", "plain")
POSITIONS = ("index", "model", "sample", "layer")


@dataclass(frozen=True)
class Config:
    """What a model is.

    ``style``: "gpt2" (layer norm, gelu, biases) or "llama" (rms norm, silu-gated
    MLP, no biases). ``encodings``: uses in order, causal among them if wanted.
    ``kv_heads``: heads of key and value, 0 for as many as ``heads``. ``hidden``:
    width of the MLP, 0 for 4 times the width (gpt2) or 8/3 of it, rounded up to a
    multiple of 32 (llama). ``tied``: the head's weight is the embedding's.
    ``shared``: layers share the encodings' parameters, whatever their scope.
    ``positions``: "index", 0, 1, ...; or given at every call, int32 [1, length, 1], by the name
    ``positions`` for the whole "model", or ``embedding.positions`` (where embeddings
    have encodings) and ``layers.0.positions`` for each "layer" (random positions); or
    by the name ``positions`` for each "sample", [1 or batch, length, 1].

    Parameters are called ``embedding.weight``, ``layers.0.query.weight``,
    ``layers.0.mlp.up.bias``, ``norm.weight``; those of encodings
    ``layers.0.attention.<instance>.<param>``, ``attention.<instance>.<param>``
    where the layers share them, ``embedding.<instance>.<param>``.

    Weights start uniform in +-1 / sqrt(fan in), the embedding normal with deviation
    0.02. ``residual``: whether weights that write into the residual stream start
    divided by sqrt(2 layers) ("scaled", as in GPT-2) or like the others ("plain").
    ``beta1`` to ``clip`` are settings of AdamW; matrices decay. ``groups``: other
    settings for some parameters. ``trained``: patterns of the parameters that are
    trained, the others are frozen; none for all. groups.py says what patterns name.
    """

    encodings: tuple[EncodingLike, ...] = ("causal",)
    style: str = "gpt2"
    vocabulary: int = 256
    layers: int = 4
    width: int = 128
    heads: int = 4
    kv_heads: int = 0
    hidden: int = 0
    tied: bool = True
    shared: bool = False
    residual: str = "scaled"
    positions: str = "index"
    dtype: str = "f32"
    epsilon: float = 1e-5
    beta1: float = 0.9
    beta2: float = 0.999
    adam_epsilon: float = 1e-8
    decay: float = 0.01
    clip: float = 1.0
    groups: tuple[Group, ...] = ()
    trained: tuple[str, ...] = ()

    def __post_init__(self):
        if self.style not in STYLES:
            raise ValueError(f'unknown style "{self.style}"{nearest(self.style, STYLES)}')
        if self.positions not in POSITIONS:
            raise ValueError(
                f'unknown positions "{self.positions}"{nearest(self.positions, POSITIONS)}'
            )
        if self.dtype != "f32":
            raise ValueError(f'models compute in "f32", got dtype "{self.dtype}"')
        if self.residual not in RESIDUALS:
            raise ValueError(
                f'unknown residual "{self.residual}"{nearest(self.residual, RESIDUALS)}'
            )
        for name in ("vocabulary", "layers", "width", "heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("kv_heads", "hidden"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def key_heads(self) -> int:
        return self.kv_heads or self.heads

    @property
    def mlp_width(self) -> int:
        if self.hidden:
            return self.hidden
        return 4 * self.width if self.style == "gpt2" else -(-8 * self.width // (3 * 32)) * 32

    @property
    def positions_shape(self) -> tuple[int | None, ...]:
        return (None if self.positions == "sample" else 1, None, 1)

    @property
    def tensors(self) -> dict[str, tuple[int | None, ...]]:
        """Shapes of what functions of encodings see, by role."""
        rows = (None, None, self.width)
        return {
            "positions": self.positions_shape,
            "input": rows,
            "attention": (None, None, self.heads * self.head_dim),
            "mlp": rows,
        }

    @property
    def extents(self) -> dict[str, int]:
        """Extents that parameters of encodings are sized by."""
        return {
            "batch": 1,
            "heads": self.heads,
            "kv_heads": self.key_heads,
            "head_dim": self.head_dim,
            "value_dim": self.head_dim,
            "model": self.width,
            "query": 0,
            "key": 0,
        }


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
    return build(Config(**settings))


class Builder:
    """A model that is being printed."""

    def __init__(self, config: Config):
        self.config = config
        self.definitions = definitions.signature(config.encodings).definitions
        # Of the embedding and of each layer, what acts there, by place.
        self.placed = _place(config)
        self.around = Around(
            definitions.signature(config.encodings),
            config.extents,
            config.tensors,
            first_only(config.encodings),
        )
        self.parameters: dict[str, Parameter] = {}
        self.given: dict[str, Input] = {}
        # Names of the operands of every place, by the place's label.
        self.operands: dict[str, list[str]] = {}
        # Query and key of every layer of the function at hand, and its calls of the
        # functions of encodings.
        self.rows: dict[str, tuple[Value, Value]] = {}
        self.calls: Calls
        # Functions that are not called, for what they make is given.
        self.left_out: list[ModelFunction] = []
        self._declare()

    # ---- parameters ---------------------------------------------------------

    def _declare(self) -> None:
        c = self.config
        self._add(Parameter("embedding.weight", (c.vocabulary, c.width), _normal(0.02), True))
        for placed in self.placed["embedding"].values():
            self._declare_encodings(placed, "embedding", "embedding")
        for layer in range(c.layers):
            self._declare_layer(layer)
        self._declare_positions()
        for item in self.around.inputs(with_loss=False):
            self.given[item.name] = item
        self._declare_norm("norm")
        if not c.tied:
            self._declare_weight("head", c.vocabulary, c.width, bias=False)
        arranged = arrange(self.parameters.values(), c.groups, c.trained)
        self.parameters = {p.name: p for p in arranged}

    def _declare_layer(self, layer: int) -> None:
        c, prefix = self.config, f"layers.{layer}"
        own, keys = c.heads * c.head_dim, c.key_heads * c.head_dim
        residual = 1 / math.sqrt(2 * c.layers) if c.residual == "scaled" else 1.0
        self._declare_norm(f"{prefix}.norm1")
        for name, rows in (("query", own), ("key", keys), ("value", keys)):
            self._declare_weight(f"{prefix}.{name}", rows, c.width)
        self._declare_weight(f"{prefix}.output", c.width, own, residual)
        for where, placed in self.placed[prefix].items():
            self._declare_encodings(placed, f"{prefix}.{where}", f"{prefix}.attention")
        self._declare_around(layer)
        self._declare_norm(f"{prefix}.norm2")
        names = ("up",) if c.style == "gpt2" else ("gate", "up")
        for name in names:
            self._declare_weight(f"{prefix}.mlp.{name}", c.mlp_width, c.width)
        self._declare_weight(f"{prefix}.mlp.down", c.width, c.mlp_width, residual)

    def _declare_weight(
        self, name: str, rows: int, columns: int, scale: float = 1.0, bias: bool = True
    ) -> None:
        bound = scale / math.sqrt(columns)
        init = f"uniform [{number(-bound)}, {number(bound)}]"
        self._add(Parameter(f"{name}.weight", (rows, columns), init, True))
        if bias and self.config.style == "gpt2":
            self._add(Parameter(f"{name}.bias", (rows,), _constant(0.0)))

    def _declare_norm(self, name: str) -> None:
        width = (self.config.width,)
        self._add(Parameter(f"{name}.weight", width, _constant(1.0)))
        if self.config.style == "gpt2":
            self._add(Parameter(f"{name}.bias", width, _constant(0.0)))

    def _declare_encodings(self, placed: Placed, label: str, prefix: str) -> None:
        """Parameters of one place. Those of the scope of the model, or all if
        they are shared, are named without the layer."""
        whole = prefix.split(".")[-1]
        made, given = parameters(placed.signature, prefix, self.config.extents)
        found = iter(made)
        names = []
        for info in placed.signature.params:
            if info.given:
                names.append(info.name)
                continue
            parameter = next(found)
            if self.config.shared or info.scope == "model":
                parameter = replace(parameter, name=f"{whole}.{info.name}")
            self._add(parameter)
            names.append(parameter.name)
        for item in given:
            self.given.setdefault(item.name, item)
        self.operands[label] = names

    def _declare_around(self, layer: int) -> None:
        """Parameters that functions of encodings see in a layer."""
        signature = definitions.signature(
            [e for e in self.config.encodings if acts_in(e, layer)]
        )
        made = model_parameters(signature, f"layers.{layer}.attention", self.config.extents)
        for info, parameter in zip(signature.model_params, made):
            if self.config.shared or info.scope == "model":
                parameter = replace(parameter, name=f"attention.{info.name}")
            self._add(parameter)

    def _add(self, parameter: Parameter) -> None:
        known = self.parameters.setdefault(parameter.name, parameter)
        if known.shape != parameter.shape:
            raise ValueError(f'two parameters are called "{parameter.name}"')

    # ---- functions ----------------------------------------------------------

    def text(self) -> str:
        c = self.config
        groups = ", ".join(g.text() for g in c.groups)
        groups = f"groups = [{groups}], " if groups else ""
        optimizer = (
            f"#nn.adamw<beta1 = {number(c.beta1)}, beta2 = {number(c.beta2)}, "
            f"epsilon = {number(c.adam_epsilon)}, decay = {number(c.decay)}, "
            f"clip = {number(c.clip)}, {groups}update = @update, train_step = @train_step>"
        )
        attributes = f"nn.gradients = @gradients, nn.optimizer = {optimizer}"
        parts = [self.definitions, self.around.declarations(with_loss=True)]
        parts += [p.text() for p in self.parameters.values()]
        parts += [self._loss(attributes), self._token_losses(), self._logits()]
        return f"module {{\n{''.join(parts)}}}\n"

    def module(self, *functions: str) -> str:
        """The text of a module of functions that are not for training."""
        parts = [self.definitions, self.around.declarations(with_loss=False)]
        parts += [*(p.text() for p in self.parameters.values()), *functions]
        return f"module {{\n{''.join(parts)}}}\n"

    def rows_text(self) -> str:
        f = self._function("rows", ("tokens",))
        self._forward(f)
        named = [
            (f"{layer}.{name}", value)
            for layer, pair in self.rows.items()
            for name, value in zip(("query", "key"), pair)
        ]
        return self.module(f.text(named))

    def _positions(self, where: str) -> str | None:
        """Name of the positions that the embedding or a layer has."""
        if self.config.positions == "index":
            return None
        return f"{where}.positions" if self.config.positions == "layer" else "positions"

    def _declare_positions(self) -> None:
        asked = self.around.asks("positions")
        for part, placed in self.placed.items():
            name = self._positions(part)
            if name and (placed or asked or part != "embedding"):
                self.given[name] = self._positions_input(name)

    def _positions_input(self, name: str) -> Input:
        return Input(name, self.config.positions_shape, "i32", ("", "length", ""))

    def _function(self, name: str, inputs: Iterable[str], with_loss: bool = False) -> Function:
        """``with_loss``: it takes what losses of encodings see, too."""
        tokens = [Input(n, (None, None), "i64", ("batch", "length")) for n in inputs]
        given = dict(self.given)
        if with_loss:
            drawn = self.around.random_inputs()
            given |= {i.name: i for i in [*self.around.inputs(with_loss=True), *drawn]}
        f = Function(name, [*tokens, *given.values()], list(self.parameters.values()))
        if self.config.positions == "index" and self.around.asks("positions"):
            with f.within("positions"):
                length = f.size(f[tokens[0].name], 1)
                f.values["positions"] = f.reshape(f.iota(length), (1, None, 1), [length])
        self._begin_calls(f)
        return f

    def _begin_calls(self, f: Function) -> None:
        self.calls = Calls(
            self.around,
            f,
            "layers.0",
            lambda name, prefix: f[self._argument(name, prefix)],
            self._of_layer,
            self.left_out,
        )

    def _argument(self, name: str, prefix: str) -> str:
        """The argument that a function of an encoding sees as ``name`` in a layer."""
        if name == "positions":
            return self._positions(prefix) or "positions"
        owned = (f"{prefix}.attention.{name}", f"attention.{name}")
        found = next((n for n in owned if n in self.parameters or n in self.given), name)
        if found == name and self._of_layer(name):
            raise ValueError(
                f'parameter "{name}" is one for each layer, but a function that is called before '
                "the first layer asks for it: declare it with scope model"
            )
        return found

    def _of_layer(self, name: str) -> bool:
        """Whether each layer has positions, or a parameter, of its own."""
        if name == "positions":
            return self.config.positions == "layer"
        return f"layers.0.attention.{name}" in self.parameters

    def _loss(self, attributes: str) -> str:
        f = self._function("loss", ("tokens", "labels"), with_loss=True)
        loss = self._cross_entropy(f, "mean", with_loss=True)
        for part in self.calls.losses:
            loss = f.add(loss, part)
        return f.text([("loss", loss)], attributes)

    def _token_losses(self) -> str:
        f = self._function("token_losses", ("tokens", "labels"))
        rows = self._cross_entropy(f, "none")
        sizes = [f.size(f["tokens"], 0), f.size(f["tokens"], 1)]
        return f.text([("losses", f.reshape(rows, (None, None), sizes))])

    def _logits(self) -> str:
        f = self._function("logits", ("tokens",))
        return f.text([("logits", self._forward(f))])

    def _cross_entropy(self, f: Function, reduction: str, with_loss: bool = False) -> Value:
        logits = self._forward(f, with_loss)
        with f.within("loss"):
            rows = f.product(f.size(f["tokens"], 0), f.size(f["tokens"], 1))
            flat = f.reshape(logits, (None, self.config.vocabulary), [rows])
            labels = f.reshape(f["labels"], (None,), [rows])
            return f.nll_loss(f.log_softmax(flat), labels, reduction, IGNORED)

    # ---- the model ----------------------------------------------------------

    def _forward(self, f: Function, with_loss: bool = False) -> Value:
        """Logits [batch, length, vocabulary]. ``with_loss``: losses of encodings are
        computed, too."""
        with f.within("embedding"):
            x = f.embedding(f["embedding.weight"], f["tokens"])
            x = self._map_rows(f, x, EMBEDDING, "embedding", "embedding")
            self.calls(around.INITIAL_STATE, "embedding", {"input": x})
        for layer in range(self.config.layers):
            x = self._block(f, x, f"layers.{layer}")
            if with_loss:
                with f.within(f"layers.{layer}"):
                    self.calls(around.AUXILIARY_LOSS, f"layers.{layer}")
        with f.within("head"):
            head = "embedding.weight" if self.config.tied else "head.weight"
            return f.linear(self._norm(f, x, "norm"), f[head])

    def _block(self, f: Function, x: Value, prefix: str) -> Value:
        with f.within(f"{prefix}.attention"):
            x = f.add(x, self._attention(f, self._norm(f, x, f"{prefix}.norm1"), prefix))
        with f.within(f"{prefix}.mlp"):
            y = self._mlp(f, self._norm(f, x, f"{prefix}.norm2"), f"{prefix}.mlp")
            self.calls(around.AFTER_MLP, prefix, {"mlp": y})
            return f.add(x, y)

    def _attention(self, f: Function, x: Value, prefix: str) -> Value:
        c = self.config
        sizes = [f.size(f["tokens"], 0), f.size(f["tokens"], 1)]

        def heads(name: str, count: int) -> Value:
            mapped = self._map_rows(
                f, x, f"{name}_input", f"{prefix}.{name}_input", prefix
            )
            y = self._linear(f, mapped, f"{prefix}.{name}")
            split = f.reshape(y, (None, None, count, c.head_dim), sizes)
            return f.transpose(split, 1, 2)

        self.calls(around.PRODUCE, prefix, {"input": x})
        q = heads("query", c.heads)
        k = heads("key", c.key_heads)
        v = heads("value", c.key_heads)
        self.rows[prefix] = (q, k)
        placed = self.placed[prefix].get(ATTENTION)
        uses = placed.uses if placed else ()
        names = self.operands.get(f"{prefix}.{ATTENTION}", [])
        at = self._positions(prefix)
        params = [self.calls.made(n, prefix) for n in names]
        values = [v, *self.calls.values(prefix, c.key_heads)]
        out, *states = f.attention(q, k, values, uses, params, f[at] if at else None)
        merged = f.reshape(f.transpose(out, 1, 2), (None, None, c.heads * c.head_dim), sizes)
        seen = {"attention": merged, **self.calls.weighted(prefix, states)}
        self.calls(around.AFTER_ATTENTION, prefix, seen)
        return self._linear(f, merged, f"{prefix}.output")

    def _map_rows(self, f: Function, x: Value, where: str, label: str, owner: str) -> Value:
        """``owner``: the embedding or the layer that it is for."""
        placed = self.placed[owner].get(where)
        if not placed:
            return x
        params = [f[n] for n in self.operands[label]]
        at = self._positions(owner)
        return f.map_rows(x, where, placed.uses, params, f[at] if at else None)

    def _mlp(self, f: Function, x: Value, prefix: str) -> Value:
        up = self._linear(f, x, f"{prefix}.up")
        if self.config.style == "gpt2":
            inner = f.gelu(up, "tanh")
        else:
            inner = f.mul(f.silu(self._linear(f, x, f"{prefix}.gate")), up)
        return self._linear(f, inner, f"{prefix}.down")

    def _linear(self, f: Function, x: Value, name: str) -> Value:
        bias = f[f"{name}.bias"] if f"{name}.bias" in self.parameters else None
        return f.linear(x, f[f"{name}.weight"], bias)

    def _norm(self, f: Function, x: Value, name: str) -> Value:
        weight, epsilon = f[f"{name}.weight"], self.config.epsilon
        if self.config.style == "gpt2":
            return f.layer_norm(x, weight, f[f"{name}.bias"], epsilon)
        return f.rms_norm(x, weight, epsilon)


def _place(config: Config) -> dict[str, dict[str, Placed]]:
    """What acts in the embedding and in each layer, ``layers.0`` on, by place."""
    every = place(config.encodings)
    first = {w: p for w, p in every.items() if w != EMBEDDING}
    later = place([e for e in config.encodings if acts_in(e, 1)])
    later.pop(EMBEDDING, None)
    embedding = {EMBEDDING: every[EMBEDDING]} if EMBEDDING in every else {}
    layers = {f"layers.{i}": later if i else first for i in range(config.layers)}
    return {"embedding": embedding, **layers}


def _normal(deviation: float) -> str:
    return f"normal [{number(0.0)}, {number(deviation)}]"


def _constant(value: float) -> str:
    return f"constant [{number(value)}]"


class _CallableModule(types.ModuleType):
    """``sextant.models.gpt(...)`` is ``sextant.models.gpt.gpt(...)``."""

    def __call__(self, **settings) -> str:
        return gpt(**settings)


sys.modules[__name__].__class__ = _CallableModule
