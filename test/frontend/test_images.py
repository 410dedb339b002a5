"""Labelled images: what files hold, what is wrong with them, and batches of them."""

import gzip
import lzma
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.nn.functional import interpolate, one_hot

from sextant.training import images as images_module
from sextant.training import letters
from sextant.training.augment import image_batch
from sextant.training.config import TrainConfig
from sextant.training.data import DataError
from sextant.training.images import digest_of, load_images
from sextant.training.resize import resized


def idx(tensor, kind=8):
    shape = struct.pack(f">{tensor.dim()}I", *tensor.shape)
    return bytes([0, 0, kind, tensor.dim()]) + shape + bytes(tensor.to(torch.uint8).flatten().tolist())


def drawn(count, *shape):
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8)


def every(part):
    """All images of a part, wherever they are."""
    return part.at(torch.arange(len(part))).images


def labels_of(count, classes):
    return (torch.arange(count) % classes).to(torch.uint8)


@pytest.fixture
def files(tmp_path):
    """Writes IDX files, by the names of tensors or their bytes; gives the paths."""

    def write(**contents):
        paths = []
        for name, content in contents.items():
            path = tmp_path / name.replace("_", ".")
            path.write_bytes(content if isinstance(content, bytes) else idx(content))
            paths.append(str(path))
        return paths

    return write


def test_a_plain_file_that_is_cut_during_a_training_is_an_error(files):
    """Not the end of the process, as it were of memory that is mapped."""
    paths = files(a=drawn(30, 8, 8), b=labels_of(30, 3), c=drawn(6, 8, 8), d=labels_of(6, 3))
    found = load_images(paths)
    with open(paths[0], "r+b") as file:
        file.truncate(1000)
    assert len(found.train) == 30
    with pytest.raises(DataError, match="has changed since it was opened, then 1936 bytes, now 1000"):
        found.train.at(torch.tensor([29]))


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3)])
def test_files_of_both_ranks_plain_and_packed(files, shape):
    pixels, held_out = drawn(30, *shape), drawn(6, *shape)
    paths = files(
        a=pixels, b=labels_of(30, 3), c_xz=lzma.compress(idx(held_out)), d=labels_of(6, 3)
    )
    found = load_images(paths)
    assert torch.equal(every(found.train).reshape(pixels.shape), pixels)
    assert torch.equal(found.held_out.images.reshape(held_out.shape), held_out)
    assert found.train.images.shape[1:] == (8, 8, 3 if len(shape) == 3 else 1)
    assert found.classes == ("0", "1", "2") and found.train.labels.dtype == torch.int64
    assert torch.equal(found.train.labels, torch.arange(30) % 3)
    # What is packed has the digest of what is not.
    plain = files(c=held_out)
    assert digest_of([*paths[:2], *plain, paths[3]], 0) == found.digest
    # Normalised training images have mean 0 and deviation 1 in each channel; float32.
    channels = found.normalised(every(found.train)).double().transpose(0, 1).flatten(1)
    torch.testing.assert_close(channels.mean(1), torch.zeros(len(channels)).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        channels.std(1, correction=0), torch.ones(len(channels)).double(), atol=1e-5, rtol=0
    )


def test_the_end_of_each_class_is_held_out(files):
    labels = torch.tensor([0] * 25 + [1] * 2 + [2] * 10, dtype=torch.uint8)
    pixels = torch.arange(37, dtype=torch.uint8)[:, None, None].expand(37, 4, 4)
    found = load_images(files(a=pixels, b=labels))
    assert found.held_out.images[:, 0, 0, 0].tolist() == [23, 24, 26, 36]
    assert found.held_out.labels.tolist() == [0, 0, 1, 2]
    assert len(found.train) == 33 and not set(found.train.images[:, 0, 0, 0].tolist()) & {23, 24, 26, 36}


def test_a_run_stores_some_of_many_held_out_images(files, monkeypatch):
    monkeypatch.setattr(images_module, "HELD_OUT_BYTES", 4 * 16)
    paths = files(a=drawn(20, 4, 4), b=labels_of(20, 2), c=drawn(10, 4, 4), d=labels_of(10, 2))
    found = load_images(paths)
    assert len(found.held_out) == 4 and found.held_out_of == 10
    assert found.held_out.labels.tolist() == [0, 0, 1, 1]  # of 0, 2, 5, 7


GOOD = dict(a=(torch.arange(320) % 256).reshape(20, 4, 4), b=labels_of(20, 2))
WRONG = [
    (dict(a=lzma.compress(idx(GOOD["a"]))[:-40]), "a is truncated: its xz data ends early"),
    (dict(a=idx(GOOD["a"])[:-3]), "a is truncated: its header says 20 x 4 x 4 bytes, 317 of 320"),
    (dict(a=lzma.compress(idx(GOOD["a"])[:-3])), "a is truncated: .* 317 of 320"),
    (dict(a=idx(GOOD["a"])[:9]), "a is truncated: it ends in its header, after 9 bytes"),
    (dict(a=idx(GOOD["a"]) + b"x"), "a is damaged: .* there are more"),
    (dict(a=b"\x89PNG\r\n\x1a\n" * 4), "a is no IDX file of images: it begins with 89 50 4e 47"),
    (dict(a=gzip.compress(b"x" * 40)), "unpack it with gunzip"),
    (dict(a=b""), "begins with nothing, expected 00 00 08 03 or 00 00 08 04"),
    (dict(a=idx(GOOD["a"], kind=0x0D)), "a has elements of IDX type 0x0d; images are bytes"),
    (dict(a=GOOD["b"]), "a holds 1 dimensions .* images have 3 or 4"),
    (dict(b=GOOD["a"]), "b holds 3 dimensions .* labels have 1"),
    (dict(a=torch.zeros(0, 4, 4)), "a holds no images: its header says 0 x 4 x 4"),
    (dict(b=labels_of(19, 2)), "a holds 20 images, .*b 19 labels"),
    (dict(b=2 * labels_of(20, 2)), "b: image 1 has label 2, but no image has label 1"),
    (dict(b=torch.tensor([0] * 19 + [1], dtype=torch.uint8)), 'class "1" has one image'),
    (dict(c=GOOD["a"][:4], d=labels_of(4, 3)), "d: label 2 of image 2 is out of range: .* 0 to 1"),
    (dict(c=torch.zeros(4, 4, 5), d=labels_of(4, 2)), "images of .*c are 4 x 5 x 1, those of"),
    (dict(a=(torch.arange(400) % 256).reshape(20, 4, 5)), "images are 4 x 5, no squares; give --size N"),
    (dict(a=torch.full((20, 4, 4), 7)), "channel 0 of every training image is 7 everywhere"),
    (dict(c=GOOD["a"]), "IMAGES LABELS, or four"),
]


@pytest.mark.parametrize(("changed", "message"), WRONG, ids=[m[:30] for _, m in WRONG])
def test_errors_of_files_name_file_and_cause(files, changed, message):
    with pytest.raises(DataError, match=message):
        load_images(files(**(GOOD | changed)))


def test_files_that_are_not_there(tmp_path, files):
    good = files(**GOOD)
    with pytest.raises(DataError, match="cannot read .*missing: No such file"):
        load_images([str(tmp_path / "missing"), good[1]])
    with pytest.raises(DataError, match="it is a folder; labels are an IDX file"):
        load_images([good[0], str(tmp_path)])


# Folders -----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A folder of two classes, three images each."""
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / "all" / name).mkdir(parents=True)
        for index in range(3):
            pixels = torch.full((4, 4, 3), 100 * label + 10 * index, dtype=torch.uint8)
            pixels[0, 0] = 255
            Image.fromarray(pixels.numpy()).save(tmp_path / "all" / name / f"{index}.png")
    return tmp_path / "all"


def test_a_folder_of_images_by_class(folder):
    (folder / "dog" / ".hidden").write_text("no image")
    found = load_images([str(folder)])
    assert found.classes == ("cat", "dog") and found.train.images.shape == (4, 4, 4, 3)
    assert found.train.images[:, 2, 2, 0].tolist() == [0, 10, 100, 110]
    assert found.held_out.images[:, 2, 2, 0].tolist() == [20, 120]
    assert found.held_out.labels.tolist() == [0, 1]
    assert digest_of([str(folder)], 0) == found.digest
    both = load_images([str(folder), str(folder)])
    assert len(both.train) == len(both.held_out) == 6 and both.digest != found.digest


def test_grey_images_of_different_sizes(folder):
    for name in ("cat", "dog"):
        for path in sorted((folder / name).iterdir()):
            Image.open(path).convert("L").save(path)
    Image.new("L", (7, 5), 9).save(folder / "cat" / "0.png")
    with pytest.raises(DataError, match=r"0.png is 7 x 5, .*1.png is 4 x 4; give --size N"):
        load_images([str(folder)])
    found = load_images([str(folder)], 6)
    assert found.train.images.shape == (4, 6, 6, 1) and found.held_out.images.shape == (2, 12, 12, 1)
    assert found.train.images[0].unique().tolist() == [9]


def test_errors_of_folders_name_the_place(folder, tmp_path):
    with pytest.raises(DataError, match="has no folders in it: the images of a class"):
        load_images([str(folder / "cat")])
    (tmp_path / "held" / "cat").mkdir(parents=True)
    with pytest.raises(DataError, match='held has no folder of "dog"'):
        load_images([str(folder), str(tmp_path / "held")])
    (folder / "dog" / "0.png").write_bytes((folder / "dog" / "0.png").read_bytes()[:40])
    with pytest.raises(DataError, match=r"cannot read the image .*dog/0.png"):
        load_images([str(folder)])
    (folder / "dog" / "0.png").write_text("no image")
    with pytest.raises(DataError, match=r"cannot read the image .*dog/0.png: cannot identify"):
        load_images([str(folder)])
    for path in (folder / "dog").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"dog is empty: each class has an image"):
        load_images([str(folder)])


# Sizes, letters, batches -------------------------------------------------------------


def test_resized_as_pytorch_does_it():
    pixels = drawn(3, 9, 9, 2)
    for size in (4, 9, 14):
        wanted = interpolate(
            pixels.permute(0, 3, 1, 2).float(), (size, size), mode="bicubic", antialias=True
        )
        assert torch.equal(resized(pixels, size).permute(0, 3, 1, 2).float(), wanted.round().clamp(0, 255))


def test_letters_are_the_same_draws_at_any_size():
    small, labels = letters.draw(12, 40, held_out=False)
    again, _ = letters.draw(12, 40, held_out=False)
    other, _ = letters.draw(12, 40, held_out=True)
    large, _ = letters.draw(24, 40, held_out=False)
    assert torch.equal(small, again) and labels.tolist()[:11] == [*range(10), 0]
    assert not (small.flatten(1)[:, None] == other.flatten(1)[None]).all(2).any()
    # Edges lie elsewhere in pixels; other letters differ by some 50 in the mean.
    apart = (resized(large, 12).float() - small.float()).abs()
    assert apart.mean() < 8 and (other.float() - small.float()).abs().mean() > 20
    assert letters.digest(12) != letters.digest(24)


def config_of(**settings):
    return TrainConfig(model="vit", size=8, channels=1, classes=3, batch=7, **settings)


@pytest.fixture
def twenty(files):
    return load_images(files(a=drawn(20, 8, 8), b=labels_of(20, 3), c=drawn(6, 8, 8), d=labels_of(6, 3)))


def test_passes_take_every_image_once(twenty):
    config = config_of()
    pixels = twenty.normalised(every(twenty.train))
    taken = []
    for step in range(20):  # 140 images: seven passes
        inputs, labels = image_batch(config, twenty, step)
        assert inputs.shape == (7, 1, 8, 8) and inputs.dtype == torch.float32
        which = [int((pixels == image).flatten(1).all(1).nonzero()) for image in inputs]
        assert labels.tolist() == twenty.train.labels[which].tolist()
        taken += which
    assert all(sorted(taken[at : at + 20]) == list(range(20)) for at in range(0, 140, 20))
    assert taken[:20] != taken[20:40]
    again = image_batch(config, twenty, 5)
    assert torch.equal(again[0], image_batch(config, twenty, 5)[0])
    assert not torch.equal(again[0], image_batch(replace(config, seed=1), twenty, 5)[0])


def test_crops_and_flips_are_places_of_the_padded_image(twenty):
    config = config_of(flip=0.5, crop=2)
    plain, _ = image_batch(config_of(), twenty, 3)
    inputs, _ = image_batch(config, twenty, 3)
    assert torch.equal(inputs, image_batch(config, twenty, 3)[0])
    black = twenty.normalised(torch.zeros(1, 12, 12, 1, dtype=torch.uint8))[0]
    found = []
    for image, changed in zip(plain, inputs):
        padded = black.clone()
        padded[:, 2:10, 2:10] = image
        for flipped in (False, True):
            for top in range(5):
                for left in range(5):
                    part = padded[:, top : top + 8, left : left + 8]
                    if torch.equal(part.flip(2) if flipped else part, changed):
                        found.append((flipped, top, left))
    assert len(found) == 7 and len(set(found)) > 1


def test_soft_targets(twenty):
    hard = image_batch(config_of(), twenty, 0)
    smooth = image_batch(config_of(label_smoothing=0.3), twenty, 0)
    assert torch.equal(hard[0], smooth[0])
    wanted = torch.full((7, 3), 0.1).scatter(1, hard[1][:, None], 0.8)
    torch.testing.assert_close(smooth[1], wanted)  # float32
    mixed, shares = image_batch(config_of(mixup=0.4), twenty, 0)
    first, second = one_hot(hard[1], 3).float(), one_hot(hard[1].roll(1, 0), 3).float()
    image = int((hard[1] != hard[1].roll(1, 0)).nonzero()[0])
    r = float(shares[image, hard[1][image]])
    torch.testing.assert_close(shares, r * first + (1 - r) * second)
    torch.testing.assert_close(mixed, r * hard[0] + (1 - r) * hard[0].roll(1, 0))
    torch.testing.assert_close(shares.sum(1), torch.ones(7))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(model="resnet"), 'unknown model "resnet"'),
        (dict(style="lama"), 'unknown style "lama"; did you mean "llama"'),
        (dict(residual="none"), 'unknown residual "none".*scaled'),
        (dict(patch=8), "patch 8 is a setting of models of images, which a gpt is not"),
        (dict(flip=0.5), "flip 0.5 is a setting of models of images"),
        (dict(model="vit", length=64), "length 64 is a setting of models of text, which a vit is not"),
        (dict(model="vit", mask="prefix"), "mask prefix is a setting of models of text"),
        (dict(model="vit", size=18), "18 x 18 are not divided by patch 4: .* a size of 16 or 20"),
        (dict(model="vit", size=3), "not divided by patch 4: .* a size of 4"),
        (dict(model="vit", head="clas"), 'unknown head "clas"'),
        (dict(model="vit", flip=1.5), "flip is a probability"),
        (dict(model="vit", label_smoothing=1.0), "label_smoothing is a share"),
        (dict(model="vit", mixup=-1.0), "mixup must be finite and not negative"),
        (dict(model="vit", patch=0), "patch must be at least 1"),
        (dict(model="vit", size=16, max_position=3), "max_position 3 is less than the patches of a row, 4"),
        (dict(model="vit", size=16, shift=0.5, shift_range=4), "4 positions below shift_range 4"),
        (dict(model="vit", positions="index", shift=0.5), 'shift 0.5 takes rows and columns'),
    ],
)
def test_settings_of_images(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**settings)


def test_a_data_set_as_its_description_says():
    folder = Path(__file__).resolve().parents[3] / "shared" / "data" / "fashion-mnist"
    if not folder.is_dir():
        pytest.skip("the data set is not here")
    names = [f"{part}-{what}-ubyte.xz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
    found = load_images([str(folder / name) for name in names])
    assert found.train.images.shape == (8000, 28, 28, 1) and len(found.classes) == 10
    assert len(found.held_out) == found.held_out_of == 2000
