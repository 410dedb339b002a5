"""Where the encodings of a model act, and the parameters that come with them.

An encoding whose sites are row maps of the embedding acts once, on the token
embeddings; row maps of the projections' inputs act in every layer before the
projection; all else acts inside attention.

An encoding may leave to its option `LAYERS` whether it acts in all layers of a model
or in the first alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .. import backend, definitions
from ..definitions import EncodingLike, ParamInfo, Signature
from ..uses import parse_use
from .printer import Input, Parameter, number

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
    name = use.encoding if isinstance(encoding, str) else encoding
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
    if isinstance(encoding, str):
        encoding = parse_use(encoding).encoding
    places = definitions.describe(encoding).places
    return any(not place.startswith("rows") for place in places)


def parameters(
    signature: Signature, prefix: str, extents: dict[str, int]
) -> tuple[list[Parameter], list[Input]]:
    """The parameters that attention takes of some encodings, named below ``prefix``, and
    the tensors that the caller gives at every call (ids, lengths), under their own names.
    What functions of the encodings make is neither."""
    made, given = [], []
    _check_sizes(signature, extents)
    for info in signature.params:
        if not info.given:
            made.append(_parameter(signature, info, prefix, extents))
        elif info.name not in signature.filled:
            given.append(Input(info.name, (None,) * info.rank, info.element))
    return made, given


def model_parameters(
    signature: Signature, prefix: str, extents: dict[str, int]
) -> list[Parameter]:
    """The parameters that only functions of some encodings see."""
    return [_parameter(signature, i, prefix, extents) for i in signature.model_params]


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


def _parameter(
    signature: Signature, info: ParamInfo, prefix: str, extents: dict[str, int]
) -> Parameter:
    kind, numbers, shape = backend.compiler().initial_values(
        signature.definitions,
        list(signature.uses),
        definitions.first_folders(),
        info.name,
        extents,
    )
    if kind == "values":
        values = _nested([number(float(n)) for n in numbers], list(shape))
        init = f"given values dense<{values}> : {Parameter('', tuple(shape), '').type}"
    else:
        init = f"{kind} [{', '.join(number(float(n)) for n in numbers)}]"
    return Parameter(
        f"{prefix}.{info.name}",
        tuple(shape),
        init,
        frozen=not info.trained,
        floor=info.floor,
        ceiling=info.ceiling,
    )


def _nested(values: list[str], shape: list[int]) -> str:
    if not shape:
        return values[0]
    if 0 in shape:
        return ""
    step = len(values) // shape[0]
    parts = [_nested(values[i : i + step], shape[1:]) for i in range(0, len(values), step)]
    return f"[{', '.join(parts)}]"
