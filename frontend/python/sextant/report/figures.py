"""Figures of a report, as inline SVG made by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence

from .results import RunResult


def _figure(rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.4, 3.6)):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "sextant"
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _svg(figure) -> str:
    """The figure as an <svg> element, without XML head and date."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def extrapolation(runs: Sequence[RunResult], protocol: str, title: str) -> str:
    """Loss over the multiple of the training length, one line per run."""
    figure, axes = _figure()
    ax = axes[0][0]
    for run in runs:
        losses = getattr(run, protocol)
        multiples = sorted(losses)
        ax.plot(multiples, [losses[m] for m in multiples], marker="o", label=run.name)
    ax.set_xscale("log", base=2)
    ticks = sorted({m for run in runs for m in getattr(run, protocol)})
    ax.set_xticks(ticks, [f"{m}x" for m in ticks])
    ax.set_xlabel("length, in training lengths")
    ax.set_ylabel("loss (nats per byte)")
    ax.set_title(title)
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return _svg(figure)


def training_curves(runs: Sequence[RunResult]) -> str:
    """Training loss over steps."""
    figure, axes = _figure()
    ax = axes[0][0]
    for run in runs:
        if run.steps:
            ax.plot(*zip(*_smooth(run.steps)), label=run.name)
    ax.set_xlabel("step")
    ax.set_ylabel("training loss (nats per byte)")
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return _svg(figure)


def _smooth(steps: Sequence[tuple[int, float]], decay: float = 0.9):
    """Exponential moving average, corrected at the start."""
    value, weight = 0.0, 0.0
    for step, loss in steps:
        value = decay * value + (1 - decay) * loss
        weight = decay * weight + (1 - decay)
        yield step, value / weight


def biases(run: RunResult) -> str:
    """What the encodings add to a score, over distance: one panel per layer, one
    line per head."""
    layers = len(run.biases)
    columns = min(layers, 4)
    rows = -(-layers // columns)
    figure, axes = _figure(rows, columns, (3.0 * columns, 2.4 * rows))
    for layer, heads in enumerate(run.biases):
        ax = axes[layer // columns][layer % columns]
        for head, values in enumerate(heads):
            # At distance 0 every bias is a constant of the row: show differences.
            ax.plot([v - values[0] for v in values], label=f"head {head}", linewidth=1)
        ax.set_title(f"layer {layer}", fontsize="small")
        ax.set_xlabel("distance", fontsize="small")
        ax.grid(alpha=0.3)
    for spare in range(layers, rows * columns):
        axes[spare // columns][spare % columns].axis("off")
    axes[0][0].set_ylabel("bias, relative to distance 0", fontsize="small")
    axes[0][0].legend(fontsize="x-small")
    return _svg(figure)


def adaptive_biases(found: dict) -> str:
    """What an encoding of all heads adds to the scores of a text: one row per layer,
    first the last query by head, then all queries of each head. A row's mean is left
    out, which the softmax does not see."""
    letters, layers = found["text"], found["layers"]
    heads = min(len(layers[0]), 8)
    figure, axes = _figure(len(layers), 1 + heads, (3.6 + 1.7 * heads, 1.9 * len(layers)))
    for row, layer in zip(axes, layers):
        for head in range(heads):
            last = _centred(layer[head][-1])
            row[0].plot(last, label=f"head {head}", linewidth=1)
            _triangle(row[1 + head], layer[head])
        row[0].grid(alpha=0.3, axis="y")
        row[0].tick_params(labelsize="x-small")
    for number, row in enumerate(axes):
        row[0].set_ylabel(f"layer {number}", fontsize="small")
    for head in range(heads):
        axes[0][1 + head].set_title(f"head {head}", fontsize="small")
    axes[0][0].set_title("last query", fontsize="small")
    axes[0][0].legend(fontsize="xx-small")
    for ax in axes[-1]:
        ax.set_xlabel("key", fontsize="small")
    axes[-1][0].set_xticks(range(len(letters)), letters, fontsize=4)
    return _svg(figure)


def _centred(row: Sequence[float]) -> list[float]:
    mean = sum(row) / len(row)
    return [value - mean for value in row]


def _triangle(ax, rows: Sequence[Sequence[float]]) -> None:
    """Rows that grow by one as an image, white at 0."""
    size = len(rows)
    shown = [_centred(row) + [float("nan")] * (size - len(row)) for row in rows]
    most = max((abs(v) for row in shown for v in row if v == v), default=0.0) or 1.0
    ax.imshow(shown, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(size, 0, f"\u00b1{most:.2g}", fontsize="x-small", ha="right", va="top")


def step_times(runs: Sequence[RunResult]) -> str:
    """Time of a training step, as bars."""
    figure, axes = _figure(size=(6.4, 0.5 + 0.4 * len(runs)))
    ax = axes[0][0]
    names = [run.name for run in runs][::-1]
    times = [run.step_ms for run in runs][::-1]
    bars = ax.barh(names, times)
    ax.bar_label(bars, fmt="%.0f", padding=3)
    ax.set_xlabel("time per training step (ms, median)")
    return _svg(figure)
