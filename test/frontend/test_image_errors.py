"""Images that a user names wrongly: an error on the command line that names cause and place,
and a run's folder that is as it was."""

import lzma
import re

import pytest
import torch
from test_images import drawn, idx, labels_of

from sextant.cli import main

SMALL = "--layers 1 --width 16 --heads 2 --batch 2 --steps 1 --warmup 1 --quiet".split()


@pytest.fixture
def write(tmp_path):
    """Writes a file of a tensor or of bytes, and gives its path."""

    def to(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else idx(content))
        return str(path)

    return to


def train(folder, data, *more):
    return main(["train", str(folder), "--model", "vit", *SMALL, "--data", *data, *more])


def damaged(content):
    """A bit in the middle is another."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


# What differs from 20 images of 8 x 8 in three classes (pixels, labels, and the same that are
# held out, or other arguments), and what is said of it.
DRAWN = dict(pixels=lambda: drawn(20, 8, 8), labels=lambda: labels_of(20, 3),
             held_out=lambda: drawn(6, 8, 8), held_out_labels=lambda: labels_of(6, 3))  # fmt: skip
SHAPES = {
    "a patch that does not divide": (
        dict(pixels=lambda: drawn(20, 10, 10), held_out=lambda: drawn(6, 10, 10)), "",
        "images of 10 x 10 are not divided by patch 4: take another patch, or a size of 8 or 12",
    ),
    "a size that it does not divide": (
        {}, "--size 14", "images of 14 x 14 are not divided by patch 4: .* a size of 12 or 16"
    ),
    "colours that are held out from grey ones": (
        dict(held_out=lambda: drawn(6, 8, 8, 3)), "",
        "images of .*held_out are 8 x 8 x 3, those of .*pixels 8 x 8 x 1",
    ),
    "a label that is held out alone": (
        dict(held_out_labels=lambda: labels_of(6, 4)), "",
        "held_out_labels: label 3 of image 3 is out of range: training images have labels 0 to 2",
    ),
    "a label too large": (
        dict(labels=lambda: torch.cat([labels_of(19, 3), torch.tensor([200])])), "",
        "labels: image 19 has label 200, but no image has label 3: labels are 0, 1, ... without a gap",
    ),
    "an empty class": (
        dict(labels=lambda: 2 * labels_of(20, 2)), "", "image 1 has label 2, but no image has label 1"
    ),
    "truncated xz": (
        dict(held_out=lambda: lzma.compress(idx(drawn(6, 8, 8)))[:-9]), "",
        "held_out is truncated: its xz data ends early, after [0-9]+ bytes; fetch it again",
    ),
    "damaged xz": (
        dict(pixels=lambda: damaged(lzma.compress(idx(drawn(20, 8, 8))))), "",
        "pixels is damaged: .*; fetch it again",
    ),
    "truncated IDX": (
        dict(labels=lambda: idx(labels_of(20, 3))[:-1]), "",
        "labels is truncated: its header says 20 bytes, 19 of 20 are there; fetch it again",
    ),
    "labels and images in the wrong order": (
        dict(pixels=lambda: labels_of(20, 3), labels=lambda: drawn(20, 8, 8)), "",
        r"pixels holds 1 dimensions .*--data takes images first, then their labels",
    ),
    "a grid larger than its table": (
        {}, "--encodings learned(rows=3,grid_rows=2,grid_columns=2)",
        "the grid has more cells than the table has rows: got 4, but must be at most 3",
    ),
    "half a grid": ({}, "--encodings learned(grid_rows=2)", "grid_columns is 0, but grid_rows is not"),
    "rows and columns for an encoding of one axis": (
        {}, "--encodings alibi", '"alibi" reads positions of one axis; those of this model have two, row '
        'and column. With --positions index tokens',
    ),
    "one axis for an encoding of rows and columns": (
        {}, "--encodings rope_2d --positions index",
        '"rope_2d" reads positions of 2 axes.* have 1.*by --positions grid',
    ),
    "digits of one coordinate for two": (
        {}, "--encodings seqpe", "positions of this model have more coordinates than the option axes",
    ),
    "shifted rows of more digits than there are": (
        {}, '--encodings seqpe(axes=2,digits=1,alpha=0.0,beta=0.0) --shift 0.01 --shift-range 12',
        r"positions of this training reach 1[01] \(shift_range 12\): .*more digits than the option",
    ),
    "a class token outside a grid that would be turned": (
        {}, "--encodings rope_2d --class-position outside",
        r'write "rope_2d\(outside=true\)", or put .* \(--class-position origin\)',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "arguments", "message"), SHAPES.values(), ids=SHAPES)
def test_a_training_says_what_is_wrong(write, tmp_path, capsys, changed, arguments, message):
    data = [write(name, content()) for name, content in (DRAWN | changed).items()]
    run = tmp_path / "run"
    for more in ([], ["--dry-run"]):
        assert train(run, data, *arguments.split(), *more) == 1
        said = capsys.readouterr().err
        assert said.startswith("sextant: error: ") and "Traceback" not in said
        assert re.search(message, said), said
        assert not (run / "checkpoint.safetensors").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on grey images, and its data."""
    root = tmp_path_factory.mktemp("grey")
    names = []
    for name, tensor in (("pixels", drawn(20, 8, 8)), ("labels", labels_of(20, 3))):
        (root / name).write_bytes(idx(tensor))
        names.append(str(root / name))
    assert train(root / "run", names, "--encodings", "seqpe(axes=2, digits=1, alpha=0.0, beta=0.0)") == 0
    return root / "run", names


def test_other_images_for_a_run_that_is_there(trained, write, tmp_path, capsys):
    """Of other channels or classes; the run stays as it was."""
    run, (_, labels) = trained
    before = (run / "checkpoint.safetensors").read_bytes()
    colours = [write("colours", drawn(20, 8, 8, 3)), labels]
    assert train(run, colours, "--steps", "2") == 1
    assert "is of a run with other settings: channels 1 (now 3); choose another" in capsys.readouterr().err
    assert train(tmp_path / "other", colours, "--init", str(run)) == 1
    assert "a model of another shape: channels is 1, here 3" in capsys.readouterr().err
    classes = [write("pixels", drawn(20, 8, 8)), write("labels", labels_of(20, 4))]
    assert train(tmp_path / "other", classes, "--init", str(run)) == 1
    assert "a model of another shape: classes is 3, here 4" in capsys.readouterr().err
    assert (run / "checkpoint.safetensors").read_bytes() == before


def test_sizes_that_a_run_cannot_be_evaluated_at(trained, capsys):
    """Those that the patch does not divide, and those whose rows have more digits than were
    trained; no result is written."""
    run, _ = trained
    for size, message in (
        ("18", "images of 18 x 18 are not divided by patch 4"),
        ("44", "a position has more digits than the option digits"),
    ):
        assert main(["eval", str(run), "--sizes", size, "--quiet"]) == 1
        said = capsys.readouterr().err
        assert message in said and said.count("\n") == 1, said
        assert not (run / "evaluation.json").exists()


def test_tables_are_of_texts(trained, capsys):
    run, _ = trained
    assert main(["tables", str(run), "--length", "9"]) == 1
    assert "is a run on images: tables serve texts" in capsys.readouterr().err
    assert main(["eval", str(run), "--tables", "tables.safetensors"]) == 1
    assert "is a run on images, which --tables does not serve; it has --sizes" in capsys.readouterr().err
