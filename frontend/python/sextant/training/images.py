"""Labelled images for vision transformers.

``--data`` names IDX files, images and labels, or a folder of images by class, and then
maybe the same for a part that is held out; without it the last tenth of each class is.
Without data the images are letters (`letters`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import torch

from ..files import spell_path
from ..memory import gibibytes, memory_limit
from . import folders, idx, letters
from .data import DataError
from .disk_file import DiskRows
from .resize import resized

# Of what is held out a run stores so much at most, spread evenly over all of it.
HELD_OUT_BYTES = 16 * 2**20
_PART = 10  # one of so many images of a class is held out
_CHUNK = 1024


Rows = torch.Tensor | DiskRows
R = TypeVar("R", bound=Rows, covariant=True)


@dataclass(frozen=True)
class Labelled(Generic[R]):
    """``images``: uint8 [count, height, width, channels], maybe on the disk; ``labels``: i64
    [count]."""

    images: R
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.images)

    def at(self, index: torch.Tensor) -> Labelled[torch.Tensor]:
        return Labelled(self.images[index], self.labels[index])


@dataclass(frozen=True)
class Images:
    """Labelled images: ``train`` as squares of the training's size, ``held_out`` as large as
    there are, of ``held_out_of`` before a run's share was taken. ``mean`` and ``deviation`` of
    the training images, f32 [channels], are what images are normalised by. ``classes`` are
    the names of labels 0, 1, ...; ``digest`` is a SHA-256 of all."""

    train: Labelled[Rows]
    held_out: Labelled[torch.Tensor]
    held_out_of: int
    classes: tuple[str, ...]
    source: str
    digest: str
    mean: torch.Tensor
    deviation: torch.Tensor

    def normalised(self, images: torch.Tensor) -> torch.Tensor:
        """f32 [count, channels, height, width] of uint8 [count, height, width, channels]."""
        found = (images.float() - self.mean) / self.deviation
        return found.permute(0, 3, 1, 2).contiguous()


@dataclass(frozen=True)
class _Source:
    """What files hold."""

    train: Labelled[Rows]
    held_out: Labelled[Rows]
    classes: tuple[str, ...]
    name: str
    digest: str


def load_images(data: Sequence[str], size: int = 0) -> Images:
    """Reads images, for trainings at a ``size`` (0: theirs). Raises `DataError`."""
    found = _read([Path(path) for path in data], size)
    height, width = found.train.images.shape[1:3]
    if not size and height != width:
        raise DataError(
            f"{found.name}: images are {height} x {width}, no squares; give --size N, to which "
            "both sides are resized"
        )
    size = size or (letters.SIZE if not data else height)
    train = Labelled(_fitted(found.train.images, size, found.name), found.train.labels)
    mean, deviation = _statistics(train.images, found.name)
    return Images(
        train,
        _share(found.held_out),
        len(found.held_out),
        found.classes,
        found.name,
        found.digest,
        mean,
        deviation,
    )


def digest_of(data: Sequence[str], size: int) -> str:
    """The digest that `load_images` gives, without reading more than it takes."""
    paths = [Path(path) for path in data]
    if not paths:
        return letters.digest(size or letters.SIZE)
    if _are_folders(paths):
        return folders.digest(_folders(paths))
    return _read(paths, size).digest


def spread(part: Labelled[Rows], count: int) -> Labelled[torch.Tensor]:
    """So many of the images, or all, evenly: files may have one class behind the other."""
    count = min(count, len(part))
    return part.at(torch.arange(count) * len(part) // count)


# Reading -----------------------------------------------------------------------------


def _are_folders(paths: list[Path]) -> bool:
    return len(paths) in (1, 2) and all(path.is_dir() for path in paths)


def _folders(paths: list[Path]) -> list[folders.Folder]:
    first = folders.find_images(paths[0])
    return [first, *(folders.find_images(path, first.classes) for path in paths[1:])]


def _read(paths: list[Path], size: int) -> _Source:
    if not paths:
        return _letters(size or letters.SIZE)
    name = ", ".join(map(spell_path, paths))
    parts: Sequence[Labelled[Rows]]
    if _are_folders(paths):
        found = _folders(paths)
        parts = [
            Labelled(images, torch.tensor(folder.labels))
            for folder, images in zip(found, folders.read_folders(found, size))
        ]
        return _source(parts, found[0].classes, name, folders.digest(found))
    if len(paths) not in (2, 4):
        raise DataError(
            f"--data of a model of images names two files, IMAGES LABELS, or four, with those that "
            f"are held out, or a folder of images by class, or two; got {name}"
        )
    pictures = [idx.read_images(path) for path in paths[::2]]
    classes_of = [idx.read_labels(path) for path in paths[1::2]]
    parts = [
        Labelled(images.elements, labels.elements.long())
        for images, labels in zip(pictures, classes_of)
    ]
    _check_files(parts, paths)
    classes = tuple(str(n) for n in range(int(parts[0].labels.max()) + 1))
    digests = [file.digest for pair in zip(pictures, classes_of) for file in pair]
    whole = hashlib.sha256("".join(digests).encode()).hexdigest()
    return _source(parts, classes, name, whole)


def _letters(size: int) -> _Source:
    train, held_out = (
        Labelled(*letters.draw(2 * size, count, held_out=is_held_out))
        for count, is_held_out in ((letters.TRAIN, False), (letters.HELD_OUT, True))
    )
    return _Source(train, held_out, letters.CLASSES, letters.SOURCE, letters.digest(size))


def _check_files(parts: Sequence[Labelled[Rows]], paths: list[Path]) -> None:
    """Images and labels belong together, and labels are 0, 1, ..., each of a training image."""
    for part, images, labels in zip(parts, paths[::2], paths[1::2]):
        if len(part.images) != len(part.labels):
            raise DataError(
                f"{images} holds {len(part.images)} images, {labels} {len(part.labels)} labels: "
                "there must be one for each"
            )
    counts = torch.bincount(parts[0].labels)
    if (empty := (counts == 0).nonzero()).numel():
        missing = int(empty[0])
        index = int((parts[0].labels > missing).nonzero()[0])
        raise DataError(
            f"{paths[1]}: image {index} has label {int(parts[0].labels[index])}, but no image has "
            f"label {missing}: labels are 0, 1, ... without a gap, of an image at least each"
        )
    if len(parts) == 1:
        return
    if parts[1].images.shape[1:] != parts[0].images.shape[1:]:
        raise DataError(
            f"images of {paths[2]} are {_extent(parts[1])}, those of {paths[0]} {_extent(parts[0])}"
        )
    if (wrong := (parts[1].labels >= len(counts)).nonzero()).numel():
        index = int(wrong[0])
        raise DataError(
            f"{paths[3]}: label {int(parts[1].labels[index])} of image {index} is out of range: "
            f"training images have labels 0 to {len(counts) - 1}"
        )


def _extent(part: Labelled[Rows]) -> str:
    return " x ".join(map(str, part.images.shape[1:]))


def _source(
    parts: Sequence[Labelled[Rows]], classes: tuple[str, ...], name: str, digest: str
) -> _Source:
    if len(parts) == 1:
        parts = _split(parts[0], classes, name)
    return _Source(parts[0], parts[1], classes, name, digest)


def _split(whole: Labelled[Rows], classes: tuple[str, ...], name: str) -> Sequence[Labelled[Rows]]:
    """The last tenth of each class, one image at least, is held out."""
    is_held_out = torch.zeros(len(whole), dtype=torch.bool)
    for label, word in enumerate(classes):
        own = (whole.labels == label).nonzero()[:, 0]
        if len(own) < 2:
            raise DataError(
                f'{name}: class "{word}" has one image; it needs two, one of which is held out'
            )
        is_held_out[own[-max(len(own) // _PART, 1) :]] = True
    return [whole.at((~is_held_out).nonzero()[:, 0]), whole.at(is_held_out.nonzero()[:, 0])]


def _share(part: Labelled[Rows]) -> Labelled[torch.Tensor]:
    """As many of the images as a run stores."""
    return spread(part, max(HELD_OUT_BYTES // part.images[0].numel(), 1))


def _fitted(images: Rows, size: int, name: str) -> Rows:
    needed = len(images) * size * size * images.shape[3]
    if images.shape[1:3] != (size, size) and 2 * needed > memory_limit():
        raise DataError(
            f"{name}: {len(images)} images of {size} x {size} take {gibibytes(needed)}, twice of "
            f"which do not fit into {gibibytes(memory_limit())} of memory; take a smaller --size"
        )
    return resized(images, size)


def _statistics(images: Rows, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and deviation of each channel, exact sums of whole numbers."""
    total = torch.zeros(images.shape[3], dtype=torch.int64)
    squares = torch.zeros_like(total)
    for part in images.split(_CHUNK):
        values = part.long()
        total += values.sum((0, 1, 2))
        squares += values.square().sum((0, 1, 2))
    count = images.numel() // images.shape[3]
    mean = total.double() / count
    deviation = (squares.double() / count - mean.square()).clamp(min=0).sqrt()
    if bool((deviation == 0).any()):
        channel = int((deviation == 0).nonzero()[0])
        raise DataError(
            f"{name}: channel {channel} of every training image is {mean[channel]:g} everywhere: "
            "there is nothing to learn in it"
        )
    return mean.float(), deviation.float()
