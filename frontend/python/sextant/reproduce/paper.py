"""What a paper compares, as data: methods, its tables, and orderings that hold in it.

A paper is a module of `papers`; what trains, evaluates and reports knows none of them.
Texts of encodings and settings are templates of the sizes of a scale (`scale.Scale.sizes`):
``fire(threshold={eighth})``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .claims import Ordering
from .scale import Scale
from .scales import TEXT


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
    ``columns``, the first ones where there are fewer. ``protocol``: the measure of here that
    stands beside it, by default the scale's first."""

    title: str
    unit: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    protocol: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure of a trained method: ``draw`` makes an <svg> element of a run's folder and, if
    it is one ``of_query``, of the query that a user chose, None for one of its own. ``name``:
    by which remarks speak of it."""

    name: str
    title: str
    text: str
    method: str
    draw: Callable[..., str]
    of_query: bool = False


@dataclass(frozen=True)
class Paper:
    """``name``: as the command line has it. ``settings``: of `TrainConfig`, of all methods;
    ``about``: what of the paper's protocol is kept, and what is smaller. ``scales``: by name."""

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
    scales: Mapping[str, Scale] = field(default_factory=lambda: TEXT)
    titles: Mapping[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self):
        needs = {method.name: method.begins for method in self.methods}
        needs |= {variation.name: variation.of for variation in self.variations}
        titles: dict[str, str] = {}
        for name, title in self._titled():
            if name in titles:
                raise ValueError(f'the paper "{self.name}" has two methods "{name}"')
            if needs[name] and needs[name] not in titles:
                raise ValueError(f'"{name}" comes before "{needs[name]}", which it needs')
            titles[name] = title
        object.__setattr__(self, "titles", titles)
        named = [n for o in self.orderings for n in o.methods]
        named += [n for table in self.tables for n in table.rows]
        named += [drawing.method for drawing in self.drawings]
        for name in named:
            if name not in titles:
                raise ValueError(f'the paper "{self.name}" has no method "{name}"')

    @property
    def remarked(self) -> list[str]:
        """Names of what remarks can be on: orderings and figures."""
        return [o.name for o in self.orderings] + [d.name for d in self.drawings]

    def _titled(self) -> list[tuple[str, str]]:
        """Names and titles of what can have losses."""
        methods = [(method.name, method.title) for method in self.methods]
        return methods + [(variation.name, variation.title) for variation in self.variations]
