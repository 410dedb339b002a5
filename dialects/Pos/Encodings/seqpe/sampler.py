"""What the losses of SeqPE are trained on (Li et al. 2025, section 3, and its released code).

The contrastive loss orders ``candidates`` of ``pivots`` by their distance. Pivots are a
shuffled pass over all positions, then another one. Candidates of a pivot are drawn from
everywhere, some of them close to it in digits and far away (hard negatives), or from a
window anywhere; ``sampling`` says how often. The paper says neither how many negatives are
hard nor how many edits make one: its share and number are those of the released text code.

The distillation compares what the encoder makes of ``trained``, offsets in the window
of a training, with ``beyond``, the same offsets in a window that begins elsewhere.

A position is a tuple of coordinates, each below ``max_position``; here it is their number
in that base, the first coordinate first.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

# A hard negative is farther from the pivot than the nearest of so many others.
COMPARED = 25
MOST_EDITS = 3
TRIES = 4  # for each hard negative that is wanted
# Of what orders the positions of a pass.
TURNS = 4
BITS = 64
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: an odd number of no pattern


@dataclass(frozen=True)
class Space:
    """Positions of ``axes`` coordinates below ``size``, written in ``base``."""

    size: int
    axes: int
    base: int

    @property
    def count(self) -> int:
        return self.size**self.axes

    def coordinates(self, position: int) -> list[int]:
        return [position] if self.axes == 1 else in_base(position, self.size, self.axes)

    def position(self, coordinates: Iterable[int]) -> int:
        return number(coordinates, self.size)

    def distance(self, one: Iterable[int], position: int) -> int:
        """Squared, from coordinates to a position."""
        return sum([(a - b) ** 2 for a, b in zip(one, self.coordinates(position))])

    def __str__(self) -> str:
        axes = f" on each of {self.axes} axes" if self.axes > 1 else ""
        return f"max_position={self.size}{axes}"


def in_base(value: int, base: int, least: int) -> list[int]:
    """Digits of a number, the most significant one first, with zeros up to ``least``."""
    digits: list[int] = []
    while value or len(digits) < least:
        value, digit = divmod(value, base)
        digits.append(digit)
    return digits[::-1]


def number(digits: Iterable[int], base: int) -> int:
    value = 0
    for digit in digits:
        value = value * base + digit
    return value


def below(end: int, source: random.Random) -> int:
    """A number from 0 on. `random.randrange`, which can draw larger ones, takes several
    times as long."""
    return int(source.random() * end)


def different(count: int, end: int, source: random.Random, but: int = -1) -> list[int]:
    """So many different numbers below ``end`` in the order in which they are drawn, without
    one; there must be as many."""
    found, draw = {but: None}, source.random
    while len(found) <= count:
        found[int(draw() * end)] = None
    return list(found)[1:]


# Edits of digits ---------------------------------------------------------------------
#
# Each gives other digits, or nothing where it changes none.

Edit = Callable[[list[int], int, random.Random], list[int] | None]


def add(digits: list[int], base: int, source: random.Random) -> list[int] | None:
    at = below(len(digits) + 1, source)
    return [*digits[:at], below(base, source), *digits[at:]]


def remove(digits: list[int], base: int, source: random.Random) -> list[int] | None:
    at = below(len(digits), source)
    return digits[:at] + digits[at + 1 :] if len(digits) > 1 else None


def swap(digits: list[int], base: int, source: random.Random) -> list[int] | None:
    one, other = below(len(digits), source), below(len(digits), source)
    if digits[one] == digits[other]:
        return None
    digits = list(digits)
    digits[one], digits[other] = digits[other], digits[one]
    return digits


def replace(digits: list[int], base: int, source: random.Random) -> list[int] | None:
    at = below(len(digits), source)
    other = (digits[at] + 1 + below(base - 1, source)) % base
    return [*digits[:at], other, *digits[at + 1 :]]


def edited(
    space: Space, digits: list[int], edits: Sequence[Edit], source: random.Random
) -> int | None:
    """The position that a few edits make of digits; None where they make none."""
    for _ in range(1 + below(MOST_EDITS, source)):
        while (changed := edits[below(len(edits), source)](digits, space.base, source)) is None:
            pass
        digits = changed
    if len(digits) < space.axes:
        return None
    cuts = sorted(different(space.axes - 1, len(digits) - 1, source)) if space.axes > 1 else []
    ends = [0, *(cut + 1 for cut in cuts), len(digits)]
    found = [number(digits[a:b], space.base) for a, b in pairwise(ends)]
    return space.position(found) if max(found) < space.size else None


# Contrastive loss --------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """How the candidates of a pivot are drawn: with which probability so, at most which
    share of them as hard negatives, or all from a window."""

    probability: float
    hard: float = 0.0
    local: bool = False


@dataclass(frozen=True)
class Sampling:
    """``window``: how many positions a local window has at least, and how many times the
    candidates."""

    kinds: tuple[Kind, ...]
    window: tuple[int, int]
    edits: tuple[Edit, ...]

    def side(self, space: Space, candidates: int) -> int:
        """Of a local window, which holds a pivot and its candidates at least."""
        least, times = self.window
        positions = max(least, times * candidates, candidates + 1)
        return min(root(positions, space.axes), space.size)


SAMPLINGS = {
    "paper": Sampling((Kind(0.5, hard=0.25), Kind(0.5, local=True)), (256, 1), (swap, remove, add)),
    "text": Sampling(
        (Kind(0.4, hard=0.25), Kind(0.6, local=True)), (256, 5), (add, swap, replace, remove)
    ),
    "image": Sampling(
        (Kind(0.5), Kind(0.3, hard=0.2), Kind(0.2, local=True)),
        (14**2, 5),
        (add, swap, replace, remove),
    ),
}


def root(value: int, axes: int) -> int:
    """The least integer whose power is no less than a value."""
    found = max(round(value ** (1 / axes)) - 1, 0)
    while found**axes < value:
        found += 1
    return found


def pivots(space: Space, count: int, seed: int, step: int) -> list[int]:
    """So many positions from where the steps before ended in passes over all positions,
    each pass in an order of its own."""
    found: list[int] = []
    at = (step - 1) * count
    while len(found) < count:
        number_of_pass, first = divmod(at, space.count)
        source = random.Random(f"pivots {seed} {number_of_pass}")
        keys = [source.getrandbits(BITS) for _ in range(2 * TURNS)]
        end = min(first + count - len(found), space.count)
        found += [shuffled(place, space.count, keys) for place in range(first, end)]
        at += end - first
    return found


def shuffled(place: int, count: int, keys: Sequence[int]) -> int:
    """The number at a place of the numbers below ``count`` in an order that follows from
    the keys. The order is nowhere written down, however many they are: rows and columns of
    a grid are moved in turns by what the other one is scrambled to, which can be undone, and
    what leaves the numbers is moved on until it comes back."""
    rows = math.isqrt(count - 1) + 1
    columns = -(-count // rows)
    while True:
        row, column = divmod(place, columns)
        for turn in range(0, len(keys), 2):
            row = (row + scrambled(column, keys[turn])) % rows
            column = (column + scrambled(row, keys[turn + 1])) % columns
        place = row * columns + column
        if place < count:
            return place


def scrambled(value: int, key: int) -> int:
    """Bits to which each bit of a value and of a key contributes."""
    value = (value + key) * GOLDEN % 2**BITS
    value = (value ^ value >> BITS // 2) * GOLDEN % 2**BITS
    return value ^ value >> BITS // 2


def hard_negatives(
    space: Space,
    edits: Sequence[Edit],
    pivot: int,
    others: list[int],
    count: int,
    source: random.Random,
) -> list[int]:
    """Up to so many positions that are farther from the pivot than the nearest of the first
    of ``others`` and are none of them. Digits have no leading zeros; those of several
    coordinates stand in one row, which is cut anywhere when it was edited."""
    at = space.coordinates(pivot)
    digits = [digit for c in at for digit in in_base(c, space.base, 1)]
    nearest = min(space.distance(at, other) for other in others[:COMPARED])
    taken = {pivot, *others}
    found: list[int] = []
    for _ in range(TRIES * count):
        if len(found) == count:
            break
        other = edited(space, digits, edits, source)
        if other is not None and other not in taken and space.distance(at, other) > nearest:
            taken.add(other)
            found.append(other)
    return found


def from_window(
    space: Space, side: int, pivot: int, count: int, source: random.Random
) -> list[int]:
    """Candidates from a window that begins anywhere, whether the pivot is in it or not."""
    start = [below(space.size - side + 1, source) for _ in range(space.axes)]
    inside = [p - s for p, s in zip(space.coordinates(pivot), start)]
    own = number(inside, side) if min(inside) >= 0 and max(inside) < side else -1
    offsets = different(count, side**space.axes, source, but=own)
    if space.axes == 1:
        return [start[0] + offset for offset in offsets]
    found = [in_base(offset, side, space.axes) for offset in offsets]
    return [space.position([s + o for s, o in zip(start, offset)]) for offset in found]


def candidates(
    space: Space, sampling: Sampling, of: Iterable[int], count: int, source: random.Random
) -> list[list[int]]:
    if space.count <= count:
        raise ValueError(
            f"candidates={count} and their pivot are {count + 1} different positions, "
            f"{space} has {space.count}"
        )
    side = sampling.side(space, count)
    found = []
    for pivot in of:
        (kind,) = source.choices(sampling.kinds, [k.probability for k in sampling.kinds])
        if kind.local:
            found.append(from_window(space, side, pivot, count, source))
            continue
        others = different(count, space.count, source, but=pivot)
        hard = int(kind.hard * count)
        if hard:
            near = hard_negatives(space, sampling.edits, pivot, others, hard, source)
            others = others[: count - len(near)] + near
        found.append(others)
    return found


# Distillation ------------------------------------------------------------------------


def trained_side(length: int, axes: int) -> int:
    """Of the window that texts or images of a length are trained on. On several axes a
    class token may stand before the grid."""
    side = root(length, axes)
    if side**axes > length:
        side -= 1
    if side**axes not in ((length,) if axes == 1 else (length, length - 1)):
        raise ValueError(
            f"a length of {length} is no grid of {axes} equal sides, nor one behind a class token"
        )
    return side


def starts(
    space: Space, side: int, is_image: bool, count: int, source: random.Random
) -> list[list[int]]:
    """Where windows begin. Those of images, and all on several axes, are any that do not lie
    among the first ``side`` places of each axis; those of texts may overlap the window that
    is trained, from a quarter of it on."""
    if is_image or space.axes > 1:
        first, end = side, space.size - side + 1
    else:
        first, end = -(-side // 4), space.size - side
    if end <= first:
        raise ValueError(
            f"{space} leaves no window of {side} positions that begins at {first} or later; it "
            f"takes max_position={space.size + first + 1 - end} or more"
        )
    if space.axes == 1:
        return [[first + below(end - first, source)] for _ in range(count)]
    found: list[list[int]] = []
    while len(found) < count:
        start = [below(end, source) for _ in range(space.axes)]
        if max(start) >= first:
            found.append(start)
    return found


def offsets(windows: int, count: int, side: int, axes: int, source: random.Random) -> torch.Tensor:
    """Different places of a window in the order in which they are drawn, for each window."""
    places = side**axes
    if count > places:
        cure = f': "seqpe(offsets={places})" takes all of them' if places > 1 else ""
        raise ValueError(
            f"offsets={count} are different positions of a window of {places} that is trained{cure}"
        )
    drawn = [different(count, places, source) for _ in range(windows)]
    return to_coordinates(drawn, side, axes)


def to_coordinates(positions: list, size: int, axes: int) -> torch.Tensor:
    """Coordinates [..., axes] of positions in nested lists."""
    powers = size ** torch.arange(axes - 1, -1, -1)
    return (torch.tensor(positions)[..., None] // powers % size).int()


# All of a step -----------------------------------------------------------------------


def sample(
    inputs: dict[str, tuple],
    options: dict,
    extents: dict[str, int],
    seed: int,
    step: int,
) -> dict[str, torch.Tensor]:
    """Positions [..., axes] for those inputs that a loss reads."""
    space = Space(options["max_position"], options["axes"], options["base"])
    if space.size > space.base ** options["digits"]:
        raise ValueError(
            f"{space} has more than digits={options['digits']} digits of base={space.base}"
        )
    sampling = options["sampling"]
    found = {}
    if "pivots_at" in inputs or "candidates_at" in inputs:
        source = random.Random(f"candidates {seed} {step}")
        of = pivots(space, options["pivots"], seed, step)
        drawn = candidates(space, SAMPLINGS[sampling], of, options["candidates"], source)
        found["pivots_at"] = to_coordinates(of, space.size, space.axes)
        found["candidates_at"] = to_coordinates(drawn, space.size, space.axes)
    if "trained_at" in inputs or "beyond_at" in inputs:
        source = random.Random(f"windows {seed} {step}")
        side = trained_side(extents["query"], space.axes)
        windows = options["windows"]
        begin = starts(space, side, sampling == "image", windows, source)
        found["trained_at"] = offsets(windows, options["offsets"], side, space.axes, source)
        found["beyond_at"] = found["trained_at"] + torch.tensor(begin, dtype=torch.int32)[:, None]
    return {name: found[name] for name in inputs if name in found}
