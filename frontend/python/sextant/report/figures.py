"""Figures of a report, as inline SVG made by matplotlib."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence

from ..curves import in_buckets, line, marker, show_in_buckets
from .groups import Group
from .results import RunResult, multiple_name

# As wide as a phone shows without making letters small.
_SIZE = (4.6, 3.2)
# Letters in a line of a legend, or of a bar's name, and the height of such a line in inches.
_LEGEND, _NAME, _LINE = 50, 20, 0.17
# Heads, the first ones, of which images are drawn.
HEADS = 8


def _figure(rows: int = 1, columns: int = 1, size: tuple[float, float] = _SIZE):
    import matplotlib

    matplotlib.use("svg")
    # Letters as shapes: a reader's own fonts may be wider than the room for them.
    matplotlib.rcParams["svg.fonttype"] = "path"
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


def _legend(figure, ax) -> None:
    """Beside the axes, never on the curves."""
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper", fontsize="small")


def _legend_below(figure, ax) -> None:
    """Under the axes, for which the figure grows: names may be as long as a use."""
    handles, names = ax.get_legend_handles_labels()
    if not names:
        return
    wrapped = [_wrapped(name, _LEGEND) for name in names]
    columns = 2 if max(map(len, names)) <= _LEGEND // 2 - 4 else 1
    lines = sum(name.count("\n") + 1 for name in wrapped) / columns
    figure.set_figheight(figure.get_figheight() + _LINE * (lines + 1))
    figure.legend(
        handles, wrapped, loc="outside lower center", fontsize="small", ncols=columns
    )


def _wrapped(name: str, width: int) -> str:
    """A name in lines, broken behind commas and signs where it has no spaces."""
    spaced = name.replace(",", ", ").replace("+", "+ ").replace(",  ", ", ")
    return "\n".join(textwrap.wrap(spaced, width))


def extrapolation(groups: Sequence[Group], protocol: str, title: str) -> str:
    """Loss over the multiple of the training length, one line per list of encodings;
    of several seeds the mean, and from the least to the greatest as an area."""
    figure, axes = _figure()
    ax = axes[0][0]
    ticks = set()
    for index, group in enumerate(groups):
        multiples = sorted({m for run in group.runs for m in getattr(run, protocol)})
        ticks.update(multiples)
        _band(ax, multiples, [group.losses(protocol, m) for m in multiples], group.name, index)
    ax.set_xscale("log", base=2)
    ax.set_xticks(sorted(ticks), list(map(multiple_name, sorted(ticks))))
    ax.set_xlabel("length, in training lengths")
    ax.set_ylabel("loss (nats per byte)")
    ax.set_title(title)
    ax.grid(alpha=0.3)
    _legend_below(figure, ax)
    return _svg(figure)


def accuracy_by_size(groups: Sequence[Group]) -> str:
    """Top-1 accuracy over the size of images, as `extrapolation` has losses."""
    from matplotlib.ticker import PercentFormatter

    figure, axes = _figure()
    ax = axes[0][0]
    ticks = sorted({n for group in groups for run in group.runs for n in run.accuracy})
    for index, group in enumerate(groups):
        sizes = sorted({n for run in group.runs for n in run.accuracy})
        _band(ax, sizes, [group.losses("accuracy", n) for n in sizes], group.name, index)
    ax.set_xticks(ticks, [str(n) for n in ticks])
    ax.set_xlabel("size of images (pixels)")
    ax.set_ylabel("top-1 accuracy")
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.grid(alpha=0.3)
    _legend_below(figure, ax)
    return _svg(figure)


def _band(ax, places: Sequence[int], found: Sequence[list[float]], label: str, index: int) -> None:
    """A curve of means; of several seeds from the least to the greatest as an area."""
    style = line(index)
    ax.plot(places, [sum(v) / len(v) for v in found], marker=marker(index), label=label, **style)
    if any(len(values) > 1 for values in found):
        least, most = [min(v) for v in found], [max(v) for v in found]
        ax.fill_between(places, least, most, color=style["color"], alpha=0.2, linewidth=0)


# What stands beside curves of a training.
TRAINING = (
    "Loss of each step, smoothed. Losses of their own that encodings add in a training are part of "
    "it, and of no loss on held-out data."
)


def training_curves(
    groups: Sequence[Group], unit: str = "nats per byte", over_time: bool = False
) -> str:
    """Training loss, smoothed, over steps or the time that they took, one line per run."""
    figure, axes = _figure()
    ax = axes[0][0]
    for index, group in enumerate(groups):
        label = group.name
        for run in group.runs:
            if run.steps:
                steps, losses = zip(*_smooth(run.steps))
                places = run.seconds if over_time else steps
                ax.plot(places, losses, label=label, linewidth=1.2, **line(index))
                label = "_"
    ax.set_xlabel("time of the steps (s)" if over_time else "step")
    ax.set_ylabel(f"training loss ({unit})")
    ax.grid(alpha=0.3)
    _legend_below(figure, ax)
    return _svg(figure)


def validation_curves(groups: Sequence[Group], unit: str) -> str:
    """Loss on held-out data over steps, one line per run; a ring where it is least."""
    figure, axes = _figure()
    ax = axes[0][0]
    for index, group in enumerate(groups):
        label, style = group.name, line(index)
        for run in group.runs:
            if run.validation:
                ax.plot(*zip(*run.validation), label=label, linewidth=1.2, **style)
                best = min(run.validation, key=lambda point: point[1])
                ax.plot(*best, marker="o", fillstyle="none", color=style["color"])
                label = "_"
    ax.set_xlabel("step")
    ax.set_ylabel(f"loss on held-out data ({unit})")
    ax.grid(alpha=0.3)
    _legend_below(figure, ax)
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
    figure, axes = _figure(rows, columns, (2.8 * columns + 1.2, 2.4 * rows))
    for layer, heads in enumerate(run.biases):
        ax = axes[layer // columns][layer % columns]
        # One axis for all heads: buckets of distance are those of every head.
        steps = any(in_buckets(values) for values in heads)
        for head, values in enumerate(heads):
            # At distance 0 every bias is a constant of the row: show differences.
            shown = [v - values[0] for v in values]
            drawn = "steps-post" if steps else "default"
            ax.plot(shown, label=f"head {head}", linewidth=1, drawstyle=drawn, **line(head))
        if steps:
            show_in_buckets(ax, max(map(len, heads)))
        ax.set_title(f"layer {layer}", fontsize="small")
        ax.set_xlabel("distance", fontsize="small")
        ax.tick_params(labelsize="x-small")
        ax.grid(alpha=0.3)
    for spare in range(layers, rows * columns):
        axes[spare // columns][spare % columns].axis("off")
    axes[0][0].set_ylabel("bias, relative to distance 0", fontsize="small")
    _legend(figure, axes[0][0])
    return _svg(figure)


def grid_biases(run: RunResult) -> str:
    """What the encodings add to a score, over rows and columns: one row per layer, a panel for
    each head, white at the query's own place."""
    layers, heads = len(run.grid_biases), min(len(run.grid_biases[0]), HEADS)
    figure, axes = _figure(layers, heads, (1.9 * heads + 0.8, 1.9 * layers + 0.6))
    for layer, row in enumerate(axes):
        shown = run.grid_biases[layer][:heads]
        for head, (ax, image) in enumerate(zip(row, shown)):
            reach = len(image) // 2
            own = image[reach][reach]
            values = [[value - own for value in line] for line in image]
            edge = reach + 0.5
            most = _image(ax, values, (-edge, edge, edge, -edge))
            ax.set_title(f"layer {layer}, head {head}: \u00b1{most:.2g}", fontsize="x-small")
            ax.tick_params(labelsize="x-small")
            for axis in (ax.xaxis, ax.yaxis):
                axis.get_major_locator().set_params(integer=True)
    axes[0][0].set_ylabel("rows before", fontsize="small")
    axes[-1][0].set_xlabel("columns before", fontsize="small")
    return _svg(figure)


def adaptive_biases(found: dict) -> str:
    """What an encoding of all heads adds to the scores of a text: one row per layer,
    first the last query by head, then all queries of each head. A row's mean is left
    out, which the softmax does not see."""
    letters, layers = found["text"], found["layers"]
    heads = min(len(layers[0]), HEADS)
    figure, axes = _figure(len(layers), 1 + heads, (4.8 + 1.7 * heads, 1.9 * len(layers)))
    for row, layer in zip(axes, layers):
        for head in range(heads):
            last = _centred(layer[head][-1])
            row[0].plot(last, label=f"head {head}", linewidth=1, **line(head))
            _triangle(row[1 + head], layer[head])
        row[0].grid(alpha=0.3, axis="y")
        row[0].tick_params(labelsize="x-small")
    for number, row in enumerate(axes):
        row[0].set_ylabel(f"layer {number}", fontsize="small")
    for head in range(heads):
        axes[0][1 + head].set_title(f"head {head}", fontsize="small")
    axes[0][0].set_title("last query", fontsize="small")
    _legend(figure, axes[0][0])
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
    most = _image(ax, shown)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(size, 0, f"\u00b1{most:.2g}", fontsize="x-small", ha="right", va="top")


def _image(
    ax, rows: Sequence[Sequence[float]], extent: tuple[float, float, float, float] | None = None
) -> float:
    """Numbers as colours, white at 0; gives the greatest, whose colour is the darkest."""
    most = max((abs(v) for row in rows for v in row if v == v), default=0.0) or 1.0
    ax.imshow(
        rows, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest", extent=extent
    )
    return most


def step_times(groups: Sequence[Group]) -> str:
    """Time of a training step, as bars; of several seeds the mean of their medians."""
    timed = [group for group in groups if group.step_ms][::-1]
    names = [_wrapped(group.name, _NAME) for group in timed]
    lines = max((name.count("\n") + 1 for name in names), default=1)
    figure, axes = _figure(size=(_SIZE[0], 0.8 + max(0.4, _LINE * lines) * len(timed)))
    ax = axes[0][0]
    times = [sum(group.step_ms) / len(group.step_ms) for group in timed]
    bars = ax.barh(range(len(timed)), times, color=line(0)["color"])
    ax.set_yticks(range(len(timed)), names, fontsize="small")
    ax.bar_label(bars, fmt="%.0f", padding=3)
    ax.margins(x=0.1)
    ax.set_xlabel("time per training step (ms, median)")
    return _svg(figure)


def query_curves(curves: dict[str, list[list[float]]]) -> str:
    """What stands at the keys of one query over their distance, a panel per head and a
    line per name; each line relative to its mean, which the softmax does not see."""
    heads = len(next(iter(curves.values())))
    figure, axes = _figure(1, heads, (3.0 * heads + 1.6, 2.8))
    for head, ax in enumerate(axes[0]):
        for index, (name, by_head) in enumerate(curves.items()):
            ax.plot(_centred(by_head[head])[::-1], label=name, linewidth=1, **line(index))
        ax.set_title(f"head {head}", fontsize="small")
        ax.set_xlabel("distance", fontsize="small")
        ax.tick_params(labelsize="x-small")
        ax.grid(alpha=0.3)
    _legend(figure, axes[0][0])
    return _svg(figure)


def matrices(shown: dict[str, list[list[float]]], mark: int) -> str:
    """Square matrices side by side, each with colours of its own; a dashed line at ``mark``."""
    figure, axes = _figure(1, len(shown), (2.7 * len(shown), 2.9))
    for ax, (name, rows) in zip(axes[0], shown.items()):
        drawn = ax.imshow(rows, cmap="viridis", interpolation="nearest")
        figure.colorbar(drawn, ax=ax, shrink=0.7).ax.tick_params(labelsize="xx-small")
        for draw in (ax.axvline, ax.axhline):
            draw(mark - 0.5, color="white", linestyle="--", linewidth=0.8)
        ax.set_title(name, fontsize="small")
        ax.tick_params(labelsize="x-small")
    return _svg(figure)
