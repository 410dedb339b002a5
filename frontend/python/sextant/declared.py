"""What an encoding declares, and a list of uses, as Python objects."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from .uses import Option, spell_option


@dataclass(frozen=True)
class OptionInfo:
    """An option: ``type`` is "i32", "f32" or "i1"; ``choices`` are the names it
    may have, if it is one of a list of names; ``range`` says in words which
    numbers it may be ("at least 1 and at most 3"), or is empty."""

    name: str
    type: str
    default: Option
    choices: tuple[str, ...] = ()
    range: str = ""


@dataclass(frozen=True)
class ParamInfo:
    """A parameter.

    ``name``: public name (``<instance>.<param>`` in a list of uses). ``element``:
    "f32" or "i32". ``dims``: each as text ("heads", "2 * reach + 1"). ``init``:
    how it starts ("uniform(0, 2)", "formula"), or empty if the caller gives it.
    ``trained``: gets a gradient. ``scope``: "layer" or "model". ``filled_by``: the function
    of the encoding that makes it in a model. ``of_model``: only functions for a model see
    it. ``starts_with_call``: its initial value is computed with an extent of the call (batch,
    query, key), and not of its indices alone.
    """

    name: str
    element: str
    dims: tuple[str, ...]
    init: str
    trained: bool
    floor: float | None = None
    ceiling: float | None = None
    scope: str = "layer"
    filled_by: str = ""
    of_model: bool = False
    starts_with_call: bool = False

    @property
    def given(self) -> bool:
        """The caller passes it at every call: it has no initial value."""
        return not self.init

    @property
    def made(self) -> bool:
        """Frozen with an initial value: made from the definition if missing."""
        return bool(self.init) and not self.trained

    @property
    def kind(self) -> str:
        """Where its values come from, and what holds for them, in words."""
        if self.given:
            made = f", or made by @{self.filled_by} in a model" if self.filled_by else ""
            return "given at every call" + (", with a gradient" if self.trained else "") + made
        words = [f"{'trained' if self.trained else 'frozen'}, starts as {self.init}"]
        if self.floor is not None:
            words.append(f"at least {self.floor:g}")
        if self.ceiling is not None:
            words.append(f"at most {self.ceiling:g}")
        if self.scope == "model":
            words.append("one for all layers")
        if self.of_model:
            words.append("of a model, not of attention")
        return ", ".join(words)

    @property
    def rank(self) -> int:
        return len(self.dims)


@dataclass(frozen=True)
class Extended:
    """As which use another encoding starts: ``options`` have values, or are
    ``handed_on``, which names an option of the other encoding for each."""

    encoding: str
    options: dict[str, Option]
    handed_on: dict[str, str]

    def __str__(self) -> str:
        items = [f"{n}={spell_option(v)}" for n, v in self.options.items()]
        items += [f"{n}={option}" for n, option in self.handed_on.items()]
        return f"{self.encoding}({', '.join(items)})" if items else self.encoding


@dataclass(frozen=True)
class EncodingInfo:
    """An encoding that is installed.

    ``places``: where it acts ("score", "mask", "rows of query, key", ...).
    ``functions``: by which it takes part in a model ("produce(input, weight) -> gate");
    ``states``, ``inputs``: what they keep from layer to layer and what a training feeds.
    ``uses``: encodings that they use. ``extends``: as what it starts, if it says so.
    ``file``: its definition; ``text``: that as the compiler prints it, without
    comments. ``parameters`` have names without instance.
    """

    name: str
    formula: str
    paper: str
    places: tuple[str, ...]
    functions: tuple[str, ...]
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    uses: tuple[str, ...]
    extends: Extended | None
    options: tuple[OptionInfo, ...]
    parameters: tuple[ParamInfo, ...]
    file: str
    text: str

    def __str__(self) -> str:
        lines = [self.name + (f": {self.formula}" if self.formula else "")]
        if self.paper:
            lines.append(f"  source: {self.paper}")
        lines.append(f"  places: {', '.join(self.places) or 'none'}")
        lines += [f"  function {function}" for function in self.functions]
        lines += [f"  state {state}" for state in self.states]
        lines += [f"  input {name}" for name in self.inputs]
        if self.extends:
            lines.append(f"  starts as {self.extends}")
        for option in self.options:
            allowed = f" of {', '.join(option.choices)}" if option.choices else ""
            allowed += f", {option.range}" if option.range else ""
            default = spell_option(option.default)
            lines.append(f"  option {option.name} = {default}{allowed}")
        for p in self.parameters:
            shape = ", ".join(p.dims)
            lines.append(f"  parameter {p.name} [{shape}] {p.element}, {p.kind}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Signature:
    """A list of uses, resolved: parameters in the order of operands.

    ``uses``: as ``#pos.use`` text. ``definitions``: text of traced encodings.
    ``model_params``: those that attention does not take, since only functions for a
    model see them. ``filled``: parameters that such functions make. ``inputs``: what
    they take of the training loop, names and dims; ``input_ranges``: the least and the
    greatest value of those that have limits.
    ``operands``: those whose rows are mapped. ``turns_rows``: some of them by matrices
    (`pos.turn_rows`), in a launch that stores them in the type of the call.
    ``all_heads``: a score site sees all heads at once, so that the number of heads is
    compiled in. ``requires_past``: some mask has to hide the keys after a query.
    ``count_heads``: instances that compute with the number of their head or of all
    heads, not only with its part of parameters. ``computes_with_call``: a dim of a
    parameter is computed with an extent of the call (batch, query, key), rather than one
    itself. ``files``: the definitions that the uses name, as they were (path, time, size,
    number): one that is edited makes another signature.
    """

    uses: tuple[str, ...]
    definitions: str
    params: tuple[ParamInfo, ...]
    model_params: tuple[ParamInfo, ...]
    filled: frozenset[str]
    inputs: tuple[tuple[str, tuple[int | None, ...]], ...]
    input_ranges: tuple[tuple[str, tuple[int, int]], ...]
    operands: frozenset[str]
    turns_rows: bool
    all_heads: bool
    requires_past: bool
    count_heads: tuple[str, ...]
    computes_with_call: bool
    spelled: tuple[str, ...]
    files: tuple[tuple, ...]

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:  # of long texts, and asked for in every call
        return hash((self.uses, self.definitions, self.files))

    @functools.cached_property
    def by_name(self) -> dict[str, ParamInfo]:
        return {p.name: p for p in self.params}
