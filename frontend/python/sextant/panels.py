"""What a picture of an encoding shows, as numbers.

It follows from the places at which the encoding acts: a score over distance, rotated
rows by the score of equal rows over distance, embeddings by what they become, a mask
by what it shows. A score that depends on the contents of rows
(on other heads, on the query row, on the keys between) is drawn for a text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from . import definitions, initial, probe
from .curves import in_buckets
from .declared import ParamInfo, Signature
from .rowmaps import OPERANDS, map_rows
from .uses import Use

# Places at which a score depends on more than itself and positions.
_CONTENT = {"score of all heads", "query_dot", "key_dot", "scan", "columns"}
# Deviation of what is added to parameters at which an encoding does nothing.
_MOVED = 0.1
_MASK_LENGTH = 384
_TEXT_LENGTH = 64
_DISTANCES = 256
# Rows and columns of a grid.
_SIDE = 16
# Columns of a map of lanes, and pairs of rows that are computed at a time.
_COLUMNS = 512
_PAIRS = 2**15
# Entries of an image, and of all heads' scores, at most.
_ENTRIES = 2**22
ADDED = "added to the score"


@dataclass
class Panel:
    """Part of a picture: curves (label, x, y), or an image [rows, columns] whose
    first entries stand at ``corner`` (x, y). ``centred``: its colours are symmetric
    around 0. ``letters``: what the columns, and a square image's rows, are.
    ``step``: how far the columns of an image stand apart. ``buckets``: the curves are
    constant over growing stretches of x."""

    title: str
    x: str
    y: str
    curves: list[tuple[str, torch.Tensor, torch.Tensor]] = field(default_factory=list)
    image: torch.Tensor | None = None
    corner: tuple[int, int] = (0, 0)
    centred: bool = False
    letters: str = ""
    step: int = 1
    buckets: bool = False


@dataclass
class Subject:
    """What is drawn: a use, its parameters, the extents of the attention, and the
    text that rows stand for (empty: each row is another). ``note`` says where the
    parameters come from."""

    use: Use
    params: dict[str, torch.Tensor]
    heads: int = 4
    head_dim: int = 64
    length: int = 0
    seed: int = 0
    text: bytes = b""
    note: str = "initial parameters"

    @property
    def signature(self) -> Signature:
        return definitions.signature([str(self.use)])

    @property
    def places(self) -> tuple[str, ...]:
        return definitions.describe(self.use.encoding).places

    def length_or(self, default: int) -> int:
        return self.length or default


# Parameters and rows ---------------------------------------------------------


def _extents(subject: Subject, length: int) -> dict[str, int]:
    return {
        "batch": 1,
        "heads": subject.heads,
        "kv_heads": subject.heads,
        "head_dim": subject.head_dim,
        "value_dim": subject.head_dim,
        "model": subject.heads * subject.head_dim,
        "query": length,
        "key": length,
    }


def initial_params(subject: Subject) -> dict[str, torch.Tensor]:
    """Initial values; where the encoding then adds nothing to a score, trained ones
    are moved, and the note says so."""
    found = subject.signature
    extents = _extents(subject, _own_length(subject))
    made = [p for p in found.params if not p.given]
    params = initial.values(found, made, extents, subject.seed, torch.float64)
    shapes = definitions.shapes(found, extents)
    # Other numbers than those of the rows, which a product with themselves would make positive.
    draw = torch.Generator().manual_seed(subject.seed + 2**31)
    examples = [param for param in found.params if param.given]
    for param in examples:
        params[param.name] = _example(param, shapes[param.name], extents["key"], draw)
    if examples:
        subject.note = f"example values of {', '.join(param.name for param in examples)}"
    if _CONTENT & set(subject.places):
        subject.params = params
        added = _added(subject)
        if not bool((added.nan_to_num().abs() > 1e-9).any()):
            subject.note = f"trained parameters moved by N(0, {_MOVED}): at first it adds nothing"
            for param in found.params:
                if param.trained:
                    shape = shapes[param.name]
                    noise = torch.randn(shape, generator=draw, dtype=torch.float64)
                    params[param.name] = params[param.name] + _MOVED * noise
    initial.project(params, found)
    return params


def _example(
    param: ParamInfo, shape: tuple[int, ...], length: int, draw: torch.Generator
) -> torch.Tensor:
    """Values of a parameter that callers give: numbers are drawn; integers count
    thirds of the length, or are a third of it."""
    if param.element == "f32":
        return torch.randn(shape, generator=draw, dtype=torch.float64)
    for dim, name in enumerate(param.dims):
        if name in ("query", "key"):
            steps = torch.arange(shape[dim], dtype=torch.int32) * 3 // max(shape[dim], 1)
            alone = [-1 if d == dim else 1 for d in range(len(shape))]
            return steps.reshape(alone).expand(shape).contiguous()
    return torch.full(shape, length // 3, dtype=torch.int32)


def _own_length(subject: Subject) -> int:
    """Keys of the picture, for parameters that are sized by them."""
    if subject.text:
        return len(subject.text)
    is_mask = "mask" in subject.places
    return subject.length_or(_MASK_LENGTH if is_mask else _TEXT_LENGTH)


def _rows(subject: Subject) -> tuple[torch.Tensor, torch.Tensor]:
    """Query and key [heads, length, head dim]: normal, equal for equal letters."""
    draw = torch.Generator().manual_seed(subject.seed)
    count = 256 if subject.text else _own_length(subject)
    shape = (2, subject.heads, count, subject.head_dim)
    rows = torch.randn(shape, generator=draw, dtype=torch.float64)
    if subject.text:
        rows = rows[:, :, torch.tensor(list(subject.text))]
    return rows[0], rows[1]


# Panels ------------------------------------------------------------------------


def make_panels(subject: Subject) -> list[Panel]:
    """What the encoding does, place by place; a `ValueError` when it has none."""
    found, places = subject.signature, subject.places
    panels: list[Panel] = []
    sized = any(d in ("query", "key") for p in found.params for d in p.dims)
    inside = "score" in places or found.operands & {"query", "key"}
    if _CONTENT & set(places) or (inside and sized):
        panels += _content_panels(subject)
    else:
        if found.operands & {"query", "key"}:
            panels += _rotation_panels(subject)
        if "score" in places:
            panels += _score_panels(subject)
    if "mask" in places:
        panels.append(_mask_panel(subject))
    outside = [o for o in OPERANDS if o in found.operands]
    panels += [_rows_panel(subject, operand) for operand in outside]
    if not panels:
        raise ValueError(
            f'"{subject.use}" acts at {", ".join(places) or "no place"}, of which there is '
            "no picture"
        )
    return panels


def _heads(values: torch.Tensor, x: torch.Tensor) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
    """One curve per head of [heads, n]."""
    return [(f"head {h}", x, row) for h, row in enumerate(values)]


def _zeros(subject: Subject) -> torch.Tensor:
    return torch.zeros(1, subject.heads, subject.head_dim, dtype=torch.float64)


def _is_of_grids(subject: Subject) -> bool:
    return definitions.axes([str(subject.use)]) > 1


def _pairs(subject: Subject, distances: torch.Tensor, score: float = 0.0) -> torch.Tensor:
    """[heads, n] of mapped scores of pairs whose score is ``score``."""
    query, key = _zeros(subject), _zeros(subject)
    query[..., 0], key[..., 0] = score, subject.head_dim**0.5
    return probe.pair_scores([str(subject.use)], subject.params, query, key, distances)


def _score_panels(subject: Subject) -> list[Panel]:
    length = subject.length_or(_DISTANCES)
    first, second = (probe.along(length, axis) for axis in (0, 1))
    bias = _pairs(subject, first)
    if not torch.allclose(_pairs(subject, first, 2.0), bias + 2.0, rtol=1e-9, atol=1e-9):
        return _curved_panels(subject, first)
    flat = _pairs(subject, second)
    if (flat != flat[:, :1]).any():
        return _grid_panels(subject)
    buckets = any(in_buckets(row.tolist()) for row in bias)
    curves = _heads(bias, first[:, 0])
    return [Panel("bias", "distance", ADDED, curves, buckets=buckets)]


def _curved_panels(subject: Subject, distances: torch.Tensor) -> list[Panel]:
    """Scores that are not just added to: their factor and bias over distance, or
    curves for some scores; over the score if distance is of no matter."""
    levels = {s: _pairs(subject, distances, s) for s in (4.0, 2.0, 0.0, -2.0, -4.0)}
    x = distances[:, 0]
    if any((v != v[:, :1]).any() for v in levels.values()):
        bias, factor = levels[0.0], (levels[4.0] - levels[0.0]) / 4
        if all(torch.allclose(v, bias + s * factor) for s, v in levels.items()):
            return [
                Panel("factor", "distance", "factor on the score", _heads(factor, x)),
                Panel("bias", "distance", ADDED, _heads(bias, x)),
            ]
        return [
            Panel(
                f"head {head}",
                "distance",
                "mapped score",
                [(f"score {s:g}", x, values[head]) for s, values in levels.items()],
            )
            for head in range(subject.heads)
        ]
    here, reach = distances[:1], 4.0
    while reach < 1024 and (_pairs(subject, here, reach) - reach).abs().max() < 0.3 * reach:
        reach *= 2
    x = torch.linspace(-2 * reach, 2 * reach, 101)
    values = torch.cat([_pairs(subject, here, float(s)) for s in x], 1)
    if (values == values[:1]).all():
        return [Panel("score", "score", "mapped score", [("", x, values[0])])]
    return [Panel("score", "score", "mapped score", _heads(values, x))]


def _grid_panels(subject: Subject) -> list[Panel]:
    """A bias over two axes: one image per head."""
    reach = min(subject.length_or(8), 64)
    images = _pairs(subject, probe.grid_steps(reach)).unflatten(1, (2 * reach + 1, -1))
    return [
        Panel(
            f"bias, head {h}",
            "columns before",
            "rows before",
            image=image,
            corner=(-reach, -reach),
            centred=True,
        )
        for h, image in enumerate(images)
    ]


def _rotation_panels(subject: Subject) -> list[Panel]:
    """Scores <R(i) x, R(j) x> over distance: of rows x of one lane as a map of lanes and
    distances, and of the row of all lanes."""
    length, dim = subject.length_or(_DISTANCES), subject.head_dim
    step = -(-length // _COLUMNS)
    panels = []
    first = "distance on the first axis" if _is_of_grids(subject) else "distance"
    for axis, along in enumerate((first, "distance on the second axis")):
        distances = probe.along(length, axis)
        total = _self_scores(subject, distances, torch.full((1, dim), dim**-0.5))[0]
        lanes = _self_scores(subject, distances[::step], torch.eye(dim))
        if axis and not bool(((lanes - lanes[:, :1]).abs() > 1e-9).any()):
            continue
        panels += [
            Panel(
                "score of equal rows by lane, head 0",
                along,
                "lane",
                image=lanes,
                centred=True,
                step=step,
            ),
            Panel(
                "all lanes, head 0",
                along,
                "score of equal rows",
                [("", distances[:, axis], total)],
            ),
        ]
    return panels


def _self_scores(
    subject: Subject, distances: torch.Tensor, rows: torch.Tensor
) -> torch.Tensor:
    """[rows, distances] of the scores of each row with itself, in head 0."""
    uses, params, count = [str(subject.use)], subject.params, len(distances)
    at_once = max(_PAIRS // count, 1)
    parts = []
    for some in rows.split(at_once):
        x = some[:, None, None].expand(-1, count, subject.heads, -1).flatten(0, 1)
        # All pairs are seen from one place, whatever is computed with them.
        scores = probe.pair_scores(uses, params, x, x, distances.repeat(len(some), 1), scale=1.0)
        parts.append(scores[0].unflatten(0, (len(some), count)))
    return torch.cat(parts)


def _added(subject: Subject) -> torch.Tensor:
    _check_image(subject.heads * _own_length(subject), _own_length(subject))
    uses = ["past=causal", str(subject.use)]
    return probe.added_scores(uses, 1, subject.params, *_rows(subject))


def _content_panels(subject: Subject) -> list[Panel]:
    """What is added to the scores of a text: to those of the last query, with the
    hosts' own share, and to all, by head."""
    added = _added(subject)
    length = added.shape[-1]
    x = torch.arange(length)
    letters = printable(subject.text) if subject.text else ""
    curves = _heads(added[:, -1], x)
    hosts = _hosts_bias(subject, length)
    if hosts is not None:
        curves += [(f"hosts, head {h}", x, row.flip(0)) for h, row in enumerate(hosts)]
    what = "text" if subject.text else "random rows"
    panels = [Panel(f"last query, {what}", "key", ADDED, curves, letters=letters)]
    return panels + [
        Panel(f"added, head {h}", "key", "query", image=image, centred=True, letters=letters)
        for h, image in enumerate(added)
    ]


def _hosts_bias(subject: Subject, length: int) -> torch.Tensor | None:
    """[heads, distances] of what the hosts add by themselves."""
    if not subject.use.hosts:
        return None
    prefix = subject.use.instance + "."
    params = {n.removeprefix(prefix): t for n, t in subject.params.items()}
    uses = [str(host) for host in subject.use.hosts]
    names = definitions.signature(uses).by_name
    return probe.bias_over_distance(
        uses,
        {n: t for n, t in params.items() if n in names},
        heads=subject.heads,
        head_dim=subject.head_dim,
        distances=length,
    )


def _check_image(rows: int, columns: int) -> None:
    if rows * columns > _ENTRIES:
        raise ValueError(
            f"an image of {rows} x {columns} has more than {_ENTRIES} entries; take a smaller "
            "--length"
        )


def _mask_panel(subject: Subject) -> Panel:
    length = _own_length(subject)
    _check_image(length, length)
    rows = _zeros(subject)[0][:, None].expand(-1, length, -1)
    visible = probe.mapped_scores([str(subject.use)], subject.params, rows, rows)[0] > -torch.inf
    return Panel("visible keys are white (head 0)", "key", "query", image=visible.double())


def _rows_panel(subject: Subject, operand: str) -> Panel:
    """What rows of zeros become, or rows of ones where those stay zeros."""
    width = subject.heads * subject.head_dim
    uses, params = [str(subject.use)], probe.in_double(subject.params)
    positions, y_label = None, "position"
    if _is_of_grids(subject):
        side = subject.length_or(_SIDE)
        _check_image(side * side, width)
        sides = torch.arange(side, dtype=torch.int32)
        positions = torch.cartesian_prod(sides, sides)[None]
        y_label = f"position of {side} x {side}, row by row"
    length = subject.length_or(_DISTANCES) if positions is None else positions.shape[1]
    _check_image(length, width)
    for start, title in ((0.0, "rows of zeros"), (1.0, "rows of ones")):  # noqa: B007
        x = torch.full((1, length, width), start, dtype=torch.float64)
        with torch.no_grad():
            y = map_rows(x, uses, params, of=operand, positions=positions, target="reference")[0]
        if (y != 0).any():
            break
    return Panel(f"{operand}: what {title} become", "lane", y_label, image=y, centred=True)


def printable(text: bytes) -> str:
    """A text with one character per byte: what has none to show is a dot."""
    return "".join(chr(b) if 32 <= b < 127 else "\u00b7" for b in text)
