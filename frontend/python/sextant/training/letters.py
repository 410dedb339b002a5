"""The default images: letters in the fonts that come with matplotlib, moved, turned and
scaled by a seed.

A class is a letter. Each image has a font, an angle, a size, a place and two shades that are
drawn for it; the same draws give the same letters at any size. Those that are held out are
other draws than those of the training.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont, features
from PIL import __version__ as pillow_version
from torch.nn.functional import affine_grid, grid_sample

from .data import DataError

SOURCE = "letters in matplotlib's fonts"
CLASSES = tuple("ABCDEFGHIJ")
# Training images of which no size is asked for.
SIZE = 24
TRAIN, HELD_OUT = 4000, 1000
_FONTS = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSerif",
    "DejaVuSerif-Bold", "DejaVuSerif-Italic", "STIXGeneral", "STIXGeneralBol",
    "STIXGeneralItalic", "cmb10", "cmr10", "cmss10", "cmtt10",
)  # fmt: skip
_BATCH = 500
# Of an image: the longer side of a letter, and how far its middle lies from the image's.
_SCALES = (0.35, 0.65)
_FARTHEST = 0.2
_TURNS = math.radians(20)
_BACKGROUNDS, _SHADES = (0.0, 0.35), (0.6, 1.0)


def draw(size: int, count: int, *, held_out: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The first ``count`` letters of a part: uint8 [count, size, size, 1], and their classes."""
    draws = _draws(count, "held out" if held_out else "train")
    classes = torch.arange(count) % len(CLASSES)
    fonts = (draws[:, 0] * len(_FONTS)).long()
    # Glyphs are as large as the largest letter: nothing has to be enlarged.
    glyphs = _glyphs(round(size * _SCALES[1]))
    parts = [
        _drawn(glyphs[fonts[at], classes[at]], draws[at], size)
        for at in torch.arange(count).split(_BATCH)
    ]
    return torch.cat(parts), classes


def digest(size: int) -> str:
    """What the letters of a size follow from."""
    found = hashlib.sha256(f"letters {size} {TRAIN} {HELD_OUT} {CLASSES} {_FONTS}".encode())
    found.update(f"{pillow_version} {features.version('freetype2')}".encode())
    for path in _paths():
        found.update(path.read_bytes())
    return found.hexdigest()


def _draws(count: int, part: str) -> torch.Tensor:
    """Numbers in [0, 1) for each image of a part: font, angle, size, row, column, and shades
    of background and letter."""
    seed = int.from_bytes(hashlib.sha256(f"letters {part}".encode()).digest()[:7], "big")
    return torch.rand(count, 7, generator=torch.Generator().manual_seed(seed))


def _drawn(glyphs: torch.Tensor, draws: torch.Tensor, size: int) -> torch.Tensor:
    angle = (2 * draws[:, 1] - 1) * _TURNS
    scale = _SCALES[0] + draws[:, 2] * (_SCALES[1] - _SCALES[0])
    middle = (2 * draws[:, 3:5] - 1) * 2 * _FARTHEST
    cos, sin = angle.cos() / scale, angle.sin() / scale
    # From places of the image to those of the glyph.
    turn = torch.stack([torch.stack([cos, sin], 1), torch.stack([-sin, cos], 1)], 1)
    moved = -(turn @ middle[:, :, None])
    grid = affine_grid(torch.cat([turn, moved], 2), [len(glyphs), 1, size, size], False)
    ink = grid_sample(glyphs[:, None], grid, align_corners=False)
    low, high = (
        (lo + draws[:, n] * (hi - lo))[:, None, None, None]
        for n, (lo, hi) in ((5, _BACKGROUNDS), (6, _SHADES))
    )
    shade = low + (high - low) * ink
    return (255 * shade).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)


def _paths() -> list[Path]:
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    paths = [folder / f"{name}.ttf" for name in _FONTS]
    for path in paths:
        if not path.is_file():
            raise DataError(
                f"{path}, with which the default images are drawn, is not on this machine; name "
                "images with --data IMAGES LABELS"
            )
    return paths


@lru_cache(maxsize=8)
def _glyphs(side: int) -> torch.Tensor:
    """Ink of each font's letters, f32 [fonts, letters, side, side], the longer side of a
    letter filling the picture."""
    return torch.stack([torch.stack([_glyph(p, c, side) for c in CLASSES]) for p in _paths()])


def _glyph(path: Path, letter: str, target: int) -> torch.Tensor:
    # Larger, since only then its box is known, to which it is made to fit.
    font = ImageFont.truetype(str(path), 2 * target)
    left, top, right, bottom = (round(edge) for edge in font.getbbox(letter))
    side = max(right - left, bottom - top) + 2
    picture = Image.new("L", (side, side))
    corner = ((side - right - left) / 2, (side - bottom - top) / 2)
    ImageDraw.Draw(picture).text(corner, letter, fill=255, font=font)
    small = picture.resize((target, target), Image.Resampling.BOX)
    pixels = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8)
    return pixels.reshape(target, target).float() / 255
