"""Orderings that the literature reports, checked on a set of runs.

Each is a sentence, the encodings that it speaks of, and a test on the losses. A
statement on perplexity holds for ``exp(loss)``; here per byte. Runs of the same seed
decide, and of several seeds what all of them say; what a single seed says is marked as
such.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from ..errors import CompileError
from ..uses import Use, parse_use

# By encoding and multiple, of one run each; and by encoding and seed.
Losses = Mapping[str, Mapping[int, float]]
Runs = Mapping[str, Mapping[int, Mapping[int, float]]]

T = TypeVar("T")

# Choices of runs that are tried; of more, so many are drawn.
_CHOICES = 4096


@dataclass(frozen=True)
class Ordering:
    """``needs``: encodings that must be among the runs. ``holds``: decides from
    the losses by encoding and multiple, of all tokens, or with ``last`` of the last
    tokens of each block. ``multiples``: of which losses are shown beside it. ``of_all``:
    speaks of all runs that there are, not of those that it needs alone."""

    text: str
    needs: tuple[str, ...]
    holds: Callable[[Losses], bool]
    multiples: tuple[int, ...]
    last: bool = False
    of_all: bool = False


@dataclass(frozen=True)
class Finding:
    """Whether an ordering holds in these runs (None: the seeds do not agree), the
    losses it rests on, and the number of seeds that its encodings share."""

    text: str
    holds: bool | None
    numbers: str
    seeds: int

    @property
    def verdict(self) -> str:
        if self.holds is None:
            return "within the spread of the seeds"
        return ("holds" if self.holds else "does not hold") + (
            " (one seed)" if self.seeds == 1 else ""
        )


def _growth(losses: Losses, name: str, multiple: int) -> float:
    """Perplexity at a multiple of the training length relative to 1x."""
    return math.exp(losses[name][multiple] - losses[name][1])


def _relative(losses: Losses) -> list[str]:
    return [n for n in ("rope", "alibi", "t5_bias", "kerple_log") if n in losses]


ORDERINGS = (
    Ordering(
        "At 1x sinusoidal is clearly the worst (embeddings start at N(0, 0.02)).",
        ("sinusoidal", "rope", "alibi"),
        lambda r: r["sinusoidal"][1] == max(v[1] for v in r.values())
        and r["sinusoidal"][1] > sorted(v[1] for v in r.values())[-2] + 0.02,
        (1,),
        of_all=True,
    ),
    Ordering(
        "At 1x the relative encodings are within 3 % of perplexity of each other.",
        ("rope", "alibi", "t5_bias", "kerple_log"),
        lambda r: max(r[n][1] for n in _relative(r)) - min(r[n][1] for n in _relative(r))
        <= math.log(1.03),
        (1,),
    ),
    Ordering(
        "At 1x rope is better than alibi and than none.",
        ("rope", "alibi", "none"),
        lambda r: r["rope"][1] < r["alibi"][1] and r["rope"][1] < r["none"][1],
        (1,),
    ),
    Ordering(
        "At 2x rope is worse than within its training length.",
        ("rope",),
        lambda r: r["rope"][2] > r["rope"][1],
        (1, 2),
    ),
    Ordering(
        "At 2x none and sinusoidal are worse than within their training length, "
        "and sinusoidal is damaged most of all.",
        ("none", "sinusoidal", "rope"),
        lambda r: r["none"][2] > r["none"][1]
        and _growth(r, "sinusoidal", 2) > max(_growth(r, "none", 2), _growth(r, "rope", 2)),
        (1, 2),
    ),
    Ordering(
        "At 2x alibi does not lose: more context helps or is neutral.",
        ("alibi",),
        lambda r: r["alibi"][2] <= r["alibi"][1] + 0.01,
        (1, 2),
    ),
    Ordering(
        "At 2x kerple_log does not lose: more context helps or is neutral.",
        ("kerple_log",),
        lambda r: r["kerple_log"][2] <= r["kerple_log"][1] + 0.01,
        (1, 2),
    ),
    Ordering(
        "At 2x t5_bias does not lose: more context helps or is neutral.",
        ("t5_bias",),
        lambda r: r["t5_bias"][2] <= r["t5_bias"][1] + 0.01,
        (1, 2),
    ),
    Ordering(
        "From 4x to 8x t5_bias breaks: its last bucket sees no distance.",
        ("t5_bias",),
        lambda r: _growth(r, "t5_bias", 8) > 1.5,
        (1, 4, 8),
    ),
    Ordering(
        "From 4x to 8x alibi stays flat.",
        ("alibi",),
        lambda r: abs(r["alibi"][8] - r["alibi"][4]) <= 0.03,
        (4, 8),
    ),
    Ordering(
        "From 4x to 8x kerple_log rises slowly at most.",
        ("kerple_log",),
        lambda r: r["kerple_log"][8] - r["kerple_log"][4] <= 0.1,
        (4, 8),
    ),
    Ordering(
        "From 4x to 8x fire rises faster than kerple_log.",
        ("fire", "kerple_log"),
        lambda r: r["fire"][8] - r["fire"][4] > r["kerple_log"][8] - r["kerple_log"][4],
        (4, 8),
    ),
    Ordering(
        "At 4x the order is kerple_log and alibi, then rope and none, then sinusoidal.",
        ("kerple_log", "alibi", "rope", "none", "sinusoidal"),
        lambda r: max(r["kerple_log"][4], r["alibi"][4])
        < min(r["rope"][4], r["none"][4])
        <= max(r["rope"][4], r["none"][4])
        < r["sinusoidal"][4],
        (4,),
    ),
    Ordering(
        "At 2x expe is better than rope.",
        ("expe", "rope"),
        lambda r: r["expe"][2] < r["rope"][2],
        (1, 2),
    ),
    Ordering(
        "From 1x to 4x the perplexity of seqpe grows less than that of rope.",
        ("seqpe", "rope"),
        lambda r: _growth(r, "seqpe", 4) < _growth(r, "rope", 4),
        (1, 4),
    ),
    Ordering(
        "At 4x and 8x, on the last tokens, dape(kerple_log) is better than kerple_log.",
        ("dape(kerple_log)", "kerple_log"),
        lambda r: all(r["dape(kerple_log)"][m] < r["kerple_log"][m] for m in (4, 8)),
        (4, 8),
        last=True,
    ),
)


def check_orderings(all_tokens: Runs, last_tokens: Runs | None = None) -> list[Finding]:
    """The orderings that these runs can show, of encodings that have a seed in common.
    Options do not count: what is said of an encoding is said of one with other settings,
    too."""
    every, last = _without_options(all_tokens), _without_options(last_tokens or {})
    findings = []
    for ordering in ORDERINGS:
        runs = last if ordering.last else every
        if not all(n in runs for n in ordering.needs):
            continue
        names = tuple(runs) if ordering.of_all else ordering.needs
        paired = list(of_same_seed(runs, names).values())
        if not paired or not all(
            m in run for pair in paired for run in pair.values() for m in ordering.multiples
        ):
            continue
        numbers = "; ".join(
            f"{n} "
            + " ".join(
                f"{fmean(pair[n][m] for pair in paired):.2f} ({m}x)" for m in ordering.multiples
            )
            for n in ordering.needs
        )
        holds = agreed(ordering.holds(pair) for pair in paired)
        findings.append(Finding(ordering.text, holds, numbers, len(paired)))
    return findings


def _without_options(runs: Runs) -> Runs:
    """Runs by the names of their encodings and hosts alone; those without options count
    where there are both."""
    found = dict(runs)
    for name, of in runs.items():
        found.setdefault(_bare(name), of)
    return {name: of for name, of in found.items() if name == _bare(name)}


def _bare(name: str) -> str:
    """`fire(threshold=16)` is fire; a list of encodings, or what is none, is itself."""
    try:
        return _spell_bare(parse_use(name))
    except CompileError:
        return name


def _spell_bare(use: Use) -> str:
    hosts = ", ".join(map(_spell_bare, use.hosts))
    return f"{use.encoding}({hosts})" if hosts else use.encoding


def of_same_seed(runs: Mapping[str, Mapping[int, T]], names: Sequence[str]) -> dict[int, dict[str, T]]:
    """By seed, one run of each name, where all have one. Such runs share the order of the
    data and the initial values of what the models have in common, which moves losses more
    than encodings do: their differences say more than those of other choices."""
    shared = set.intersection(*(set(runs[name]) for name in names))
    return {seed: {name: runs[name][seed] for name in names} for seed in sorted(shared)}


def choices(runs: Mapping[str, Sequence], names: Sequence[str]) -> Iterator[dict]:
    """One run of each encoding, in every way or in many."""
    if math.prod(len(runs[n]) for n in names) <= _CHOICES:
        for chosen in itertools.product(*(runs[n] for n in names)):
            yield dict(zip(names, chosen))
        return
    draw = random.Random(0)
    for _ in range(_CHOICES):
        yield {n: draw.choice(runs[n]) for n in names}


def agreed(answers: Iterator[bool]) -> bool | None:
    """What all say; None when they differ."""
    found = {bool(answer) for answer in answers}
    return found.pop() if len(found) == 1 else None


STEP_TIME_TEXT = (
    "A training step of every encoding that adds to the score takes at most 1.1 "
    "times alibi's."
)


def check_step_times(times: Mapping[str, Sequence[float]]) -> Finding | None:
    """The ordering of times, by encoding of each run: a good compiler brings all to
    alibi's."""
    others = [n for n in ("t5_bias", "kerple_log") if times.get(n)]
    if not times.get("alibi") or not others:
        return None
    names = ["alibi", *others]
    means = {n: sum(times[n]) / len(times[n]) for n in names}
    numbers = "; ".join(f"{n} {means[n] / means['alibi']:.2f} x alibi" for n in others)
    holds = agreed(
        all(chosen[n] <= 1.1 * chosen["alibi"] for n in others)
        for chosen in choices(times, names)
    )
    return Finding(STEP_TIME_TEXT, holds, numbers, min(len(times[n]) for n in names))
