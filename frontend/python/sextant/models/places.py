"""Where the encodings of a model act, and the parameters that come with them.

An encoding whose sites are row maps of the embedding acts once, on the token
embeddings; row maps of the projections' inputs act in every layer before the
projection; all else acts inside attention.

An encoding may leave to its option `LAYERS` whether it acts in all layers of a model
or in the first alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .. import definitions
from ..declared import ParamInfo, Signature
from ..definitions import EncodingLike, InitialValue
from ..trace.tracer import Encoding
from ..uses import parse_use
from .printer import Input, Parameter, nested, number, tensor_type

EMBEDDING = "embedding"
PROJECTIONS = ("query_input", "key_input", "value_input")
ATTENTION = "attention"

# Option of an encoding that says in which layers of a model it acts, and what it may be.
LAYERS = "layers"
_ALL, _FIRST = "all", "first"


@dataclass(frozen=True)
class Placed:
    """The encodings of one place: their uses, in order, as one signature."""

    signature: Signature

    @property
    def uses(self) -> tuple[str, ...]:
        return self.signature.uses


def place(encodings: Iterable[EncodingLike]) -> dict[str, Placed]:
    """The encodings by place (`EMBEDDING`, one of `PROJECTIONS`, `ATTENTION`)."""
    groups: dict[str, list[EncodingLike]] = {}
    for encoding in encodings:
        for where in _places(encoding):
            groups.setdefault(where, []).append(encoding)
    return {w: Placed(definitions.signature(g)) for w, g in groups.items()}


def acts_in(encoding: EncodingLike, layer: int) -> bool:
    """Whether an encoding acts in a layer of a model, counted from 0."""
    return layer == 0 or not _is_for_the_first(encoding)


def first_only(encodings: Iterable[EncodingLike]) -> frozenset[str]:
    """Instances of the encodings that act in the first layer alone."""
    return frozenset(
        parse_use(str(encoding)).instance for encoding in encodings if not acts_in(encoding, 1)
    )


def _is_for_the_first(encoding: EncodingLike) -> bool:
    use = parse_use(str(encoding))
    name = encoding if isinstance(encoding, Encoding) else use.encoding
    for option in definitions.describe(name).options:
        if option.name == LAYERS and set(option.choices) == {_ALL, _FIRST}:
            return use.options.get(LAYERS, option.default) == _FIRST
    return False


def _places(encoding: EncodingLike) -> list[str]:
    found = definitions.signature([encoding])
    outside = [o for o in (EMBEDDING, *PROJECTIONS) if o in found.operands]
    inside = not outside or found.operands - set(outside) or _has_scores(encoding)
    return outside + ([ATTENTION] if inside else [])


def _has_scores(encoding: EncodingLike) -> bool:
    """Whether an encoding acts on scores, masks or outputs."""
    name = encoding if isinstance(encoding, Encoding) else parse_use(str(encoding)).encoding
    places = definitions.describe(name).places
    return any(not place.startswith("rows") for place in places)


def parameters(
    signature: Signature, prefix: str, extents: dict[str, int]
) -> tuple[list[Parameter], list[Input]]:
    """The parameters that attention takes of some encodings, named below ``prefix``, and
    the tensors that the caller gives at every call (ids, lengths), under their own names.
    What functions of the encodings make is neither."""
    _check_sizes(signature, extents)
    given = [
        Input(info.name, (None,) * info.rank, info.element)
        for info in signature.params
        if info.given and info.name not in signature.filled
    ]
    made = [info for info in signature.params if not info.given]
    return _parameters(signature, made, prefix, extents), given


def model_parameters(
    signature: Signature, prefix: str, extents: dict[str, int]
) -> list[Parameter]:
    """The parameters that only functions of some encodings see."""
    return _parameters(signature, signature.model_params, prefix, extents)


# Extents that differ from call to call; a model's parameters do not.
_OF_THE_CALL = ("batch", "query", "key")


def _check_sizes(signature: Signature, extents: dict[str, int]) -> None:
    sizes = [
        definitions.shapes(signature, extents | dict.fromkeys(_OF_THE_CALL, n)) for n in (1, 2)
    ]
    for info in signature.params:
        if not info.given and sizes[0][info.name] != sizes[1][info.name]:
            raise ValueError(
                f'parameter "{info.name}" [{", ".join(info.dims)}] has the size of a call, which '
                "a model's parameters cannot have: give it a fixed size, by an option say"
            )


def _parameters(
    signature: Signature, infos: Sequence[ParamInfo], prefix: str, extents: dict[str, int]
) -> list[Parameter]:
    names = tuple(info.name for info in infos)
    starts = _starts(signature, names, definitions.first_folders(), tuple(extents.items()))
    return [
        Parameter(
            f"{prefix}.{info.name}",
            shape,
            init,
            frozen=not info.trained,
            floor=info.floor,
            ceiling=info.ceiling,
        )
        for info, (shape, init) in zip(infos, starts)
    ]


# The layers of a model ask the same.
@functools.lru_cache(maxsize=8)
def _starts(
    signature: Signature, names: tuple[str, ...], folders: str, extents: tuple[tuple[str, int], ...]
) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and initial values, as a model spells these, of parameters that are found in
    ``folders``."""
    found = definitions.initial_values(signature, names, dict(extents))
    return [(value.shape, _spell(value)) for value in found.values()]


def _spell(value: InitialValue) -> str:
    if value.kind == "values":
        values = nested([number(float(n)) for n in value.numbers], list(value.shape))
        return f"given values dense<{values}> : {tensor_type(value.shape, 'f32')}"
    return f"{value.kind} [{', '.join(number(float(n)) for n in value.numbers)}]"
