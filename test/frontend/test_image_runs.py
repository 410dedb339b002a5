"""Runs on images: trained, stopped, resumed, evaluated at sizes, refused where only texts
serve."""

import json
import re
from dataclasses import replace

import pytest
import torch
from stopped_training import check_same_bits, train_until

from sextant.cli import main
from sextant.report.results import EVALUATION, read_run
from sextant.training import loop
from sextant.training.config import TrainConfig
from sextant.training.evaluate import EvaluationError
from sextant.training.image_evaluation import default_sizes, evaluate_images
from sextant.training.images import Images, Labelled
from sextant.training.model import ModelError
from sextant.training.runs import evaluate_run
from sextant.training.shift import GridShift
from sextant.training.state import open_run, read_state

CONFIG = TrainConfig(
    model="vit",
    encodings=("rope_2d",),
    layers=1,
    width=16,
    heads=2,
    batch=4,
    steps=5,
    warmup=2,
    flip=0.5,
    crop=1,
    label_smoothing=0.1,
    mixup=0.3,
    shift=0.7,
    shift_per="sample",
    shift_range=30,
)


def images_of(count=20, size=8, classes=3):
    """Random ones, of which a class is a channel's brightness."""
    labels = torch.arange(count) % classes
    pixels = torch.randint(0, 256, (count, size, size, 1)).to(torch.uint8)
    whole = Labelled(pixels, labels)
    names = tuple("abc"[:classes])
    return Images(whole, whole, count, names, "drawn", "d", torch.tensor([99.0]), torch.tensor([50.0]))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's folder, its model and its images."""
    torch.manual_seed(0)
    folder, images = tmp_path_factory.mktemp("run"), images_of()
    model = loop.train(CONFIG, folder, data=images, progress=False)
    return folder, model, images


def test_a_stopped_training_goes_on_with_the_same_bits(run, tmp_path):
    """With crops, flips, mixed images and shifted positions of each sample."""
    folder, straight, images = run
    train_until(3, CONFIG, tmp_path, data=images)
    resumed = loop.train(CONFIG, tmp_path, data=images, progress=False)
    check_same_bits(straight, resumed)
    entries = [
        [(e["step"], e["loss"], e["starts"]) for e in map(json.loads, (f / "log.jsonl").open())]
        for f in (folder, tmp_path)
    ]
    assert entries[0] == entries[1]
    starts = [s for _, _, s in entries[0]]
    assert any(len(s) == 4 and all(0 <= r <= 28 and 0 <= c <= 28 for r, c in s) for s in starts)


def test_windows_of_grids():
    config = replace(CONFIG, size=8, shift=1.0, shift_windows=0, shift_range=4, batch=9)
    shift = GridShift(config)
    corners = shift.corners(1)
    # Of two by two patches below 4 there are nine windows.
    assert sorted(map(tuple, corners)) == [(r, c) for r in range(3) for c in range(3)]
    assert GridShift(replace(config, shift_per="batch")).corners(2)[0] in corners
    assert GridShift(replace(config, shift=0.0)).corners(1) == [[0, 0]]
    assert shift.farthest == 2
    some = GridShift(replace(config, shift_windows=2))
    drawn = {tuple(c) for step in range(20) for c in some.corners(step)}
    assert len(drawn) == 2 and some.farthest == max(max(c) for c in drawn)


def test_a_run_stores_what_its_evaluation_needs(run, capsys):
    folder, model, images = run
    with open_run(folder) as (opened, state):
        config, held_out = state.config, state.held_out()
        assert (config.size, config.channels, config.classes) == (8, 1, 3)
        assert torch.equal(held_out.held_out.images, images.held_out.images)
        found = evaluate_images(opened, held_out, progress=False)
    assert list(found.accuracy) == default_sizes(config) == [8, 12, 16]
    result = evaluate_run(folder, sizes=[8, 12], progress=False)
    assert result.accuracy == {n: found.accuracy[n] for n in (8, 12)}
    assert result.size_losses == {n: found.losses[n] for n in (8, 12)}
    (folder / EVALUATION).unlink()
    assert main(["eval", str(folder), "--sizes", "12", "8", "--quiet"]) == 0
    stored = read_run(folder)
    assert list(stored.accuracy) == [12, 8] and stored.accuracy == result.accuracy
    assert stored.size_losses == result.size_losses
    printed = capsys.readouterr().out
    assert all(f"{100 * share:.1f}" in printed for share in result.accuracy.values()), printed
    (note,) = result.notes
    assert note.startswith("the images, drawn, have changed since the training")
    # Top-1 and loss by hand, at the training size.
    logits = model.logits(images.normalised(images.held_out.images)).double()
    labels = images.held_out.labels
    assert found.accuracy[8] == pytest.approx(float((logits.argmax(1) == labels).double().mean()))
    losses = -logits.log_softmax(1)[torch.arange(20), labels]
    assert found.losses[8] == pytest.approx(float(losses.mean()), rel=1e-6)


def test_a_model_reads_positions_of_patches(run):
    """The class token first, where it is; patches row by row from a sample's corner."""
    _, model, _ = run
    step = next(s for s in range(1, 50) if len(model.shift.corners(s)) == 4)
    seen = {}
    program = model.program

    class Watching:
        def __getattr__(self, name):
            return getattr(program, name)

        def run(self, function, inputs):
            seen.update(zip(program.arguments(function), inputs))
            return program.run(function, inputs)

    before = {**model.params}, {**model.state}
    model.params = {n: t.clone() for n, t in before[0].items()}
    model.state = {n: t.clone() for n, t in before[1].items()} | {"step": torch.tensor(float(step))}
    model.program = Watching()
    try:
        model.step(torch.zeros(4, 1, 8, 8), torch.full((4, 3), 1 / 3), 0.0)
    finally:
        model.program, (model.params, model.state) = program, before
    wanted = [
        [[0, 0], [r, c], [r, c + 1], [r + 1, c], [r + 1, c + 1]] for r, c in model.shift.corners(step)
    ]
    assert seen["positions"].tolist() == wanted and seen["positions"].dtype == torch.int32


def test_errors_of_runs_on_images(run, tmp_path, capsys):
    folder, _, images = run
    for arguments, message in (
        (["eval", folder, "--sizes", "8", "10"], "images of 10 x 10 are not divided by patch 4"),
        (["eval", folder, "--multiples", "2"], "is a run on images, which --multiples does not serve"),
        (["train", folder, "--size", "12"], "size 8 (now 12); choose another folder"),
        (["train", folder, "--model", "gpt"], "is a setting of models of images, which a gpt is not"),
    ):
        assert main([*map(str, arguments), "--quiet"]) == 1
        assert message in capsys.readouterr().err
    other = replace(images, digest="another")
    with pytest.raises(loop.TrainingError, match="is of a run on other images"):
        loop.train(CONFIG, folder, data=other, progress=False)
    with pytest.raises(ModelError, match='"document" needs the tensor "document.ids"'):
        loop.train(replace(CONFIG, encodings=("document",)), tmp_path, data=images, progress=False)
    with pytest.raises(ModelError, match="shift 0.7 changes nothing"):
        loop.train(replace(CONFIG, encodings=()), tmp_path, data=images, progress=False)
    with pytest.raises(ValueError, match='"alibi" reads positions of one axis'):
        loop.train(replace(CONFIG, encodings=("alibi",)), tmp_path, data=images, progress=False)


def test_a_run_begins_from_another_one_at_a_larger_size(run, tmp_path):
    folder, _, _ = run
    larger = replace(CONFIG, size=12, init=str(folder), steps=1, lr=0.0, weight_decay=0.0)
    model = loop.train(larger, tmp_path, data=images_of(size=12), progress=False)
    stored = read_state(folder).checkpoint.part("param")
    assert all(torch.equal(model.params[n], t) for n, t in stored.items())


@pytest.mark.parametrize("per", ["model", "layer"])
def test_drawn_rows_and_columns(per, tmp_path):
    config = replace(CONFIG, shift=0.0, max_position=9, positions_per=per, steps=2, layers=2, head="mean")
    images = images_of()
    model = loop.train(config, tmp_path, data=images, progress=False)
    found = model._positions(model.program, "logits", 3, 2, torch.Generator().manual_seed(1))
    names = {"model": ["positions"], "layer": ["layers.0.positions", "layers.1.positions"]}[per]
    assert sorted(found) == names
    for positions in found.values():
        rows, columns = positions[0].reshape(3, 2, 2).unbind(2)
        assert (rows[:, 0] == rows[:, 1]).all() and (columns[0] == columns).all()
        assert (rows[:, 0].diff() > 0).all() and (columns[0].diff() > 0).all()
        assert 0 <= int(positions.min()) and int(positions.max()) < 9
    assert per == "model" or not torch.equal(*found.values())
    # Losses of a size are the same each time, alone and behind another size, as of a training
    # that goes on.
    losses = [
        evaluate_images(model, images, sizes, progress=False).losses[12]
        for sizes in ([12], [8, 12], [12])
    ]
    assert losses[0] == losses[1] == losses[2]
    # Ten columns are more than can be drawn below nine; three rows are drawn still.
    with pytest.raises(EvaluationError, match="below 9 .*, of which images of 40 x 40 need 10: take"):
        evaluate_images(model, images, [8, 40], progress=False)
    with pytest.raises(ValueError, match="cannot draw 10 different positions below 9"):
        model._positions(model.program, "logits", 3, 10, model.evaluation)
    model.config = replace(config, positions_beyond="index")
    for positions in model._positions(model.program, "logits", 3, 10, model.evaluation).values():
        rows, columns = positions[0].reshape(3, 10, 2).unbind(2)
        assert torch.equal(columns[0], torch.arange(10, dtype=torch.int32)) and rows.max() < 9


@pytest.mark.parametrize(
    ("encodings", "positions", "field"),
    [(("learned(rows=4, grid_rows=2, grid_columns=2)", "swin(rows=2, columns=2)"), "grid", "grid_biases"),
     (("kerple_log",), "index", "biases")],
)  # fmt: skip
def test_biases_of_patches_are_drawn(tmp_path, capsys, encodings, positions, field):
    """Of swin the table, offsets as they stand in it; kerple_log by the index of tokens."""
    settings = dict(encodings=encodings, positions=positions, shift=0.0, layers=2, lr=0.1)
    model = loop.train(replace(CONFIG, **settings), tmp_path / "run", data=images_of(), progress=False)
    result = evaluate_run(tmp_path / "run", sizes=[8], progress=False)
    found = torch.tensor(getattr(result, field))
    if positions == "grid":
        tables = [model.params[f"layers.{n}.attention.swin.table"] for n in range(2)]
        wanted = torch.stack(tables).unflatten(1, (3, 3)).movedim(3, 1)
    else:
        r1, r2 = (
            torch.stack([model.params[f"layers.{n}.attention.kerple_log.{r}"] for n in range(2)])
            for r in ("r1", "r2")
        )
        # Two by two patches and the class token.
        wanted = -r1[..., None] * (r2[..., None] * torch.arange(5)).log1p()
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)  # rounded to 1e-5
    page, picture = tmp_path / "report.html", tmp_path / "picture.png"
    assert main(["report", str(tmp_path / "run"), "-o", str(page)]) == 0
    text = page.read_text()
    title = {"grid": "rows and columns", "index": "distance"}[positions]
    assert f"<h3>Biases over {title}</h3>" in text and text.count("<svg") == 4
    names = [use.split("(")[0] for use in encodings]
    command = ["encodings", *names, "--plot", str(picture), "--run", str(tmp_path / "run"), "--length", "5"]
    assert main(command) == 0 and picture.read_bytes().startswith(b"\x89PNG")


def test_help_says_what_the_default_images_are(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "letters in matplotlib's fonts" in text and "--label-smoothing" in text


def test_a_loss_that_is_not_finite_names_its_size(tmp_path, monkeypatch):
    images = images_of()
    model = loop.train(replace(CONFIG, steps=1), tmp_path, data=images, progress=False)
    logits = model.logits
    monkeypatch.setattr(
        model, "logits", lambda pixels: logits(pixels) * (torch.nan if pixels.shape[-1] == 12 else 1)
    )
    with pytest.raises(
        EvaluationError, match=r"images of 12 x 12 is nan \(\d+\.\d{3} at 8 x 8\): numbers that grow"
    ):
        evaluate_images(model, images, [8, 12, 16], progress=False)
