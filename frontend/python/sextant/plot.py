"""Pictures of what encodings do (`sextant encodings NAME --plot`), as PNG files."""

from __future__ import annotations

import io
import re
import textwrap
from pathlib import Path

import torch

from . import definitions
from .files import replace_file
from .panels import Panel, Subject, initial_params, make_panels
from .uses import parse_use

LONGEST_TEXT = 512


def default_name(use: str) -> str:
    """Name of a picture's file: ``window(size=64)`` gives ``window-size=64.png``."""
    return re.sub(r"[^\w.=+]+", "-", use).strip("-") + ".png"


def plot_encoding(
    use: str,
    path: str | Path = "",
    *,
    heads: int = 4,
    head_dim: int = 64,
    length: int = 0,
    seed: int = 0,
    text: bytes = b"",
    params: dict[str, torch.Tensor] | None = None,
    note: str = "",
) -> Path:
    """Draws what a use of an encoding does into a PNG file and gives its path.

    Args:
      use: as in a list of encodings, with options and hosts.
      path: the file; by default `default_name` in the current folder.
      length: how far distances go, or how long a text is; 0 chooses.
      seed: of initial parameters and of the rows that letters stand for.
      text: bytes; equal ones have equal rows. Without it each row is another.
      params: the encoding's parameters by public name, such as those of a trained
        model, which ``note`` names; initial values without it.

    Raises `CompileError` for an unknown encoding, `ValueError` where nothing can be
    drawn, `OSError` when the file cannot be written.
    """
    path = Path(path or default_name(use))
    if path.suffix.lower() != ".png":
        raise ValueError(f"pictures are PNG: name the file {path.with_suffix('.png')}, got {path}")
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"a text has up to {LONGEST_TEXT} bytes, got {len(text)}")
    subject = Subject(parse_use(use), {}, heads, head_dim, length, seed, text)
    if params is None:
        subject.params = initial_params(subject)
    else:
        subject.params, subject.note = dict(params), note
    panels = make_panels(subject)
    try:
        replace_file(path, render(panels, _headline(subject)))
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror}") from None
    return path


def _headline(subject: Subject) -> str:
    formula = definitions.describe(subject.use.encoding).formula
    note = f" ({subject.note})" if subject.params else ""
    return f"{subject.use}{note}\n{formula}".strip()


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
    ax.set_title(panel.title, fontsize="medium")
    ax.set_xlabel(panel.x, fontsize="small")
    ax.set_ylabel(panel.y, fontsize="small")
    ax.tick_params(labelsize="small")
    if panel.image is not None:
        _draw_image(figure, ax, panel)
    else:
        _draw_curves(ax, panel)
    if panel.letters:
        ax.set_xticks(range(len(panel.letters)), panel.letters, fontsize="xx-small")
        if panel.image is not None:
            ax.set_yticks(range(len(panel.letters)), panel.letters, fontsize="xx-small")


def _draw_curves(ax, panel: Panel) -> None:
    for number, (label, x, y) in enumerate(panel.curves):
        style, color = "-", f"C{number % 10}"
        if "head " in label:
            color = f"C{int(label.rsplit(' ', 1)[1]) % 10}"
        if label == "all lanes":
            color = "black"
        if label.startswith("hosts"):  # in the heads' colours: one entry says what they are
            style, label = "--", "dashed: hosts" if label.endswith(" 0") else "_"
        ax.plot(x.tolist(), y.tolist(), style, color=color, label=label, linewidth=1.2)
    ax.grid(alpha=0.3)
    if any(label for label, _, _ in panel.curves):
        place = {}
        if len(ax.get_legend_handles_labels()[0]) > 5:  # many leave no place among them
            place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        ax.legend(fontsize="x-small", **place)


def _draw_image(figure, ax, panel: Panel) -> None:
    image = panel.image
    height, width = image.shape
    left, top = panel.corner
    edges = (left - 0.5, left + width - 0.5, top + height - 0.5, top - 0.5)
    limits = {"cmap": "Greys_r"}
    if panel.centred:
        finite = image[image.isfinite()].abs()
        most = float(finite.max()) if len(finite) else 1.0
        limits = {"cmap": "RdBu_r", "vmin": -(most or 1.0), "vmax": most or 1.0}
    drawn = ax.imshow(image.numpy(), aspect="auto", interpolation="nearest", extent=edges, **limits)
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_major_locator().set_params(integer=True)
    if panel.centred:
        figure.colorbar(drawn, ax=ax).ax.tick_params(labelsize="x-small")
