"""What models of tokens have in common: pre-norm blocks, and encodings in all their places.

A `Builder` declares the parameters of layers and of encodings and prints blocks, with the
calls of encodings' functions around attention. What stands before the first block and behind
the last one, and what the functions of a model are, is a matter of its own builder
(gpt.py, vit.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import definitions
from ..checks import check_choice
from ..definitions import EncodingLike
from ..errors import SettingError, nearest
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

STYLES = ("gpt2", "llama")
RESIDUALS = ("scaled", "plain")
# Of what a model multiplies.
DTYPES = ("f32", "bf16")
# By name, the form of `nn.gelu`.
GELUS = {"tanh": "tanh", "erf": "none"}
INDEX = "index"
# Positions that the caller gives: for the whole model, for each sample, for each layer.
GIVEN = ("model", "sample", "layer")


def check_gelu(gelu: str, style: str) -> None:
    """A name that is none of `GELUS`, or one for a block without a gelu, is a ValueError."""
    if gelu not in GELUS:
        raise ValueError(f'unknown gelu "{gelu}"{nearest(gelu, list(GELUS))}')
    if style != "gpt2" and gelu != Config.gelu:
        raise ValueError(f'gelu "{gelu}" changes nothing: a block of style "{style}" has none')


@dataclass(frozen=True)
class Config:
    """Settings of layers, encodings and optimizer; gpt.py and vit.py say what they mean."""

    encodings: tuple[EncodingLike, ...] = ()
    style: str = "gpt2"
    layers: int = 4
    width: int = 128
    heads: int = 4
    kv_heads: int = 0
    hidden: int = 0
    shared: bool = False
    residual: str = "scaled"
    gelu: str = "tanh"
    positions: str = INDEX
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
        # The class is frozen for its users.
        object.__setattr__(self, "encodings", tuple(definitions.listed(self.encodings)))
        check_choice(self, "style", STYLES)
        check_choice(self, "positions", self.kinds_of_positions)
        check_choice(self, "dtype", DTYPES)
        check_choice(self, "residual", RESIDUALS)
        check_gelu(self.gelu, self.style)
        for name in (*self.sizes, "layers", "width", "heads"):
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
    def sizes(self) -> tuple[str, ...]:
        """Names of settings of one kind of model that are at least 1."""
        return ()

    @property
    def kinds_of_positions(self) -> tuple[str, ...]:
        return (INDEX, *GIVEN)

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
    def axes_of_positions(self) -> int:
        """How many coordinates a position has."""
        return 1

    @property
    def positions_shape(self) -> tuple[int | None, ...]:
        return (None if self.positions == "sample" else 1, None, self.axes_of_positions)

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


class Builder:
    """A model that is being printed."""

    # How a model gets positions of more axes than it has, and the settings for it.
    cure_for_axes: tuple[str, dict[str, object]]

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
        self._check_axes()
        # Query and key of every layer of the function at hand, and its calls of the
        # functions of encodings.
        self.rows: dict[str, tuple[Value, Value]] = {}
        self.calls: Calls
        # Functions that are not called, for what they make is given.
        self.left_out: list[ModelFunction] = []
        self._declare()

    def _check_axes(self) -> None:
        """No encoding reads more coordinates than positions have."""
        axes = self.config.axes_of_positions
        for encoding in self.config.encodings:
            wanted = definitions.axes([encoding])
            if wanted > axes:
                advice, settings = self.cure_for_axes
                raise SettingError(
                    f'"{encoding}" reads positions of {wanted} axes, such as rows and columns of '
                    f"an image; those of this model have {axes}. {advice}",
                    **settings,
                )

    # ---- what a kind of model has of its own ----------------------------------

    def text(self) -> str:
        """The module."""
        raise NotImplementedError

    def _declare_first(self) -> None:
        """Parameters before those of the layers, but for encodings'."""
        raise NotImplementedError

    def _declare_last(self) -> None:
        """Parameters behind the last norm."""
        raise NotImplementedError

    def _sizes(self, f: Function) -> list[Value]:
        """Batch and length of the tokens of a function, as indices."""
        raise NotImplementedError

    def _prepare(self, f: Function) -> None:
        """Prints what stands before all else in a function; makes the value ``positions``
        where its caller gives none and something asks for them."""
        raise NotImplementedError

    # ---- parameters ---------------------------------------------------------

    def _declare(self) -> None:
        c = self.config
        self._declare_first()
        for placed in self.placed["embedding"].values():
            self._declare_encodings(placed, "embedding", "embedding")
        for layer in range(c.layers):
            self._declare_layer(layer)
        self._declare_positions()
        for item in self.around.inputs(with_loss=False):
            self.given[item.name] = item
        self._declare_norm("norm")
        self._declare_last()
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
            self._add(Parameter(f"{name}.bias", (rows,), constant(0.0)))

    def _declare_norm(self, name: str) -> None:
        width = (self.config.width,)
        self._add(Parameter(f"{name}.weight", width, constant(1.0)))
        if self.config.style == "gpt2":
            self._add(Parameter(f"{name}.bias", width, constant(0.0)))

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

    # ---- positions ----------------------------------------------------------

    def _positions(self, where: str) -> str | None:
        """Name of the positions that the embedding or a layer has; none where they are
        indices."""
        if self.config.positions == INDEX:
            return None
        return f"{where}.positions" if self.config.positions == "layer" else "positions"

    def _declare_positions(self) -> None:
        if self.config.positions not in GIVEN:
            return
        asked = self.around.asks("positions")
        for part, placed in self.placed.items():
            name = self._positions(part)
            if name and (placed or asked or part != "embedding"):
                self.given[name] = self._positions_input(name)

    def _positions_input(self, name: str) -> Input:
        return Input(name, self.config.positions_shape, "i32", ("", "length", ""))

    # ---- functions ----------------------------------------------------------

    def _module_for_training(self, functions: Sequence[str]) -> str:
        """The text of a module of functions, losses of encodings among what they call."""
        parts = [self.definitions, self.around.declarations(with_loss=True)]
        parts += [p.text() for p in self.parameters.values()]
        return f"module {{\n{''.join([*parts, *functions])}}}\n"

    def module(self, *functions: str) -> str:
        """The text of a module of functions that are not for training."""
        parts = [self.definitions, self.around.declarations(with_loss=False)]
        parts += [*(p.text() for p in self.parameters.values()), *functions]
        return f"module {{\n{''.join(parts)}}}\n"

    def _training_attributes(self) -> str:
        """Of a loss: what is derived from it, and the optimizer."""
        c = self.config
        groups = ", ".join(g.text() for g in c.groups)
        groups = f"groups = [{groups}], " if groups else ""
        optimizer = (
            f"#nn.adamw<beta1 = {number(c.beta1)}, beta2 = {number(c.beta2)}, "
            f"epsilon = {number(c.adam_epsilon)}, decay = {number(c.decay)}, "
            f"clip = {number(c.clip)}, {groups}update = @update, train_step = @train_step>"
        )
        return f"nn.gradients = @gradients, nn.optimizer = {optimizer}"

    def _function(self, name: str, inputs: Sequence[Input], with_loss: bool = False) -> Function:
        """``with_loss``: it takes what losses of encodings see, too."""
        given = dict(self.given)
        if with_loss:
            drawn = self.around.random_inputs()
            given |= {i.name: i for i in [*self.around.inputs(with_loss=True), *drawn]}
        parameters = list(self.parameters.values())
        f = Function(name, [*inputs, *given.values()], parameters, self.config.dtype)
        self._prepare(f)
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

    # ---- the model ----------------------------------------------------------

    def _embed(self, f: Function, x: Value) -> Value:
        """What encodings make of the tokens' rows before the first block."""
        x = self._map_rows(f, x, EMBEDDING, "embedding", "embedding")
        self.calls(around.INITIAL_STATE, "embedding", {"input": x})
        return x

    def _blocks(self, f: Function, x: Value, with_loss: bool) -> Value:
        """``with_loss``: losses of encodings are computed, too."""
        for layer in range(self.config.layers):
            x = self._block(f, x, f"layers.{layer}")
            if with_loss:
                with f.within(f"layers.{layer}"):
                    self.calls(around.AUXILIARY_LOSS, f"layers.{layer}")
        return x

    def _block(self, f: Function, x: Value, prefix: str) -> Value:
        with f.within(f"{prefix}.attention"):
            x = f.add(x, self._attention(f, self._norm(f, x, f"{prefix}.norm1"), prefix))
        with f.within(f"{prefix}.mlp"):
            y = self._mlp(f, self._norm(f, x, f"{prefix}.norm2"), f"{prefix}.mlp")
            self.calls(around.AFTER_MLP, prefix, {"mlp": y})
            return f.add(x, y)

    def _attention(self, f: Function, x: Value, prefix: str) -> Value:
        c = self.config
        sizes = self._sizes(f)

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
        params = [self.calls.made(n, prefix) for n in names]
        values = [v, *self.calls.values(prefix, c.key_heads)]
        at = self._positions_of(f, prefix)
        out, *states = f.attention(q, k, values, uses, params, at)
        merged = f.reshape(f.transpose(out, 1, 2), (None, None, c.heads * c.head_dim), sizes)
        seen = {"attention": merged, **self.calls.weighted(prefix, states)}
        self.calls(around.AFTER_ATTENTION, prefix, seen)
        return self._linear(f, merged, f"{prefix}.output")

    def _positions_of(self, f: Function, owner: str) -> Value | None:
        """The positions that attention of a layer, or row maps of the embedding, take."""
        name = self._positions(owner)
        return f.values.get(name) if name else None

    def _map_rows(self, f: Function, x: Value, where: str, label: str, owner: str) -> Value:
        """``owner``: the embedding or the layer that it is for."""
        placed = self.placed[owner].get(where)
        if not placed:
            return x
        params = [f[n] for n in self.operands[label]]
        return f.map_rows(x, where, placed.uses, params, self._positions_of(f, owner))

    def _mlp(self, f: Function, x: Value, prefix: str) -> Value:
        up = self._linear(f, x, f"{prefix}.up")
        if self.config.style == "gpt2":
            inner = f.gelu(up, GELUS[self.config.gelu])
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


def normal(deviation: float) -> str:
    return f"normal [{number(0.0)}, {number(deviation)}]"


def constant(value: float) -> str:
    return f"constant [{number(value)}]"
