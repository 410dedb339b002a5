"""The builder of ViTs: names, shapes and places of what it prints, and what it refuses."""

import pytest
import torch

import sextant
from sextant.models import gpt, vit

SMALL = dict(layers=1, width=32, heads=2, classes=5, patch=4, channels=3)


def compiled(**settings):
    return sextant.compile(vit.vit(**{**SMALL, **settings}), target="reference")


def test_names_and_shapes():
    program = compiled(encodings=("learned(grid_rows=3, grid_columns=2, rows=6)", "swin"))
    found = program.parameters
    assert found["patch.weight"]["dims"] == [32, 3 * 4 * 4]
    assert found["class.token"]["dims"] == [32]
    assert found["head.weight"]["dims"] == [5, 32] and found["head.bias"]["dims"] == [5]
    assert found["embedding.learned.table"]["dims"] == [6, 32]
    assert "layers.0.attention.swin.table" in found
    assert program.arguments("logits")[:2] == ["images", "patch.weight"]
    assert program.arguments("loss")[:2] == ["images", "labels"]
    assert program.results("gradients")[0] == "loss"


def test_llama_has_no_biases():
    found = compiled(style="llama", head="mean").parameters
    assert not any(name.endswith("bias") for name in found) and "class.token" not in found


def test_given_positions_become_arguments():
    settings = dict(encodings=("rope_2d", "learned(grid_rows=2, grid_columns=2)"))
    shared = compiled(positions="model", **settings)
    assert shared.arguments("logits")[:2] == ["images", "positions"]
    each = compiled(positions="layer", **settings)
    assert each.arguments("logits")[1:3] == ["embedding.positions", "layers.0.positions"]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"head": "tail"}, 'unknown head "tail"'),
        ({"targets": "sof"}, 'unknown targets "sof".*soft'),
        ({"class_position": "inside"}, 'unknown class_position "inside".*outside'),
        ({"positions": "grids"}, 'unknown positions "grids".*grid'),
        ({"patch": 0}, "patch must be at least 1, got 0"),
        ({"classes": 0}, "classes must be at least 1, got 0"),
        ({"clases": 3}, 'unknown setting "clases"; did you mean "classes"'),
    ],
)
def test_settings_that_make_no_model(settings, message):
    with pytest.raises(ValueError, match=message):
        vit.vit(**settings)


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: vit.vit(encodings=("alibi",)), '"alibi" reads positions of one axis.*positions="index"'),
        (lambda: vit.vit(encodings=("rope_2d",), positions="index"), "of 2 axes.*those of this model have 1"),
        (lambda: gpt.gpt(encodings=("causal", "rope_2d")), '"rope_2d" reads positions of 2 axes.*positions="model"'),
        (lambda: gpt.gpt(encodings=("causal",), axes=2), "indices have one axis"),
    ],
)
def test_positions_of_too_few_or_too_many_axes(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_bad_images_and_labels():
    program = compiled(encodings=("rope_2d",))
    params = program.init_params(0)

    def losses(shape, label=0):
        inputs = {"images": torch.zeros(shape), "labels": torch.tensor([label]), **params}
        return program.run("sample_losses", inputs)[0]

    assert losses((1, 3, 8, 12)).shape == (1,)
    for shape, message in (
        ((1, 3, 10, 8), r"height of images is no multiple of the patch 4; crop, pad or resize them \(10 and 4\)"),
        ((1, 3, 8, 9), r"width of images is no multiple of the patch 4.*\(9 and 4\)"),
        ((1, 3, 0, 8), r"height of images is less than the patch \(4 and 0\)"),
        ((1, 1, 8, 8), r"'images' must have the size 3 in dimension 1"),
        ((2, 3, 8, 8), r"batch.*is 1 but that of 'images' is 2"),
    ):
        with pytest.raises(sextant.RuntimeError, match=message):
            losses(shape)
    for label in (5, -1, -100):
        with pytest.raises(sextant.RuntimeError, match="a label is none of the 5 classes, which are 0 to 4"):
            losses((1, 3, 8, 8), label)


def test_positions_are_as_many_as_tokens():
    program = compiled(encodings=("rope_2d",), positions="model")
    inputs = {"images": torch.zeros(1, 3, 8, 8), **program.init_params(0)}
    with pytest.raises(sextant.RuntimeError, match=r"positions are one for each patch.*\(4 and 5\)"):
        program.run("logits", {**inputs, "positions": torch.zeros(1, 4, 2, dtype=torch.int32)})
    with pytest.raises(sextant.RuntimeError, match="must have the size 2 in dimension 2"):
        program.run("logits", {**inputs, "positions": torch.zeros(1, 5, 1, dtype=torch.int32)})
