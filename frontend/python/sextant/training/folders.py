"""Folders of images by class: FOLDER/CLASS/IMAGE, of any format that Pillow reads."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image, ImageOps

from ..errors import nearest
from ..memory import gibibytes, memory_limit
from .data import DataError
from .resize import resized

_GREY = ("1", "L")
_MODES = (*_GREY, "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
# What Pillow raises for files that are no images, or damaged ones.
_UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


@dataclass(frozen=True)
class Folder:
    """A folder's files by class, each class with some, in the order of names."""

    path: Path
    classes: tuple[str, ...]
    files: tuple[Path, ...]
    labels: tuple[int, ...]


def find_images(path: Path, classes: Sequence[str] | None = None) -> Folder:
    """The images of a folder, of these classes if they are known; raises `DataError`."""
    try:
        found = sorted(d for d in path.iterdir() if d.is_dir() and not _is_hidden(d))
        names = [d.name for d in found]
        if not found:
            raise DataError(
                f"{path} has no folders in it: the images of a class lie in a folder of its name"
            )
        if classes is not None and names != list(classes):
            other = sorted(set(names) ^ set(classes))[0]
            which = "has no folder of" if other in classes else "has a folder of another class,"
            known = "" if other in classes else nearest(other, classes)
            raise DataError(f'{path} {which} "{other}"{known}; its classes are those of the training')
        files, labels = [], []
        for label, folder in enumerate(found):
            own = sorted(f for f in folder.iterdir() if not _is_hidden(f))
            if not own:
                raise DataError(f"{folder} is empty: each class has an image at least")
            files += own
            labels += [label] * len(own)
    except OSError as error:
        raise DataError(f"cannot read {error.filename or path}: {error.strerror}") from None
    return Folder(path, tuple(names), tuple(files), tuple(labels))


def _is_hidden(path: Path) -> bool:
    return path.name.startswith(".")


def digest(folders: Sequence[Folder]) -> str:
    """Of names and contents of all files."""
    found = hashlib.sha256()
    for folder in folders:
        for file in folder.files:
            content = _read(file)
            found.update(os.fsencode(file.relative_to(folder.path)) + f" {len(content)}\n".encode())
            found.update(content)
    return found.hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None


def read_folders(folders: Sequence[Folder], size: int) -> list[torch.Tensor]:
    """The images of each folder, uint8 [count, side, side, channels]: as large as they are,
    or, where they differ in size, squares of twice the training's ``size``."""
    heads = [(file, *_head(file)) for folder in folders for file in folder.files]
    channels = 1 if all(mode in _GREY for _, _, mode in heads) else 3
    first, extent, _ = heads[0]
    other = next(((f, e) for f, e, _ in heads if e != extent), None)
    if other is not None:
        if not size:
            raise DataError(
                f"images differ in size: {first} is {extent[0]} x {extent[1]}, {other[0]} is "
                f"{other[1][0]} x {other[1][1]}; give --size N, to which all are resized"
            )
        extent = (2 * size, 2 * size)
    needed = len(heads) * extent[0] * extent[1] * channels
    if 2 * needed > memory_limit():
        raise DataError(
            f"{folders[0].path} makes {len(heads)} images of {gibibytes(needed)}, of which two "
            f"copies do not fit into {gibibytes(memory_limit())} of memory; take a smaller --size"
        )
    return [
        torch.stack([_pixels(file, channels, extent, other is not None) for file in folder.files])
        for folder in folders
    ]


def _head(path: Path) -> tuple[tuple[int, int], str]:
    """Width and height of an image as it is shown, and its mode."""
    try:
        with Image.open(path) as image:
            # Orientations 5 to 8 are turned by a quarter.
            is_turned = image.getexif().get(0x0112, 1) >= 5
            width, height = image.size
            mode = image.mode
    except _UNREADABLE as error:
        raise _unreadable(path, error) from None
    if mode not in _MODES:
        raise DataError(
            f'{path} has pixels of mode "{mode}"; images have grey or colours of 8 bits: convert it'
        )
    return (height, width) if is_turned else (width, height), mode


def _pixels(path: Path, channels: int, extent: tuple[int, int], is_resized: bool) -> torch.Tensor:
    """[height, width, channels]."""
    try:
        with Image.open(io.BytesIO(_read(path))) as opened:
            image = ImageOps.exif_transpose(opened).convert("L" if channels == 1 else "RGB")
    except _UNREADABLE as error:
        raise _unreadable(path, error) from None
    raw = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    pixels = raw.reshape(image.height, image.width, channels)
    return resized(pixels[None], extent[0])[0] if is_resized else pixels


def _unreadable(path: Path, error: Exception) -> DataError:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DataError(f"cannot read the image {path}: {text.replace(f' {str(path)!r}', '')}")
