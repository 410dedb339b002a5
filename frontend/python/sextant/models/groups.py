"""Which parameters of a model are trained, and which have settings of their own.

Both are said by patterns. A pattern names parameters by a part of their dotted names:
``fire`` all parameters of the encoding with that instance name, in every layer;
``layers.0`` those of the first layer; ``norm`` the norms of all layers (digits may
follow a word: norm1, norm2). One with ``*``, ``?`` or ``[`` is matched with the whole
name, as file names are.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from ..errors import nearest
from .printer import Parameter, number


@dataclass(frozen=True)
class Group:
    """Settings of the optimizer for the parameters that ``pattern`` names: ``rate``
    times the learning rate of a step; weight decay ``decay``, where parameters decay
    (None: the model's); ``clip``, the bound on the norm of their gradients alone (0:
    none; None: they are clipped together with the others).

    >>> Group.parse("fire: rate=0.5, clip=5")
    Group(pattern='fire', rate=0.5, decay=None, clip=5.0)
    """

    pattern: str
    rate: float = 1.0
    decay: float | None = None
    clip: float | None = None

    def __post_init__(self):
        if not self.pattern:
            raise ValueError("a group of parameters needs a pattern")
        for name in ("rate", "decay", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(
                    f'group "{self.pattern}": {name} must be finite and not negative, got {value}'
                )

    @staticmethod
    def parse(text: str) -> Group:
        """From text such as ``fire: rate=0.5, decay=0, clip=5``."""
        pattern, _, rest = text.partition(":")
        known = [f.name for f in fields(Group) if f.name != "pattern"]
        settings = {}
        for part in filter(None, (p.strip() for p in rest.replace(",", " ").split())):
            name, equals, value = part.partition("=")
            if name not in known:
                raise ValueError(f'group "{text}": unknown setting "{name}"{nearest(name, known)}')
            try:
                settings[name] = float(value)
            except ValueError:
                raise ValueError(
                    f'group "{text}": {name}{equals}{value} is no number; '
                    'groups are written as "NAME: rate=0.5, clip=5"'
                ) from None
        if not settings:
            raise ValueError(
                f'group "{text}" has no settings; groups are written as "NAME: rate=0.5, clip=5"'
            )
        return Group(pattern.strip(), **settings)

    def text(self) -> str:
        """As the attribute of the optimizer has it."""
        text = f'#nn.group<"{self.pattern}" rate = {number(self.rate)}'
        text += f" decay = {number(self.decay)}" if self.decay is not None else ""
        text += f" clip = {number(self.clip)}" if self.clip is not None else ""
        return text + ">"


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern names a parameter."""
    if any(c in pattern for c in "*?["):
        return fnmatch.fnmatchcase(name, pattern)
    wanted, parts = pattern.split("."), name.split(".")
    last = wanted[-1]

    def ends(part: str) -> bool:
        rest = part.removeprefix(last)
        return part == last or (part != rest and rest.isdigit() and not last[-1:].isdigit())

    return any(
        parts[i : i + len(wanted) - 1] == wanted[:-1] and ends(parts[i + len(wanted) - 1])
        for i in range(len(parts) - len(wanted) + 1)
    )


def arrange(
    parameters: Iterable[Parameter], groups: Sequence[Group], trained: Sequence[str]
) -> list[Parameter]:
    """The parameters with the first of ``groups`` that names each, and, if there are
    patterns ``trained``, those frozen that none of them names. A pattern that names no
    parameter that can be trained is an error, and so is a group that changes none."""
    parameters = list(parameters)
    free = [p.name for p in parameters if not p.frozen]
    for pattern in [*(g.pattern for g in groups), *trained]:
        if not any(matches(pattern, name) for name in free):
            words = {part for name in free for part in name.split(".") if not part.isdigit()}
            raise ValueError(
                f'"{pattern}" names no parameter that can be trained{nearest(pattern, words)}'
            )
    twice = [g.pattern for g in groups]
    if len(set(twice)) < len(twice):
        raise ValueError(f"two groups have one pattern: {', '.join(sorted(twice))}")

    def arranged(parameter: Parameter) -> Parameter:
        name = parameter.name
        group = next((g.pattern for g in groups if matches(g.pattern, name)), "")
        frozen = bool(trained) and not any(matches(t, name) for t in trained)
        return replace(parameter, group=group, frozen=parameter.frozen or frozen)

    found = [arranged(p) for p in parameters]
    for own in groups:
        _check_group(own, [p for p in found if matches(own.pattern, p.name)])
    return found


def _check_group(group: Group, named: Sequence[Parameter]) -> None:
    """A group that changes nothing of the parameters that it names is an error: all of them
    are of groups before it, or frozen, or its weight decay finds none that decays."""
    trained = [p for p in named if not p.frozen]
    own = [p for p in trained if p.group == group.pattern]
    if not own:
        others = ", ".join(f'"{name}"' for name in dict.fromkeys(p.group for p in trained))
        raise ValueError(
            f'group "{group.pattern}" changes nothing: '
            + (f"a parameter is of the first group that names it, here {others}" if others
               else "what it names is frozen")
        )
    if group.decay and not any(p.decay for p in own):
        raise ValueError(
            f'group "{group.pattern}": decay {group.decay:g} changes nothing: matrices of the model '
            f"decay, and biases, norms and what encodings learn, such as {own[0].name}, do not"
        )
