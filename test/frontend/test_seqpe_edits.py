"""Hard negatives of SeqPE's sampler: edits of digits, against the probabilities that the
released code states, and what they make of a pivot."""

import math
import random
from collections import Counter

import pytest
import torch
from test_seqpe_sampler import DEVIATIONS, DRAWS, IMAGE, assert_drawn_from, module, space_of


def edit_distance(one, other):
    """Of two texts, in characters that are added, removed or replaced."""
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (a != b)))
        last = row
    return last[-1]


def coordinates_of(space, positions):
    """[..., axes] of a tensor of positions."""
    powers = space.size ** torch.arange(space.axes - 1, -1, -1)
    return positions[..., None] // powers % space.size


def texts_of(positions):
    """Digits of coordinates [N, axes], in one row, as characters [N, width] with zeros
    behind, and how many there are."""
    texts = ["".join(map(str, row)).encode() for row in positions.tolist()]
    width = max(map(len, texts))
    rows = torch.frombuffer(bytearray(b"".join(t.ljust(width, b"\0") for t in texts)), dtype=torch.uint8)
    return rows.view(-1, width), torch.tensor([len(text) for text in texts])


def edit_distances(some, others):
    """`edit_distance` of the texts of coordinates [N, axes], pair by pair."""
    (a, a_long), (b, b_long) = texts_of(some), texts_of(others)
    least = torch.arange(b.shape[1] + 1).expand(len(b), -1)
    table = [least]
    for i in range(a.shape[1]):
        row = [least[:, 0] + i + 1]
        for j in range(b.shape[1]):
            other = (a[:, i] != b[:, j]).long()
            near = torch.minimum(table[i][:, j + 1], row[j]) + 1
            row.append(torch.minimum(near, table[i][:, j] + other))
        table.append(torch.stack(row, 1))
    return torch.stack(table, 1)[torch.arange(len(a)), a_long, b_long]


@pytest.mark.parametrize("options", [{"sampling": "paper"}, {"sampling": "text"}, IMAGE], ids=str)
def test_hard_negatives_are_close_in_digits_and_far_away(options, seed):
    """Closer in digits than others of the same pivot, and never the nearest candidate: 10^5
    of them, a third for each sampling, up to 8 of a pivot."""
    space, source = space_of(**options), random.Random(seed)
    edits = module.SAMPLINGS[options["sampling"]].edits
    pivots, others, of, hard = [], [], [], []
    while len(hard) < DRAWS / 3:
        pivots.append(source.randrange(space.count))
        others.append(module.different(32, space.count, source, but=pivots[-1]))
        found = module.hard_negatives(space, edits, pivots[-1], others[-1], 8, source)
        assert len({pivots[-1], *others[-1], *found}) == 33 + len(found) <= 41, f"SEXTANT_SEED={seed}"
        of += [len(pivots) - 1] * len(found)
        hard += found
    pivots, others, of, hard = map(torch.tensor, (pivots, others, of, hard))
    at, near, far = (coordinates_of(space, p) for p in (pivots, others, hard))
    nearest = (near[:, : module.COMPARED] - at[:, None]).square().sum(-1).amin(1)
    assert ((far - at[of]).square().sum(-1) > nearest[of]).all(), f"SEXTANT_SEED={seed}"
    # By pivot, since those of one pivot are alike.
    count = torch.zeros(len(pivots)).index_add(0, of, torch.ones(len(of)))
    in_digits = torch.zeros(len(pivots)).index_add(0, of, edit_distances(at[of], far).float())
    closer = (edit_distances(at, near[:, 0]) - in_digits / count)[count > 0]
    deviation = closer.std() / math.sqrt(len(closer))
    assert closer.mean() > 1 + DEVIATIONS * deviation, f"{closer.mean()}, SEXTANT_SEED={seed}"


def after_an_edit(digits, base, edits):
    """What an edit makes of digits, and with which probability: of any kind, at any place, any
    digit; one that changes nothing is made again."""
    size, found = len(digits), Counter()

    def add(changed, probability):
        found[tuple(changed)] += probability

    for edit in edits:
        for i in range(size + 1):
            if edit is module.add:
                for digit in range(base):
                    add((*digits[:i], digit, *digits[i:]), 1 / (size + 1) / base)
            elif i < size and edit is module.remove and size > 1:
                add((*digits[:i], *digits[i + 1 :]), 1 / size)
            elif i < size and edit is module.replace:
                for digit in {*range(base)} - {digits[i]}:
                    add((*digits[:i], digit, *digits[i + 1 :]), 1 / size / (base - 1))
            elif i < size and edit is module.swap:
                for j in range(size):
                    if digits[i] != digits[j]:
                        changed = list(digits)
                        changed[i], changed[j] = digits[j], digits[i]
                        add(changed, 1 / size**2)
    return {changed: p / found.total() for changed, p in found.items()}


def read_as_positions(digits, space):
    """Positions that a row of digits is read as, with their probabilities."""
    if space.axes == 1:
        parts = [[digits]]
    else:
        parts = [[digits[:cut], digits[cut:]] for cut in range(1, len(digits))]
    for part in parts:
        values = [int("".join(map(str, own)), space.base) for own in part]
        if max(values) < space.size:
            yield space.position(values), 1 / len(parts)


@pytest.mark.parametrize(
    ("sampling", "axes", "digits"),
    [("paper", 1, (1, 0, 2)), ("text", 1, (2, 2, 0, 1)), ("image", 2, (1, 0, 2))],
)
def test_edits_have_the_probabilities_that_are_stated(sampling, axes, digits, seed):
    """One to three of them, each of any kind, as often: 10^5 draws, of a few digits in base 3,
    against all that there can be."""
    space, source = module.Space(60 if axes == 1 else 9, axes, 3), random.Random(seed)
    edits = module.SAMPLINGS[sampling].edits
    expected, rows = Counter(), {digits: 1.0}
    for _ in range(3):
        after = Counter()
        for row, before in rows.items():
            for changed, p in after_an_edit(row, space.base, edits).items():
                after[changed] += before * p
        rows = after
        for row, p in rows.items():
            for position, share in read_as_positions(row, space):
                expected[position] += p * share / 3
    expected[None] = 1 - expected.total()
    found = Counter(module.edited(space, list(digits), edits, source) for _ in range(DRAWS))
    assert set(found) <= set(expected)
    # What is too rare to be counted is counted together.
    often = [position for position, p in expected.items() if p * DRAWS > 50]
    assert len(often) > 20
    counts = torch.tensor([found[position] for position in often])
    shares = torch.tensor([expected[position] for position in often], dtype=torch.double)
    rest = 1 - shares.sum()
    if rest * DRAWS > 50:
        counts = torch.cat([counts, (DRAWS - counts.sum())[None]])
        shares = torch.cat([shares, rest[None]])
    assert_drawn_from(counts, shares / shares.sum())


def test_edits_do_what_they_say(seed):
    source, base = random.Random(seed), 7
    assert "replace" not in [edit.__name__ for edit in module.SAMPLINGS["paper"].edits]
    for _ in range(2000):
        digits = [source.randrange(base) for _ in range(source.randint(1, 6))]
        before = list(digits)
        added = module.add(digits, base, source)
        assert len(added) == len(digits) + 1 and edit_distance(added, digits) == 1
        removed = module.remove(digits, base, source)
        assert removed is None or edit_distance(removed, digits) == 1 == len(digits) - len(removed)
        assert (removed is None) == (len(digits) == 1)
        swapped = module.swap(digits, base, source)
        if swapped:
            assert sum(a != b for a, b in zip(swapped, digits)) == 2
            assert sorted(swapped) == sorted(digits)
        replaced = module.replace(digits, base, source)
        assert sum(a != b for a, b in zip(replaced, digits)) == 1
        assert all(0 <= d < base for d in added + replaced)
        assert digits == before
