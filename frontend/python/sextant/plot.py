"""Pictures of what encodings do (`sextant encodings NAME --plot`), as PNG files."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from . import definitions
from .curves import line, show_in_buckets
from .files import replace_file
from .panels import ADDED, Panel, Subject, initial_params, make_panels
from .uses import parse_use

LONGEST_TEXT = 512
# An image of so many rows of three is 16,000 pixels high.
MOST_PANELS = 120


def default_name(use: str) -> str:
    """Name of a picture's file: ``window(size=64)`` gives ``window-size=64.png``."""
    return re.sub(r"[^\w.=+]+", "-", use).strip("-") + ".png"


def plot_encodings(
    uses: Sequence[str],
    path: str | Path = "",
    *,
    heads: int = 4,
    head_dim: int = 64,
    length: int = 0,
    seed: int = 0,
    text: bytes = b"",
    params: Sequence[dict[str, torch.Tensor]] | None = None,
    note: str = "",
) -> Path:
    """Draws what uses of encodings do into a PNG file and gives its path.

    Args:
      uses: as in a list of encodings, with options and hosts; each by itself.
      path: the file; by default `default_name` in the current folder.
      length: how far distances go, or how long a text is; 0 chooses.
      seed: of initial parameters and of the rows that letters stand for.
      text: bytes; equal ones have equal rows. Without it each row is another.
      params: of each use, the parameters by public name, such as those of a trained
        model, which ``note`` names; initial values without it.

    Raises `CompileError` for an unknown encoding, `ValueError` where nothing can be
    drawn, `OSError` when the file cannot be written.
    """
    path = Path(path or default_name("+".join(uses)))
    if path.suffix.lower() != ".png":
        raise ValueError(f"pictures are PNG: name the file {path.with_suffix('.png')}, got {path}")
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"a text has up to {LONGEST_TEXT} bytes, got {len(text)}")
    subjects = [Subject(parse_use(use), {}, heads, head_dim, length, seed, text) for use in uses]
    for index, subject in enumerate(subjects):
        if params is None:
            subject.params = initial_params(subject)
        else:
            subject.params, subject.note = dict(params[index]), note
    panels = panels_of(subjects)
    _check_panels(panels, ", ".join(uses), length, text)
    data = render(panels, _headline(subjects))
    try:
        replace_file(path, data)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror}") from None
    return path


def _check_panels(panels: Sequence[Panel], uses: str, length: int, text: bytes) -> None:
    """What cannot be drawn, or would be drawn without what was asked for, is an error."""
    if len(panels) > MOST_PANELS:
        raise ValueError(
            f"a picture of {uses} has {len(panels)} parts, one for each head, and there is room "
            f"for {MOST_PANELS}: take fewer heads"
        )
    of_text = [panel for panel in panels if panel.letters]
    if text and not of_text:
        raise ValueError(
            f"a text says nothing of {uses}: what is drawn does not depend on the contents of "
            "rows; leave it out"
        )
    if text and length and len(of_text) == len(panels):
        raise ValueError(
            f"length {length} says nothing of a text, which is as long as it is: leave one out"
        )


def panels_of(subjects: Sequence[Subject]) -> list[Panel]:
    """The panels of one or more uses; of several, their biases side by side first."""
    if len(subjects) == 1:
        return make_panels(subjects[0])
    found = [(str(subject.use), panel) for subject in subjects for panel in make_panels(subject)]
    biases = [(use, p) for use, p in found if p.y == ADDED and p.x == "distance"]
    for use, panel in found:
        panel.title = f"{use}: {panel.title}"
    panels = [panel for _, panel in found]
    if len(biases) > 1:
        curves = [(use, *panel.curves[0][1:]) for use, panel in biases]
        panels.insert(0, Panel("bias of head 0", "distance", ADDED, curves))
    return panels


def _headline(subjects: Sequence[Subject]) -> str:
    """The uses, where their parameters are from, and of a single one its formula."""
    notes = dict.fromkeys(subject.note for subject in subjects if subject.params)
    note = f" ({'; '.join(notes)})" if notes else ""
    headline = ", ".join(str(subject.use) for subject in subjects) + note
    if len(subjects) > 1:
        return headline
    return f"{headline}\n{definitions.describe(subjects[0].use.encoding).formula}".strip()


def render(panels: list[Panel], headline: str) -> bytes:
    """The panels, at most three beside each other, as a PNG file."""
    from matplotlib.figure import Figure

    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = -(-len(panels) // columns)
    width = max(4.2 * columns, 7.0)
    figure = Figure(figsize=(width, 3.4 * rows + 0.8), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax, panel in zip(axes, panels):
        draw_panel(figure, ax, panel)
    for spare in axes[len(panels) :]:
        spare.axis("off")
    lines = [w for line in headline.splitlines() for w in textwrap.wrap(line, int(13.5 * width))]
    # Formulas hold signs that matplotlib would read as mathematics.
    figure.suptitle("\n".join(lines), fontsize="medium", parse_math=False)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=120, metadata={"Software": None})
    return stream.getvalue()


def draw_panel(figure, ax, panel: Panel) -> None:
    """Draws a panel into the axes of a figure of matplotlib."""
    # A long use is broken over lines, or its title would run into the neighbour's.
    ax.set_title("\n".join(textwrap.wrap(panel.title, 44)), fontsize="medium")
    ax.set_xlabel(panel.x, fontsize="small")
    ax.set_ylabel(panel.y, fontsize="small")
    ax.tick_params(labelsize="small")
    if panel.image is not None:
        _draw_image(figure, ax, panel, panel.image)
    else:
        _draw_curves(ax, panel)
    if panel.letters:
        ax.set_xticks(range(len(panel.letters)), panel.letters, fontsize="xx-small")
        if panel.image is not None:
            ax.set_yticks(range(len(panel.letters)), panel.letters, fontsize="xx-small")


def _draw_curves(ax, panel: Panel) -> None:
    for number, (label, x, y) in enumerate(panel.curves):
        index = int(label.rsplit(" ", 1)[1]) if "head " in label else number
        style = line(index)
        if label.startswith("hosts"):  # in the heads' colours: one entry says what they are
            style["linestyle"], label = ":", "dotted: hosts" if label.endswith(" 0") else "_"
        if panel.buckets:
            style["drawstyle"] = "steps-post"
        ax.plot(x.tolist(), y.tolist(), label=label or "_", linewidth=1.2, **style)
    if panel.buckets:
        show_in_buckets(ax, max(len(x) for _, x, _ in panel.curves))
    ax.grid(alpha=0.3)
    if ax.get_legend_handles_labels()[0]:  # beside the curves, never on them
        ax.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_image(figure, ax, panel: Panel, image: torch.Tensor) -> None:
    height, width = image.shape
    left, top = panel.corner
    right, half = left + (width - 1) * panel.step, 0.5 * panel.step
    edges = (left - half, right + half, top + height - 0.5, top - 0.5)
    limits: dict[str, Any] = {"cmap": "Greys_r"}
    if panel.centred:
        finite = image[image.isfinite()].abs()
        most = float(finite.max()) if len(finite) else 1.0
        limits = {"cmap": "RdBu_r", "vmin": -(most or 1.0), "vmax": most or 1.0}
    drawn = ax.imshow(image.numpy(), aspect="auto", interpolation="nearest", extent=edges, **limits)
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_major_locator().set_params(integer=True)
    if panel.centred:
        figure.colorbar(drawn, ax=ax).ax.tick_params(labelsize="x-small")
