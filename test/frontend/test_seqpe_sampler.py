"""What the losses of SeqPE are trained on: draws of its sampler against the probabilities
that the paper and its released code state.

About 10^5 numbers are drawn for each claim. What has a stated probability may be 5 standard
deviations off; a chi-square statistic may reach the quantile that is as rare (3e-7).
"""

import importlib.util
import math
import random
import sys
from collections import Counter

import pytest
import torch

from sextant import definitions

DEVIATIONS = 5
DRAWS = 100_000
OPTIONS = {
    "base": 10,
    "digits": 5,
    "axes": 1,
    "max_position": 20000,
    "sampling": "text",
    "pivots": 2500,
    "candidates": 8,
    "windows": 32,
    "offsets": 32,
}
CONTRASTIVE = ("pivots_at", "candidates_at")
DISTILLATION = ("trained_at", "beyond_at")
IMAGE = {"sampling": "image", "axes": 2, "digits": 3, "max_position": 200}
# How often candidates come from a window, and how often, and how many of 20, are hard.
STATED = {
    "paper": (0.5, 0.5, 5),
    "text": (0.6, 0.4, 5),
    "image": (0.2, 0.3, 4),
}

spec = importlib.util.spec_from_file_location("seqpe_sampler", definitions.sampler("seqpe"))
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)


def draw(inputs, seed, step=1, length=512, **options):
    shapes = dict.fromkeys(inputs, (None, None))
    return module.sample(shapes, OPTIONS | options, {"query": length, "batch": 2}, seed, step)


def space_of(**options):
    options = OPTIONS | options
    return module.Space(options["max_position"], options["axes"], options["base"])


def assert_share(found, of, probability):
    deviation = math.sqrt(of * probability * (1 - probability))
    assert abs(found - of * probability) <= DEVIATIONS * deviation + 1e-9, (found / of, probability)


def assert_drawn_from(counts, probabilities):
    """Counts of independent draws, by what was drawn, against probabilities."""
    counts, probabilities = counts.double(), probabilities.double()
    assert abs(probabilities.sum() - 1) < 1e-9
    expected = counts.sum() * probabilities
    assert expected.min() > 20, "too few draws for the statistic"
    freedom = len(counts) - 1
    statistic = ((counts - expected).square() / expected).sum().item()
    width = 2 / (9 * freedom)
    limit = freedom * (1 - width + DEVIATIONS * math.sqrt(width)) ** 3  # Wilson and Hilferty
    assert statistic < limit, (statistic, limit, counts.tolist(), expected.tolist())


def in_bins(values, of_value):
    """Counts and probabilities of values 0, 1, ... in bins of about equal probability."""
    bins = min(20, len(values) // 40)
    upto = (of_value.double().cumsum(0) * bins - 1e-9).floor().long().clamp(0, bins - 1)
    upto = upto.unique(return_inverse=True)[1]
    bins = int(upto[-1]) + 1
    expected = torch.zeros(bins, dtype=torch.double).index_add_(0, upto, of_value.double())
    return torch.bincount(upto[values.flatten().long()], minlength=bins), expected


def uniform(size):
    return torch.full((size,), 1 / size, dtype=torch.double)


# Pivots --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 17, 500])
def test_passes_of_pivots_have_every_position_once(size, seed):
    """In the order of steps, wherever a pass ends in one; and all orders are as likely."""
    space, per_step = space_of(max_position=size), 32
    passes = 200 if size == 500 else 32
    steps = passes * size // per_step
    found = [p for step in range(1, steps + 1) for p in module.pivots(space, per_step, seed, step)]
    whole = torch.tensor(found[: len(found) // size * size]).view(-1, size)
    assert torch.equal(whole.sort(1).values, torch.arange(size).expand(len(whole), -1))
    if size == 500:
        assert len(whole) == 200  # 10^5 pivots
        assert len({tuple(row) for row in whole.tolist()}) == 200
        # Tenths of a pass against tenths of the positions. That each has its share of
        # the other makes the statistic smaller, not larger.
        cells = torch.arange(size) // 50 * 10 + whole // 50
        assert_drawn_from(cells.flatten().bincount(minlength=100), uniform(100))
        follower = (whole[:, 1:] - whole[:, :-1]) % size
        assert_drawn_from(*in_bins(follower.flatten() - 1, uniform(size - 1)))


def test_pivots_of_a_step_are_those_of_the_pass(seed):
    for step in (1, 7):
        got = draw(CONTRASTIVE, seed, step, **IMAGE)["pivots_at"]
        space = space_of(**IMAGE)
        want = [space.coordinates(p) for p in module.pivots(space, 2500, seed, step)]
        assert got.tolist() == want


# Candidates ----------------------------------------------------------------------------

CASES = [
    {"sampling": "paper"},
    {"sampling": "text"},
    {"sampling": "image"},
    IMAGE,
    {**IMAGE, "sampling": "paper", "base": 6},
    {"max_position": 9, "digits": 1},
    {"max_position": 3, "axes": 2, "sampling": "image"},
    {"max_position": 2**8, "base": 2, "digits": 8, "sampling": "paper"},
    {"max_position": 300, "axes": 3, "digits": 3},
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_candidates_are_other_positions_all_different(options, seed):
    """Also where there are no more positions than a pivot and its candidates."""
    got = draw(CONTRASTIVE, seed, **options)
    pivots, candidates = got["pivots_at"], got["candidates_at"]
    size, axes = (OPTIONS | options)["max_position"], (OPTIONS | options)["axes"]
    assert pivots.shape == (2500, axes) and candidates.shape == (2500, 8, axes)
    assert pivots.dtype == candidates.dtype == torch.int32
    for tensor in (pivots, candidates):
        assert tensor.min() >= 0 and tensor.max() < size
    powers = size ** torch.arange(axes)
    rows = torch.cat([(pivots * powers).sum(-1)[:, None], (candidates * powers).sum(-1)], 1)
    ordered = rows.sort(1).values
    assert (ordered[:, 1:] != ordered[:, :-1]).all()
    if size**axes == 9:
        assert torch.equal(ordered, torch.arange(9).expand(2500, -1))


@pytest.mark.parametrize(
    ("options", "window"),
    [
        ({"sampling": "paper"}, 256),
        ({"sampling": "paper", "candidates": 300, "pivots": 350}, 301),
        ({"sampling": "text"}, 256),
        ({"sampling": "text", "candidates": 64, "pivots": 1500}, 320),
        (IMAGE, 14),
        ({**IMAGE, "candidates": 45, "pivots": 2000}, 15),
    ],
    ids=str,
)
def test_local_windows_begin_anywhere(options, window, seed):
    """A row of candidates is local if it fits into a window; of others hardly one does."""
    options = OPTIONS | options
    steps = range(1, 2 + DRAWS // (options["pivots"] * options["candidates"]))
    rows = torch.cat([draw(CONTRASTIVE, seed, s, **options)["candidates_at"] for s in steps])
    span = (rows.amax(1) - rows.amin(1)).amax(-1)
    local, others = rows[span < window], rows[span >= window]
    probability, *_ = STATED[options["sampling"]]
    assert_share(len(local), len(rows), probability)
    # On an axis a candidate is the sum of a uniform start and a uniform offset; two of
    # one window are as far apart as two such offsets.
    size, offsets = options["max_position"], uniform(window)
    starts = uniform(size - window + 1)
    place = torch.nn.functional.conv1d(
        starts[None, None], offsets[None, None], padding=window - 1
    ).flatten()
    distance = torch.tensor([2.0 * (window - k) for k in range(window)]).double()
    # Candidates are different, and so in another axis where not in this one.
    distance[0] = 0 if options["axes"] == 1 else window - 1
    distance /= distance.sum()
    for axis in range(options["axes"]):
        assert_drawn_from(*in_bins(local[:, 0, axis], place))
        apart = (local[:, 0, axis] - local[:, 1, axis]).abs()
        assert_drawn_from(*in_bins(apart, distance))
        # The first ones of the others are uniform.
        assert_drawn_from(*in_bins(others[:, 0, axis], uniform(size)))


@pytest.mark.parametrize("sampling", STATED)
def test_how_often_negatives_are_hard(sampling, seed, monkeypatch):
    """Of 10^5 pivots, and how many of a pivot, of the first thousand for which there are some."""
    calls = Counter()

    def counting(*arguments):
        calls[arguments[4]] += 1
        if calls.total() > 1000:
            return []
        found = original(*arguments)
        numbers.append(len(found))
        return found

    numbers, original = [], module.hard_negatives
    monkeypatch.setattr(module, "hard_negatives", counting)
    draw(("pivots_at", "candidates_at"), seed, sampling=sampling, candidates=20, pivots=2500)
    _, probability, count = STATED[sampling]
    assert set(calls) == {count}
    # Some pivots have fewer: of one digit, say, few edits lead far away.
    assert max(numbers) == count and sum(numbers) > 0.9 * count * len(numbers)
    space, source, hard = space_of(), random.Random(seed), []
    monkeypatch.setattr(module, "hard_negatives", lambda *arguments: hard.append(0) or [])
    module.candidates(space, module.SAMPLINGS[sampling], [source.randrange(space.count)] * DRAWS, 5, source)
    assert_share(len(hard), DRAWS, probability)


# Windows -------------------------------------------------------------------------------


def windows(seed, length, **options):
    """Starts [W, axes] and offsets [W, m, axes]."""
    got = draw(DISTILLATION, seed, length=length, **options)
    starts = got["beyond_at"] - got["trained_at"]
    assert got["trained_at"].dtype == got["beyond_at"].dtype == torch.int32
    assert (starts == starts[:, :1]).all()
    assert got["beyond_at"].max() < options.get("max_position", 20000)
    return starts[:, 0], got["trained_at"]


@pytest.mark.parametrize("sampling", ["text", "image"])
def test_texts_begin_beyond_a_quarter_of_the_window_and_images_beyond_it(sampling, seed):
    starts, _ = windows(seed, 512, windows=50_000, offsets=1, sampling=sampling)
    first, end = (512, 20000 - 512 + 1) if sampling == "image" else (128, 20000 - 512)
    assert starts.min() >= first and starts.max() < end
    assert_drawn_from(*in_bins(starts.flatten() - first, uniform(end - first)))


@pytest.mark.parametrize("length", [16, 17])
def test_windows_of_images_begin_anywhere_outside(length, seed):
    """Also behind a class token: of 9 x 9 starts of 4 x 4 places the first 4 x 4 are left out."""
    options = {**IMAGE, "max_position": 12, "offsets": 16}
    starts, offsets = windows(seed, length, windows=50_000 // 16, **options)
    again, _ = windows(seed, length, windows=50_000, **{**options, "offsets": 1})
    for found in (starts, again):
        assert found.max() <= 8 and (found.amax(-1) >= 4).all()
    cells = again[:, 0] * 9 + again[:, 1]
    outside = [r * 9 + c for r in range(9) for c in range(9) if max(r, c) >= 4]
    assert_drawn_from(cells.bincount(minlength=81)[outside], uniform(65))
    # All 16 places of a window are its offsets, in any order.
    places = offsets[..., 0] * 4 + offsets[..., 1]
    assert torch.equal(places.sort(1).values, torch.arange(16).expand_as(places))
    for column in (0, 7, 15):
        assert_drawn_from(places[:, column].bincount(minlength=16), uniform(16))


def test_offsets_are_different_and_uniform(seed):
    _, offsets = windows(seed, 60, windows=10_000, offsets=10)
    ordered = offsets[..., 0].sort(1).values
    assert (ordered[:, 1:] != ordered[:, :-1]).all()
    assert offsets.min() >= 0 and offsets.max() < 60
    for column in range(0, 10, 3):
        assert_drawn_from(offsets[:, column, 0].bincount(minlength=60), uniform(60))
    pairs = (offsets[:, 0, 0] - offsets[:, 1, 0]) % 60
    assert_drawn_from(pairs.bincount(minlength=60)[1:], uniform(59))


# All -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, IMAGE], ids=str)
def test_what_is_drawn_follows_from_seed_and_step(options, seed):
    """Whatever else is asked for or was drawn before; no other generator is moved."""
    options = {"pivots": 40, **options}
    length = 196 if options.get("axes") == 2 else 512
    states = random.getstate(), torch.get_rng_state()
    whole = draw(CONTRASTIVE + DISTILLATION, seed, 5, length, **options)
    for step, other_seed in ((6, seed), (5, seed + 1)):
        other = draw(CONTRASTIVE + DISTILLATION, other_seed, step, length, **options)
        assert all(not torch.equal(whole[name], other[name]) for name in whole)
    for inputs in (CONTRASTIVE, DISTILLATION, ("candidates_at",), ("beyond_at",)):
        part = draw(inputs, seed, 5, length, **options)
        assert set(part) == set(inputs)
        assert all(torch.equal(whole[name], part[name]) for name in inputs)
    assert random.getstate() == states[0] and torch.equal(torch.get_rng_state(), states[1])


def test_all_digits_are_in_use(seed):
    got = draw(CONTRASTIVE, seed, max_position=7**3, base=7, digits=3, sampling="paper")
    assert {0, 342} <= set(got["pivots_at"].flatten().tolist())
    assert {0, 342} <= set(got["candidates_at"].flatten().tolist())


@pytest.mark.parametrize(
    ("inputs", "length", "options", "message"),
    [
        (
            CONTRASTIVE, 512, {"max_position": 32, "candidates": 32},
            "candidates=32 and their pivot are 33 different positions, max_position=32 has 32",
        ),
        (
            CONTRASTIVE, 16, {**IMAGE, "max_position": 5, "candidates": 25},
            "are 26 different positions, max_position=5 on each of 2 axes has 25",
        ),
        (
            CONTRASTIVE, 512, {"max_position": 1001, "digits": 3},
            "max_position=1001 has more than digits=3 digits of base=10",
        ),
        (
            DISTILLATION, 512, {"max_position": 640},
            "max_position=640 leaves no window of 512 positions that begins at 128 or later; "
            "it takes max_position=641 or more",
        ),
        (
            DISTILLATION, 16, {**IMAGE, "max_position": 7, "offsets": 9},
            "no window of 4 positions that begins at 4 or later; it takes max_position=8 or more",
        ),
        (
            DISTILLATION, 20, {},
            "offsets=32 are different positions of a window of 20 that is trained: "
            '"seqpe(offsets=20)" takes all of them',
        ),
        (
            DISTILLATION, 200, IMAGE,
            "a length of 200 is no grid of 2 equal sides, nor one behind a class token",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_an_error(inputs, length, options, message, seed):
    with pytest.raises(ValueError) as error:
        draw(inputs, seed, length=length, **options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("length", "options"),
    [
        (512, {"max_position": 641}),
        (20, {"max_position": 26, "offsets": 20}),
        (16, {**IMAGE, "max_position": 8, "offsets": 16}),
    ],
)
def test_the_smallest_space_that_serves(length, options, seed):
    got = draw(DISTILLATION, seed, length=length, **options)
    starts = {tuple(start) for start in (got["beyond_at"] - got["trained_at"])[:, 0].tolist()}
    assert starts <= ({(length // 4,)} if length > 16 else {(r, c) for r in range(5) for c in range(5)})
