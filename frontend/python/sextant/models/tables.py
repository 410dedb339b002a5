"""Tables of a model: what functions of encodings make of positions and parameters alone.

An evaluation of many texts need not make them anew for each. `build_tables` prints the
program that makes them, `build_with_tables` one that takes them as arguments of the same
names: ``attention.<instance>.<name>`` where one serves all layers, else
``layers.0.attention.<instance>.<name>`` for each.
"""

from __future__ import annotations

from . import around
from .around import ModelFunction, Role
from .gpt import Builder, Config
from .printer import Function, Input


def build_tables(config: Config) -> str:
    """The text of a module with one function, ``tables(positions, ...)``, whose results
    are the tables. None are an error."""
    return _Maker(config).text()


def build_with_tables(config: Config) -> str:
    """The text of a module with the functions ``token_losses`` and ``logits`` of
    `gpt.build`, which take the tables."""
    return _Taker(config).text()


class _Tables(Builder):
    """A model of which functions that make tables are printed apart."""

    def __init__(self, config: Config):
        super().__init__(config)
        # By name which function makes it, its role, and the layer for which it is made,
        # the first where it serves all.
        self.tables: dict[str, tuple[ModelFunction, Role, int]] = {}
        for name, (function, role) in self.around.tables().items():
            if not self.around.varies(function, self._of_layer):
                self.tables[f"attention.{name}"] = (function, role, 0)
                continue
            for layer in range(config.layers):
                if self.around.acts(function.instance, layer == 0):
                    own = f"layers.{layer}.attention.{name}"
                    self.tables[own] = (function, role, layer)
        if not self.tables:
            names = "+".join(map(str, config.encodings)) or "a model without encodings"
            raise ValueError(
                f"there are no tables of {names}: no function of an encoding makes tensors of "
                "positions and parameters alone"
            )


class _Maker(_Tables):
    """The function that makes tables."""

    def text(self) -> str:
        inputs = [self._positions_input("positions")]
        f = Function("tables", inputs, list(self.parameters.values()))
        fixed = self.around.of_positions()
        self.left_out = [g for g in self.around.functions if g not in fixed]
        self._begin_calls(f)
        self.calls(around.INITIAL_STATE, "embedding")
        named = []
        for layer in range(self.config.layers):
            self.calls(around.PRODUCE, f"layers.{layer}")
            named += [
                (name, self.calls.known[role.name])
                for name, (_, role, own) in self.tables.items()
                if own == layer
            ]
        return self.module(f.text(named))


class _Taker(_Tables):
    """The functions of an evaluation that take tables."""

    def text(self) -> str:
        self.left_out = self.around.of_positions()
        for name, (_, role, _) in self.tables.items():
            self.given[name] = Input(name, role.shape, role.element)
        return self.module(self._token_losses(), self._logits())
