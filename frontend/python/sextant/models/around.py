"""What encodings do in a model around attention: calls of their functions.

A builder says where it stands and which tensors it has there (positions, input,
attention, mlp); roles say which function of which encoding takes them. No encoding is
known by name here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass

from .. import backend, definitions
from ..declared import Signature
from .printer import Function, Input, Shape, Value

PRODUCE = "produce"
INITIAL_STATE = "initial_state"
AFTER_ATTENTION = "after_attention"
AFTER_MLP = "after_mlp"
AUXILIARY_LOSS = "auxiliary_loss"


@dataclass(frozen=True)
class Role:
    """An argument or a result: ``kind`` is positions, input, attention, mlp, weighted or
    named; ``name``, of the last two, ``<instance>.<name>``."""

    kind: str
    name: str
    shape: Shape
    element: str


@dataclass(frozen=True)
class ModelFunction:
    """A function that a model calls: ``name`` is one of those above, ``instance`` the
    encoding's, ``symbol`` that by which it is called, ``declaration`` what stands for it in
    the module; it ``draws`` if a training drops some of its elements at random."""

    name: str
    instance: str
    symbol: str
    declaration: str
    arguments: tuple[Role, ...]
    results: tuple[Role, ...]
    draws: bool

    def asks(self, kind: str) -> bool:
        return any(a.kind == kind for a in self.arguments)

    def named(self) -> list[str]:
        return [a.name for a in self.arguments if a.kind in ("named", "weighted")]


def _functions(
    signature: Signature, extents: dict[str, int], tensors: Mapping[str, Shape]
) -> tuple[ModelFunction, ...]:
    found = backend.compiler().functions(
        signature.definitions,
        list(signature.uses),
        definitions.first_folders(),
        extents,
        {role: [-1 if n is None else n for n in shape] for role, shape in tensors.items()},
    )

    def roles(tensors: list, instance: str) -> tuple[Role, ...]:
        return tuple(
            Role(
                kind,
                f"{instance}.{name}" if kind in ("named", "weighted") else kind,
                tuple(None if n < 0 else n for n in dims),
                element,
            )
            for kind, name, dims, element in tensors
        )

    return tuple(
        ModelFunction(
            f["name"], f["instance"], f["symbol"], f["declaration"],
            roles(f["arguments"], f["instance"]), roles(f["results"], f["instance"]),
            f["draws"],
        )
        for f in found
    )


class Around:
    """The functions of a list of encodings, for models of given extents.

    ``tensors``: shapes of a model's tensors by role, without those that it lacks.
    ``first_only``: instances that act in the first layer alone.
    """

    def __init__(
        self,
        signature: Signature,
        extents: dict[str, int],
        tensors: Mapping[str, Shape],
        first_only: Set[str] = frozenset(),
    ):
        self.signature = signature
        self.first_only = first_only
        self.functions = _functions(signature, extents, tensors)
        weighted = [a for f in self.of(AFTER_ATTENTION) for a in f.arguments]
        names = [a.name for a in weighted if a.kind == "weighted"]
        self._values = tuple(dict.fromkeys(names))
        self._changing = self._results(AFTER_ATTENTION) + self._results(AFTER_MLP)

    def of(self, name: str) -> list[ModelFunction]:
        return [f for f in self.functions if f.name == name]

    def acts(self, instance: str, is_first: bool) -> bool:
        """Whether an encoding acts in a layer, which is the first or is not."""
        return is_first or instance not in self.first_only

    def values(self, is_first: bool) -> tuple[str, ...]:
        """Names of the states that attention takes as values, ``<instance>.<name>``."""
        return tuple(n for n in self._values if self.acts(n.partition(".")[0], is_first))

    def _results(self, name: str) -> tuple[str, ...]:
        return tuple(r.name for f in self.of(name) for r in f.results)

    def declarations(self, with_loss: bool) -> str:
        """What stands for the functions in a module; with losses, or without."""
        return "".join(
            f"  {f.declaration}\n"
            for f in self.functions
            if with_loss or f.name != AUXILIARY_LOSS
        )

    def asks(self, kind: str) -> bool:
        """Whether a function takes the model's tensor of a role."""
        return any(f.asks(kind) for f in self.functions)

    def inputs(self, with_loss: bool) -> list[Input]:
        """What the training loop feeds to functions; those that a loss alone sees are
        no inputs of anything else."""
        functions = [f for f in self.functions if with_loss or f.name != AUXILIARY_LOSS]
        used = {name for f in functions for name in f.named()}
        return [
            Input(name, dims, "i32") for name, dims in self.signature.inputs if name in used
        ]

    def random_inputs(self) -> list[Input]:
        """The numbers that dropouts of a training draw from."""
        if not any(f.draws for f in self.functions):
            return []
        return [Input(f"random.{n}", (), "i64", random=n) for n in ("seed", "step")]

    def of_positions(self) -> list[ModelFunction]:
        """The functions of an evaluation whose results follow from positions and parameters
        alone, and are changed by no other."""
        left = {name for name, _ in self.signature.inputs}
        left |= {r.name for f in self.functions for r in f.results}
        found = []
        for function in (*self.of(INITIAL_STATE), *self.of(PRODUCE)):
            results = {r.name for r in function.results}
            named = {a.name for a in function.arguments if a.kind == "named"}
            kinds = {a.kind for a in function.arguments} - {"positions", "named"}
            if not (kinds or named & left or results & set(self._changing)):
                found.append(function)
                left -= results
        return found

    def tables(self) -> dict[str, tuple[ModelFunction, Role]]:
        """What those functions make for attention and for other functions of an
        evaluation, by name."""
        fixed = self.of_positions()
        others = [f for f in self.functions if f not in fixed and f.name != AUXILIARY_LOSS]
        used = self.signature.filled | {name for f in others for name in f.named()}
        return {r.name: (f, r) for f in fixed for r in f.results if r.name in used}

    def varies(self, function: ModelFunction, of_layer: Callable[[str], bool]) -> bool:
        """Whether what a function sees is another in each layer. ``of_layer`` says so of
        parameters and positions."""
        own = set(self._changing)
        if function.name != PRODUCE:
            made = [f for f in self.of(PRODUCE) if self.varies(f, of_layer)]
            own |= {r.name for f in made for r in f.results}
        return any(
            a.kind in ("input", "attention", "mlp", "weighted")
            or a.name in own
            or of_layer(a.name)
            for a in function.arguments
        )


class Calls:
    """The calls that are printed into one function of a model.

    ``first``: the prefix of the first layer. ``lookup``: the value of a parameter, an
    input or the positions by name and layer prefix. ``of_layer``: whether such a value is
    another in each layer. ``left_out``: functions that are not called; what they would
    make is looked up.
    """

    def __init__(
        self,
        around: Around,
        f: Function,
        first: str,
        lookup: Callable[[str, str], Value],
        of_layer: Callable[[str], bool],
        left_out: Collection[ModelFunction] = (),
    ):
        self.around = around
        self.f = f
        self.left_out = left_out
        self.first = first
        self.lookup = lookup
        self.of_layer = of_layer
        self.known: dict[str, Value] = {}
        self.losses: list[Value] = []
        self._done: set[str] = set()

    def __call__(
        self, name: str, prefix: str, tensors: Mapping[str, Value] | None = None
    ) -> None:
        """Calls the functions of a name where the layer ``prefix`` stands; ``tensors`` are
        those that the model has there, by role, and weighted states by name."""
        is_first = name == INITIAL_STATE or prefix == self.first
        for function in self.around.of(name):
            if function.symbol in self._done or function in self.left_out:
                continue
            if not self.around.acts(function.instance, is_first):
                continue
            if not self.around.varies(function, self.of_layer):
                self._done.add(function.symbol)
            operands = [self._operand(a, prefix, tensors or {}) for a in function.arguments]
            with self.f.within(function.symbol):
                results = self.f.call(function.symbol, operands, function.results)
            if name == AUXILIARY_LOSS:
                self.losses += results
            else:
                self.known |= {r.name: v for r, v in zip(function.results, results)}

    def _operand(self, role: Role, prefix: str, tensors: Mapping[str, Value]) -> Value:
        if role.kind == "weighted":
            return tensors[f"weighted {role.name}"]
        own = self.known if role.kind == "named" else tensors
        name = role.name if role.kind == "named" else role.kind
        return own[name] if name in own else self.lookup(name, prefix)

    def values(self, prefix: str, heads: int) -> list[Value]:
        """The states that the attention of a layer takes as values, of as many heads as
        its keys."""
        names = self.around.values(prefix == self.first)
        for name in names:
            if (count := self.made(name, prefix).shape[1]) != heads:
                raise ValueError(
                    f'the state "{name}" has {count} heads, but keys and values of this model '
                    f"have {heads}: it does not go with grouped queries (kv_heads)"
                )
        return [self.made(name, prefix) for name in names]

    def made(self, name: str, prefix: str) -> Value:
        """What functions made by a name, or what stands for it."""
        return self.known[name] if name in self.known else self.lookup(name, prefix)

    def weighted(self, prefix: str, outputs: Iterable[Value]) -> dict[str, Value]:
        """What the attention of a layer made of them, as a call takes it."""
        names = self.around.values(prefix == self.first)
        return {f"weighted {name}": out for name, out in zip(names, outputs, strict=True)}
