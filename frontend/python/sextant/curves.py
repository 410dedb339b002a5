"""How curves are drawn, in pictures and in reports alike."""

from __future__ import annotations

from collections.abc import Sequence

# Colours that differ for every kind of sight (Okabe and Ito), the light one left out.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
_STYLES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def line(index: int) -> dict:
    """Colour and style of a curve; no two of the first 28 are the same."""
    return {
        "color": COLORS[index % len(COLORS)],
        "linestyle": _STYLES[index // len(COLORS) % len(_STYLES)],
    }


def marker(index: int) -> str:
    return _MARKERS[index % len(_MARKERS)]


def in_buckets(values: Sequence[float]) -> bool:
    """Whether a curve over distance is constant over stretches that grow, as a bias per
    bucket of distance is: such a one is read on a logarithmic axis."""
    starts = [0] + [i for i in range(1, len(values)) if values[i] != values[i - 1]]
    lengths = [b - a for a, b in zip(starts, [*starts[1:], len(values)])]
    return 2 < len(starts) <= len(values) / 2 and max(lengths) >= 4 * min(lengths)


def show_in_buckets(ax, length: int) -> None:
    """Distances 0, 1, ... on a logarithmic axis."""
    ax.set_xscale("symlog", base=2, linthresh=1, linscale=0.5)
    ticks = [0] + [2**n for n in range(length.bit_length()) if 2**n <= length]
    ax.set_xticks(ticks[:: 1 + len(ticks) // 10], [str(t) for t in ticks[:: 1 + len(ticks) // 10]])
    ax.minorticks_off()
