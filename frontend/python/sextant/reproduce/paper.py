"""What a paper compares, as data: methods, its tables, and orderings that hold in it.

A paper is a module of `papers`; what trains, evaluates and reports knows none of them.
Texts of encodings and settings are templates of the sizes of a scale (`Scale.sizes`):
``fire(threshold={eighth})``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .claims import Ordering


@dataclass(frozen=True)
class Scale:
    """How large models and texts are: ``settings`` of `TrainConfig`; ``multiples`` of the
    training length at which runs are evaluated, all their tokens and the ``last`` ones of
    a block, on ``blocks`` blocks of the longest length or on all that there are."""

    name: str
    settings: Mapping[str, object]
    multiples: tuple[int, ...] = (1, 2, 4, 8, 16)
    last: int = 64
    blocks: int = 64

    @property
    def validation(self) -> int:
        """Bytes of text that an evaluation takes."""
        return self.blocks * max(self.multiples) * self.length + 1

    @property
    def length(self) -> int:
        """Of a training block."""
        return self._integer("length")

    def _integer(self, name: str) -> int:
        value = self.settings[name]
        assert isinstance(value, int)
        return value

    def sizes(self) -> dict[str, float]:
        """What templates may name: the training ``length``, an ``eighth`` of it, ``twice`` of
        it, and what of a ``quarter`` is for each of its tokens; ``beyond``, twice the longest
        length of an evaluation, and the number of decimal ``digits`` of positions below it;
        four for each head, ``gates``."""
        beyond = 2 * max(self.multiples) * self.length
        return {
            "length": self.length,
            "twice": 2 * self.length,
            "eighth": max(self.length // 8, 1),
            "quarter": 0.25 / self.length,
            "beyond": beyond,
            "digits": len(str(beyond - 1)),
            "gates": 4 * self._integer("heads"),
        }


@dataclass(frozen=True)
class Method:
    """What a paper trains. ``name``: of folders, and by which orderings speak of it.
    ``encodings`` and texts of ``settings`` (of `TrainConfig`, besides the paper's) are
    templates. ``begins``: the method with whose parameters this one begins. ``cost``:
    the time of a step, in steps of a model without encodings. ``about``: in what it
    differs from the paper's, or which of its settings it has."""

    name: str
    title: str
    encodings: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    begins: str = ""
    cost: float = 1.0
    about: str = ""


@dataclass(frozen=True)
class Variation:
    """An evaluation of a method's runs with other values of encodings' options."""

    name: str
    title: str
    of: str
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Published:
    """A table of the paper. ``rows``: by method or variation, a number for each of
    ``columns``, the first ones where there are fewer. ``last``: losses of the last tokens
    of blocks stand beside it, not of all."""

    title: str
    unit: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    last: bool = False


@dataclass(frozen=True)
class Drawing:
    """A figure of a trained method: ``draw`` makes an <svg> element of a run's folder."""

    title: str
    text: str
    method: str
    draw: Callable[[Path], str]


@dataclass(frozen=True)
class Paper:
    """``name``: as the command line has it. ``settings``: of `TrainConfig`, of all methods;
    ``about``: what of the paper's protocol is kept, and what is smaller."""

    name: str
    title: str
    source: str
    about: str
    methods: tuple[Method, ...]
    tables: tuple[Published, ...]
    orderings: tuple[Ordering, ...]
    variations: tuple[Variation, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    drawings: tuple[Drawing, ...] = ()
    titles: Mapping[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self):
        titles: dict[str, str] = {}
        for item in (*self.methods, *self.variations):
            if item.name in titles:
                raise ValueError(f'the paper "{self.name}" has two methods "{item.name}"')
            if begins := getattr(item, "begins", "") or getattr(item, "of", ""):
                if begins not in titles:
                    raise ValueError(f'"{item.name}" comes before "{begins}", which it needs')
            titles[item.name] = item.title
        object.__setattr__(self, "titles", titles)
        named = [n for o in self.orderings for n in o.methods]
        named += [n for table in self.tables for n in table.rows]
        named += [drawing.method for drawing in self.drawings]
        for name in named:
            if name not in titles:
                raise ValueError(f'the paper "{self.name}" has no method "{name}"')
