"""Orderings that the literature reports, checked on a set of runs.

Each is a sentence, the encodings that it speaks of, and a test on the losses. A
statement on perplexity holds for ``exp(loss)``; here per byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Losses = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class Ordering:
    """``needs``: encodings that must be among the runs. ``holds``: decides from
    the losses by encoding and multiple, of all tokens, or with ``last`` of the last
    tokens of each block. ``multiples``: of which losses are shown beside it."""

    text: str
    needs: tuple[str, ...]
    holds: Callable[[Losses], bool]
    multiples: tuple[int, ...]
    last: bool = False


@dataclass(frozen=True)
class Finding:
    """Whether an ordering holds in these runs, and the losses it rests on."""

    text: str
    holds: bool
    numbers: str


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
        "At 4x and 8x, on the last tokens, dape(kerple_log) is better than kerple_log.",
        ("dape(kerple_log)", "kerple_log"),
        lambda r: all(r["dape(kerple_log)"][m] < r["kerple_log"][m] for m in (4, 8)),
        (4, 8),
        last=True,
    ),
)


def check_orderings(all_tokens: Losses, last_tokens: Losses | None = None) -> list[Finding]:
    """The orderings that these runs can show."""
    findings = []
    for ordering in ORDERINGS:
        losses = (last_tokens or {}) if ordering.last else all_tokens
        if not all(n in losses for n in ordering.needs):
            continue
        if not all(m in losses[n] for n in ordering.needs for m in ordering.multiples):
            continue
        numbers = "; ".join(
            f"{n} " + " ".join(f"{losses[n][m]:.2f} ({m}x)" for m in ordering.multiples)
            for n in ordering.needs
        )
        findings.append(Finding(ordering.text, bool(ordering.holds(losses)), numbers))
    return findings


STEP_TIME_TEXT = (
    "A training step of every encoding that adds to the score takes at most 1.1 "
    "times alibi's."
)


def check_step_times(times: Mapping[str, float]) -> Finding | None:
    """The ordering of times: a good compiler brings all to alibi's."""
    others = [n for n in ("t5_bias", "kerple_log") if times.get(n)]
    if not times.get("alibi") or not others:
        return None
    ratios = {n: times[n] / times["alibi"] for n in others}
    numbers = "; ".join(f"{n} {ratio:.2f} x alibi" for n, ratio in ratios.items())
    return Finding(STEP_TIME_TEXT, max(ratios.values()) <= 1.1, numbers)
