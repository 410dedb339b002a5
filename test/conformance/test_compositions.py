"""Random compositions of encodings against the reference.

SEXTANT_COMPOSITIONS says how many compile and are compared (30: a minute on a core),
SEXTANT_SEED which. Without a seed they are the same in each run: a composition that
nobody has met stops the one who looks for it, not a change that has nothing to do with
it. One that fails is the last that its test prints, as Python: with test/ and
test/conformance on the path, and `composition.compare()` at its end, it fails again.
"""

import os
import re

import pytest
from drawn_compositions import Limits, draw

import sextant
from sextant import backend

COUNT = int(os.environ.get("SEXTANT_COMPOSITIONS", "30"))
SEED = int(os.environ.get("SEXTANT_SEED", "1"))
# One in five is refused; twenty in a row never are.
TRIES = 20
# Compositions of one test: enough to say that most of what is drawn is compared.
GROUP = 10
# One in so many maps rows by rows of the same tokens, [batch, heads, length, head dim].
TOKENS_EVERY = 5

# What may be refused, and by which words: most compositions are drawn without a look
# at what fits.
LEGAL = [
    # Options and the shape.
    r"option '\w+' of @\w+ is \S+, but must be",
    r"use '[\w.]+' of @\w+: .* but must be at (least|most)",
    r"an option is too small or too large",
    r"option '\w+' of @\w+ has no effect with",
    r"maps pairs of lanes, got \d+ lanes",
    r"lanes \[\d+, \d+\) lie outside the \d+ lanes of a row",
    r"blocks of \d+ lanes do not fit",
    r"needs values of one width",
    r"heads: grouped queries, which share them, have no such map",
    # Positions.
    r"asks for axis \d, but the positions given have",
    r"asks for axis \d of positions, but no positions of",
    r"span more than the safe range",
    r"some query may see a later key",
    # A query before the first row reads that row, and without keys there is none.
    r"fewer rows than indices of its query \(1 and 0\)",
    # Encodings that do not go together.
    r"is not additive in the score: it cannot be a host",
    r"comes before other row maps of the same rows",
    r"reads a query row that turns",
    r"payload of all heads can neither scan nor read a row",
    r"expects parent op .*'pos.score",
    r"at.head has no meaning in a score of all heads",
]  # fmt: skip
# What no kernel computes, though the reference does.
WITHOUT_KERNEL = [
    r"has no kernel beside a score of all heads",
    r"is trained and stands behind a row map, but is no table over its rows",
    r"behind which a trained parameter stands has no gradient on this target",
    r"'pos.running_sum' op has no value at this place",
    r"'pos.contract' op of units that are used again after it has no gradient",
]


def is_legal(error: Exception) -> bool:
    return any(re.search(words, str(error)) for words in LEGAL + WITHOUT_KERNEL)


def compares(source: str) -> bool:
    """Runs a composition; whether it was compared: it may be refused, or have no
    defined result."""
    scope: dict = {}
    try:
        exec(compile(source, "<composition>", "exec"), scope)
        scope["composition"].compare()
    except (sextant.CompileError, sextant.RuntimeError, ValueError) as refusal:
        if not is_legal(refusal):
            raise
        print(f"refused: {refusal}".splitlines()[0])
        return False
    except AssertionError:
        if scope["composition"].is_defined():
            raise
        print("without a defined result")
        return False
    return True


def compare_some(numbers, targets, limits=None):
    """Draws until as many were compared as there are numbers."""
    drawn = compared = 0
    for number in numbers:
        for attempt in range(TRIES):
            maps_tokens = number % TOKENS_EVERY == TOKENS_EVERY - 1
            seed = (SEED * 1_000_003 + number) * TRIES + attempt
            source = draw(seed, targets, limits or Limits(), maps_tokens)
            print(source)
            drawn += 1
            if compares(source):
                compared += 1
                break
        else:
            pytest.fail(f"{TRIES} in a row were refused or have no defined result")
    # Else the others would say little. Eight in ten are, so fewer than a third means
    # that something is refused which was not.
    assert 3 * compared >= drawn, f"{compared} of {drawn} were compared"


@pytest.mark.parametrize("first", range(0, COUNT, GROUP))
def test_compositions(first):
    targets = [t for t in backend.compiler().list_targets() if t.startswith("cpu:")]
    compare_some(range(first, min(first + GROUP, COUNT)), targets)


def test_compositions_on_a_gpu(monkeypatch):
    """As warps and on tensor cores, in an emulator that looks at every access and takes
    its time: a fifth as many, of small shapes."""
    monkeypatch.setenv("SEXTANT_CHECK", "races,scratch,memory")
    monkeypatch.setenv("SEXTANT_SCHEDULE", str(SEED))
    numbers = range(COUNT, COUNT + COUNT // 5)
    compare_some(numbers, ["cuda-emulated:sm_80"], Limits(scores=2_500, length=45, width=40))
