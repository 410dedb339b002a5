"""Random encodings as Python source: what a user might write, of bounded numbers.

Nothing jumps where f32 and f64 may disagree on the side: floors and comparisons are
those of integers and of exact products.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

# What a payload may ask of its place.
SCORE, QUERY, KEY, ROW = "score", "query", "key", "row"
INTEGERS = {
    SCORE: ["at.offset", "at.offset", "at.query", "at.key", 'at.coord("query")', 'at.coord("key")'],
    QUERY: ["at.query", 'at.coord("query")'],
    KEY: ["at.key", 'at.coord("key")'],
    ROW: ["at.row", "at.coord()", "at.lane"],
}
SECOND_AXIS = {
    SCORE: ["at.offset(1)", 'at.coord("key", 1)'],
    QUERY: ['at.coord("query", 1)'],
    KEY: ['at.coord("key", 1)'],
    ROW: ['at.coord("self", 1)'],
}


@dataclass
class Source:
    """Draws the body of one encoding; `params` collects what it declares."""

    rng: random.Random
    axes: int
    place: str = SCORE
    params: dict[str, str] = field(default_factory=dict)

    def param(self, *dims: object, **settings: object) -> str:
        name = f"p{len(self.params)}"
        if not settings.get("given") and not settings.get("integer"):
            settings["init"] = "sextant.normal(0.0, 0.5)"
        words = [repr(d) for d in dims] + [f"{k}={v}" for k, v in settings.items()]
        self.params[name] = f"sextant.Param({', '.join(words)})"
        return name

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def depth(self) -> int:
        return self.rng.choice([0, 1, 1, 2, 3])

    # Integers and conditions.

    def plain_integer(self) -> str:
        choices = INTEGERS[self.place] + (SECOND_AXIS[self.place] if self.axes > 1 else [])
        return self.rng.choice(choices)

    def integer(self) -> str:
        n, rng = self.plain_integer(), self.rng
        if self.chance(0.5):
            return n
        return rng.choice([
            lambda: f"({n} % {rng.choice([2, 3, 7, 8])})",
            lambda: f"({n} // {rng.choice([2, 3, 8])})",
            lambda: f"({n} + at.head)",
            lambda: f"({n} + at.batch)",
            lambda: f"({n} * {rng.choice([-1, 2, 3])})",
            lambda: f"sextant.maximum({n}, {rng.choice([-3, 0, 5])})",
            lambda: f"sextant.minimum({n}, {rng.choice([-3, 0, 5, 20])})",
            lambda: f"sextant.where({self.condition()}, {n}, {self.plain_integer()})",
            lambda: f"abs({n})",
            lambda: f"({n} >> 1)",
            lambda: f"({n} & 7)",
        ])()  # fmt: skip

    def condition(self) -> str:
        rng, n = self.rng, self.integer() if self.chance(0.5) else self.plain_integer()
        choices = [
            lambda: f"({n} {rng.choice(['<', '>=', '!=', '=='])} {rng.choice([-4, 0, 1, 3, 20])})",
            lambda: f"({n} % {rng.choice([2, 3, 4])} == {rng.choice([0, 1])})",
            lambda: f"(at.head {rng.choice(['<', '>=', '=='])} {rng.choice([0, 1, 2])})",
            lambda: f"({n} < {self.plain_integer()})",
            lambda: f"({n} < {self.param('batch', integer=True)}[at.batch] * 5)",
            lambda: f"(~({n} >= {rng.choice([0, 2])}))",
        ]
        if self.place == SCORE:
            ids = ("batch", "key")
            choices.append(lambda: f"({self.param(*ids, integer=True)}[at.batch, at.key] > 0)")
        test = rng.choice(choices)()
        if self.chance(0.2):
            test = f"({test} {rng.choice(['&', '|', '^'])} {self.condition()})"
        return test

    # Numbers, of magnitudes that stay small.

    def leaf(self) -> str:
        rng, n = self.rng, self.integer()
        size = rng.choice([3, 8, 17])
        choices = [
            lambda: f"sextant.sin({n} * {rng.choice([0.01, 0.1, 0.37, 1.0])})",
            lambda: f"sextant.cos({n} * {rng.choice([0.01, 0.1, 0.37, 1.0])})",
            lambda: f"sextant.exp(-0.05 * abs({n}))",
            lambda: f"sextant.log1p(0.3 * abs({n}))",
            lambda: f"sextant.sqrt(abs({n}) + 1)",
            lambda: f"({n} * 0.01)",
            lambda: f"(1.0 / (1 + abs({n})))",
            lambda: f"(0.0625 * sextant.floor({n} * 0.25))",
            lambda: f"{self.param('heads')}[at.head]",
            lambda: f"(({n} % 5) * {self.param('heads', frozen=True)}[at.head])",
            lambda: f"sextant.where({self.condition()}, {self.param('heads')}[at.head], 0.25)",
            lambda: f"{self.param(size)}[{n} % {size}]",
            lambda: f"{self.param('heads', size)}[at.head, {n} % {size}]",
            lambda: self.param(),
            lambda: "at.scale",
        ]
        if self.place in (SCORE, KEY):
            gates = ("batch", "heads", "key")
            choices.append(lambda: f"{self.param(*gates, given=True)}[at.batch, at.head, at.key]")
        return rng.choice(choices)()

    def number(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.25):
            return self.leaf()
        a, rng = self.number(depth - 1), self.rng

        def other() -> str:
            return self.number(depth - 1)

        return rng.choice([
            lambda: f"({a} + {other()})",
            lambda: f"({a} - {other()})",
            lambda: f"({a} * {other()})",
            lambda: f"sextant.tanh({a})",
            lambda: f"sextant.sigmoid({a})",
            lambda: f"sextant.where({self.condition()}, {a}, {other()})",
            lambda: f"({a} / (1.5 + sextant.sin({other()})))",
            lambda: f"sextant.exp(-({a}) * ({a}))",
            lambda: f"sextant.maximum({a}, {rng.choice([0.1, -0.2])})",
            lambda: f"abs({a})",
            lambda: self.sum(a),
        ])()  # fmt: skip

    def sum(self, a: str) -> str:
        width = self.rng.choice([1, 3, 5])
        p = self.param(width)
        if self.chance(0.5):
            n = self.integer()
            return f"sextant.sum(lambda k: {p}[k] * sextant.cos({n} * 0.1 * (k + 1)), {width})"
        q, b = self.param("heads", width), self.param(width)
        unit = f"sextant.relu({p}[k] * {a} + {b}[k])"
        return f"sextant.sum(lambda k: {q}[at.head, k] * {unit}, {width})"
