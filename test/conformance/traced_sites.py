"""Random encodings of every site, as Python source."""

from __future__ import annotations

import random
from dataclasses import dataclass

from traced_sources import KEY, QUERY, ROW, Source


@dataclass
class Traced:
    """Source of one encoding. `takes_hosts`: it reads what hosts add. `columns`: its
    parameters become operands of products. `rows`: they map rows."""

    name: str
    source: str
    takes_hosts: bool = False
    columns: bool = False
    rows: bool = False


def _score(draw: Source) -> tuple[str, str, str]:
    x, rng = draw.number(draw.depth()), draw.rng
    body = rng.choice([
        lambda: f"score + {x}",
        lambda: f"score + {x}",
        lambda: f"score - {x} * {draw.leaf()}",
        lambda: f"score * (1 + 0.3 * sextant.tanh({x}))",
        lambda: f"3.0 * sextant.tanh(score / 3.0) + {x}",
        lambda: f"sextant.where({draw.condition()}, score, score * 0.5 + {x})",
        lambda: f"score + sextant.sin(score) * {x}",
        lambda: x,
        lambda: f"score + at.host * sextant.tanh({x}) + at.host",
        lambda: f"score + sextant.sigmoid(score + {x})",
    ])()  # fmt: skip
    return "@sextant.encoding", "score, at", body


def _mask(draw: Source) -> tuple[str, str, str]:
    some = " | (at.key == at.query) | (at.key == 0)" if draw.chance(0.6) else ""
    return "@sextant.mask", "at", draw.condition() + some


def _of_tokens(draw: Source, side: str, group: str) -> str:
    """What a map of rows makes of given rows of the same tokens, [batch, heads, length, head dim]
    or one for the whole batch."""
    heads = "heads" if side == "query" else "kv_heads"
    batch, element = draw.rng.choice([("batch", "at.batch"), (1, "0")])

    def read() -> str:
        given = draw.param(batch, heads, side, "head_dim", given=True)
        return f"{given}[{element}, at.head, at.tensor_row, at.lane]"

    if group == "single":
        return draw.rng.choice([lambda: f"x * {read()}", lambda: f"x + {read()}"])()
    c, s = read(), read()
    return f"(x * {c} - y * {s}, x * {s} + y * {c})"


def _rows(draw: Source) -> tuple[str, str, str]:
    rng, draw.place = draw.rng, ROW
    of = rng.choice([["query", "key"], ["query"], ["key"], ["value"], ["query", "key", "value"]])
    group = rng.choice(["half", "interleaved", "single", "single"])
    lanes = rng.choice([None, None, (0, 8), (4, 12), (8, 0)])
    site = f"@sextant.rows(of={of}, group={group!r}, lanes={lanes})"
    a = draw.number(draw.depth())
    if of in (["query"], ["key"]) and draw.chance(0.6):
        return site, "x, at" if group == "single" else "x, y, at", _of_tokens(draw, of[0], group)
    if group == "single":
        heads = "heads" if of == ["query"] else "kv_heads"
        body = rng.choice([
            lambda: f"x * (1 + 0.3 * {a})",
            lambda: f"x + {a}",
            lambda: f"x + {draw.param(16, 256)}[at.row % 16, at.lane]",
            lambda: f"x * (1 + {draw.param(heads, 256)}[at.head, at.lane])",
        ])()  # fmt: skip
        return site, "x, at", body
    angle = rng.choice([a, a, "at.coord() * sextant.exp(-0.3 * at.lane)"])
    c, s = f"sextant.cos({angle})", f"sextant.sin({angle})"
    body = rng.choice([f"(x * {c} - y * {s}, x * {s} + y * {c})", f"(y, x + 0.1 * {a})"])
    return site, "x, y, at", body


def _tokens(draw: Source) -> tuple[str, str, str]:
    draw.place, side = ROW, draw.rng.choice(["query", "key"])
    group = draw.rng.choice(["half", "interleaved", "single"])
    site = f"@sextant.rows(of={[side]}, group={group!r}, lanes=None)"
    return site, "x, at" if group == "single" else "x, y, at", _of_tokens(draw, side, group)


def _heads(draw: Source) -> tuple[str, str, str]:
    rng, units = draw.rng, draw.rng.choice([1, 4, 8, 13])
    function = rng.choice(["sextant.relu", "sextant.tanh"])

    def network(inputs: str, seen: str) -> str:
        w, b, out = draw.param(units, inputs), draw.param(units), draw.param("heads", units)
        return f"sextant.contract({out}, {function}({seen.replace('W', w)} + {b}))"

    both = "sextant.contract(W, scores, 0) + sextant.contract(W, at.host, at.extent('heads'))"
    body = rng.choice([
        lambda: f"scores + 0.3 * sextant.contract({draw.param('heads', 'heads')}, scores)",
        lambda: f"scores + {network('heads', 'sextant.contract(W, scores)')}",
        lambda: f"scores + at.host + {network('2 * heads', both)}",
        lambda: f"scores * (1 + 0.2 * sextant.tanh({draw.param('heads')} * at.offset * 0.1))",
        lambda: f"scores + at.host + {draw.param('heads')} * {draw.leaf()}",
    ])()  # fmt: skip
    return "@sextant.encoding(all_heads=True)", "scores, at", body


def _columns(draw: Source) -> tuple[str, str, str]:
    count, depth = draw.rng.choice([1, 2, 3, 8, 17]), draw.rng.choice([0, 1])
    draw.place = QUERY
    a = draw.number(depth)
    draw.place = KEY
    b = draw.number(depth)
    if draw.chance(0.5):
        # The first queries have negative indices where there are fewer keys.
        row = "at.query % at.extent('query')"
        a = f"{draw.param('query', count, given=True)}[{row}, at.lane] * {a}"
        b = f"{draw.param('key', count, given=True)}[at.key, at.lane] * {b}"
    else:
        # Where columns are rounded, moved parameters stand for that (`rounds_params`).
        a = f"{draw.param(count)}[at.lane] * {a}"
    return f"@sextant.columns({count})", "at", f"({a}, {b})"


# Each gives the decorator, the arguments before parameters, and what is returned.
SITES = {"score": _score, "mask": _mask, "rows": _rows, "heads": _heads, "columns": _columns}
# A map by rows of the same tokens, which drawn maps are too seldom to count on.
TOKENS = "tokens"


def draw_traced(rng: random.Random, name: str, axes: int, site: str = "") -> Traced:
    """An encoding called `name`, of some site or that one, that may ask for that many axes of
    positions."""
    site = site or rng.choice(["score", "score", "score", *SITES])
    draw = Source(rng, axes)
    decorator, given, body = (SITES | {TOKENS: _tokens})[site](draw)
    params = "".join(f", {n}: {annotation}" for n, annotation in draw.params.items())
    source = f"{decorator}\ndef {name}({given}{params}):\n    return {body}\n"
    maps_rows = site in ("rows", TOKENS) and bool(draw.params)
    return Traced(name, source, "at.host" in body, site == "columns", maps_rows)
