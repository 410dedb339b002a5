"""`sextant encodings NAME --plot`: what is drawn, and the file."""

import math
import os
import struct

import pytest
import torch

import sextant
from sextant import probe
from sextant.cli import main
from sextant.curves import COLORS, in_buckets
from sextant.panels import Subject, initial_params, make_panels, printable
from sextant.plot import default_name, draw_panel, panels_of, plot_encodings, render
from sextant.uses import parse_use

pytest.importorskip("sextant._compiler")


def subject_of(use, **settings):
    subject = Subject(parse_use(use), {}, **settings)
    subject.params = initial_params(subject)
    return subject


def drawn(use, **settings):
    return make_panels(subject_of(use, **settings))


def size_of(data):
    """Width and height of a PNG file."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


# Pictures ----------------------------------------------------------------------


def every_encoding():
    return [e.name for e in sextant.encodings()]


@pytest.mark.parametrize("name", every_encoding())
def test_every_encoding_has_a_picture(name):
    """Whatever is installed: parameters of callers get example values, and what
    adds nothing at first is moved."""
    panels = drawn(name, heads=2, head_dim=16, length=24)
    width, height = size_of(render(panels, name))
    assert width >= 400 and height >= 300
    for panel in panels:
        values = [y for _, _, y in panel.curves] or [panel.image]
        shown = [v[v.isfinite()] for v in values]
        assert all(len(v) for v in shown) and any((v != v[0]).any() for v in shown)


def test_a_bias_is_drawn_by_head():
    (panel,) = drawn("alibi", heads=4, length=10)
    slopes = [2.0 ** (-2 * (h + 1)) for h in range(4)]
    assert [label for label, _, _ in panel.curves] == [f"head {h}" for h in range(4)]
    for (_, x, y), slope in zip(panel.curves, slopes):
        torch.testing.assert_close(y, -slope * x.double())


@pytest.mark.parametrize("head_dim", [8, 48])
def test_a_bias_is_one_at_any_width_of_heads(head_dim):
    """Whose root is no whole number, so that a score of 2 is made with rounding."""
    (panel,) = drawn("kerple_log", head_dim=head_dim, length=9)
    assert panel.title == "bias"
    panels = drawn("swin(rows=3, columns=3)", head_dim=head_dim, length=3)
    assert [panel.title for panel in panels] == [f"bias, head {h}" for h in range(4)]


def test_a_rotation_is_drawn_by_lane():
    """cos(distance * frequency) for both lanes of each pair; their mean for all."""
    lanes, mean = drawn("rope", head_dim=8, length=12)
    distance = torch.arange(12).double()
    frequency = torch.tensor([10000.0 ** (-2 * t / 8) for t in range(4)]).double()
    want = (frequency[:, None] * distance).cos()
    assert lanes.centred and lanes.step == 1
    torch.testing.assert_close(lanes.image, want.repeat(2, 1), atol=1e-6, rtol=0)
    ((_, _, y),) = mean.curves
    torch.testing.assert_close(y, want.mean(0), atol=1e-6, rtol=0)


def test_a_rotation_by_two_axes_is_drawn_along_both():
    first, _, second, _ = drawn("rope_2d", head_dim=8, heads=1, length=5)
    assert (first.x, second.x) == ("distance on the first axis", "distance on the second axis")
    assert (first.image[:4] - second.image[4:]).abs().max() < 1e-6 or (
        first.image - second.image
    ).abs().max() > 0.1


def test_a_map_of_many_distances_leaves_some_out():
    lanes, mean = drawn("rope", head_dim=4, heads=1, length=1500)
    assert lanes.image.shape == (4, 500) and lanes.step == 3
    assert len(mean.curves[0][1]) == 1500


def test_buckets_are_drawn_on_a_logarithmic_axis():
    from matplotlib.figure import Figure

    assert in_buckets([1, 2, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5])
    assert not in_buckets(list(range(64))) and not in_buckets([1] * 16)
    assert not in_buckets([0] * 8 + [1] * 8 + [2] * 8 + [3] * 8)
    subject = subject_of("t5_bias", heads=2, length=200)
    subject.params["t5_bias.table"].copy_(torch.arange(64.0).reshape(32, 2))
    (panel,) = make_panels(subject)
    figure = Figure()
    ax = figure.subplots()
    draw_panel(figure, ax, panel)
    assert ax.get_xscale() == "symlog"
    (linear,) = drawn("alibi", heads=2, length=200)
    assert not linear.buckets


def test_several_uses_share_a_picture(tmp_path, monkeypatch, capsys):
    """Biases in one panel first, then each use by itself."""
    subjects = [subject_of(use, heads=2, length=9) for use in ("alibi", "rope", "kerple_log")]
    panels = panels_of(subjects)
    assert [p.title for p in panels] == [
        "bias of head 0",
        "alibi: bias",
        "rope: score of equal rows by lane, head 0",
        "rope: all lanes, head 0",
        "kerple_log: bias",
    ]
    assert [label for label, _, _ in panels[0].curves] == ["alibi", "kerple_log"]
    assert torch.equal(panels[0].curves[1][2], panels[4].curves[0][2])
    monkeypatch.chdir(tmp_path)
    assert main(["encodings", "alibi", "kerple_log", "--plot", "--length", "9"]) == 0
    assert capsys.readouterr().out == "picture: alibi+kerple_log.png\n"


def test_a_mask_is_drawn_as_what_it_shows():
    (panel,) = drawn("window(size=4)", heads=1, head_dim=8, length=20)
    offset = torch.arange(20)[:, None] - torch.arange(20)
    torch.testing.assert_close(panel.image, ((offset >= 0) & (offset < 4)).double())


def test_a_factor_is_drawn_beside_the_bias():
    subject = subject_of("kerple_multiplicative", heads=2, length=30)
    factor, bias = make_panels(subject)
    r = {n: subject.params[f"kerple_multiplicative.r{n}"] for n in range(1, 5)}
    for head in range(2):
        x = torch.arange(1, 30).double()
        want = torch.exp(-r[3][head] * x ** r[4][head]), -r[1][head] * x ** r[2][head]
        for panel, values in zip((factor, bias), want):
            torch.testing.assert_close(panel.curves[head][2][1:], values, atol=1e-8, rtol=1e-8)


def test_a_map_of_scores_is_drawn_over_the_score():
    (panel,) = drawn("softcap(cap=5)", heads=2)
    ((_, x, y),) = panel.curves
    torch.testing.assert_close(y, 5 * torch.tanh(x.double() / 5), atol=1e-6, rtol=1e-6)


def test_a_grid_is_drawn_by_head():
    subject = subject_of("swin(rows=3, columns=2)", heads=2, length=4)
    images = [panel.image for panel in make_panels(subject)]
    assert len(images) == 2 and images[0].shape == (9, 9)
    table = subject.params["swin.table"].reshape(5, 3, 2)
    torch.testing.assert_close(images[1][2:7, 3:6], table[:, :, 1])


def test_legends_and_headlines_have_room():
    """Four panels stand in two rows; hosts have one entry, in the colours of heads."""
    from matplotlib.figure import Figure

    panels = drawn("swin(rows=2, columns=2)", heads=4, length=3)
    width, height = size_of(render(panels, "a long headline " * 30))
    assert width == round(8.4 * 120) and height == round(7.6 * 120)
    first, *_ = drawn("dape(kerple_log, hidden=5)", heads=3, head_dim=8, length=8)
    figure = Figure()
    ax = figure.subplots()
    draw_panel(figure, ax, first)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["head 0", "head 1", "head 2", "dotted: hosts"]
    colors = [line.get_color() for line in ax.get_lines()]
    assert colors == list(COLORS[:3]) * 2
    figure.draw_without_rendering()
    assert not ax.get_legend().get_window_extent().overlaps(ax.get_window_extent())
    # Titles of long uses are as wide as their panels at most.
    panels = panels_of([subject_of(use, length=4) for use in ("learned(rows=49, grid_rows=7, grid_columns=7)", "swin")])
    figure = Figure(figsize=(4.2, 3.4), layout="constrained")
    ax = figure.subplots()
    draw_panel(figure, ax, panels[0])
    figure.draw_without_rendering()
    assert ax.title.get_window_extent().width <= 1.2 * ax.get_window_extent().width


def test_embeddings_are_drawn_as_they_become():
    (panel,) = drawn("sinusoidal", heads=1, head_dim=8, length=6)
    assert panel.image.shape == (6, 8)
    torch.testing.assert_close(panel.image[:, 0], torch.arange(6).double().sin(), atol=1e-6, rtol=0)


def test_embeddings_of_a_grid_are_drawn_row_by_row():
    subject = subject_of("learned(rows=6, grid_rows=3, grid_columns=2)", heads=1, head_dim=4, length=3)
    (panel,) = make_panels(subject)
    assert panel.y == "position of 3 x 3, row by row" and panel.image.shape == (9, 4)
    table = subject.params["learned.table"].T.reshape(1, 4, 3, 2)
    wanted = torch.nn.functional.interpolate(table, (3, 3), mode="bicubic")[0].flatten(1).T
    torch.testing.assert_close(panel.image, wanted, atol=1e-6, rtol=0)  # the table is float32


def network(params, scores, bias):
    w1, b1, w2, b2 = (params[f"dape.{n}"] for n in ("w1", "b1", "w2", "b2"))
    units = torch.einsum("ug,gij->uij", w1, torch.cat([scores, bias])) + b1[:, None, None]
    units = torch.nn.functional.leaky_relu(units, 0.01)
    return torch.einsum("hu,uij->hij", w2, units) + b2[:, None, None]


def test_scores_of_all_heads_are_drawn_for_a_text():
    """What is added, head by head, against the formula; its host dashed beside."""
    text = b"to be or not to be"
    subject = subject_of("dape(kerple_log, hidden=5)", heads=3, head_dim=8, text=text)
    first, *images = make_panels(subject)
    assert first.letters == text.decode() and len(images) == 3
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(2, 3, 256, 8, generator=draw, dtype=torch.float64)
    query, key = rows[:, :, list(text)]
    scores = query @ key.transpose(-1, -2) / math.sqrt(8)
    r1, r2 = (subject.params[f"dape.kerple_log.{n}"][:, None, None] for n in ("r1", "r2"))
    index = torch.arange(len(text)).double()
    bias = -r1 * torch.log1p(r2 * (index[:, None] - index).abs())
    want = bias + network(subject.params, scores, bias)
    visible = index[None] <= index[:, None]
    for panel, head in zip(images, want):
        torch.testing.assert_close(panel.image[visible], head[visible], atol=1e-6, rtol=1e-6)
        assert panel.image[~visible].isnan().all()
    for head in range(3):
        torch.testing.assert_close(first.curves[head][2], want[head, -1], atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(first.curves[3 + head][2], bias[head, -1], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    "use, others", [("dape(kerple_log, hidden=5)", 1), ("cope", 1), ("bend", 0), ("swin(rows=2, columns=2)", 0)]
)
def test_every_head_is_drawn(tmp_path, monkeypatch, use, others):
    """A part of the picture for each, behind ``others`` of all heads."""
    (tmp_path / "bend.mlir").write_text(BEND)
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    panels = drawn(use, heads=6, head_dim=8, length=6)
    named = [panel.title.rsplit("head ", 1)[-1] for panel in panels[others:]]
    assert len(panels) == others + 6 and named == list("012345")


# A score bent by distance, which no factor and bias are.
BEND = """\
pos.encoding @bend {
  pos.score {
  ^bb0(%s: f32):
    %o = pos.offset
    %d = arith.sitofp %o : i32 to f32
    %m = arith.minimumf %s, %d : f32
    pos.yield %m : f32
  }
}
"""


def test_what_adds_nothing_at_first_is_moved():
    subject = subject_of("cope", heads=2, head_dim=8, length=12)
    assert "moved" in subject.note and subject.params["cope.table"].abs().max() > 0
    assert subject_of("dape", heads=2).note == "initial parameters"


def test_scores_are_read_off_whole_rows():
    """Beside what an encoding adds to outputs, for more keys than lanes, grouped
    queries and hidden keys."""
    draw = torch.Generator().manual_seed(1)
    query = torch.randn(4, 11, 3, generator=draw, dtype=torch.float64)
    key = torch.randn(2, 11, 3, generator=draw, dtype=torch.float64)
    params = sextant.init_params(["shaw(reach=2)"], heads=4, head_dim=3, dtype=torch.float64)
    got = probe.mapped_scores(["causal", "shaw(reach=2)"], params, query, key)
    offset = torch.arange(11)[None] - torch.arange(11)[:, None]
    table = params["shaw.ak"][offset.clamp(-2, 2) + 2]
    rows = key.repeat_interleave(2, 0)[:, None] + table
    want = torch.einsum("hid,hijd->hij", query, rows) / math.sqrt(3)
    visible = offset <= 0
    torch.testing.assert_close(got[:, visible], want[:, visible], atol=1e-9, rtol=1e-9)
    assert (got[:, ~visible] == -torch.inf).all()


def test_an_encoding_of_the_search_path_is_drawn(tmp_path, monkeypatch):
    @sextant.encoding
    def near(score, at, slope: sextant.PerHead(init=sextant.constant_init(0.5))):
        return score - slope[at.head] * sextant.sqrt(abs(at.offset))

    (tmp_path / "near.mlir").write_text(near.text)
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    (panel,) = drawn("near", heads=1, length=5)
    torch.testing.assert_close(panel.curves[0][2], -0.5 * torch.arange(5).double().sqrt())


# The command -------------------------------------------------------------------


def test_command_names_the_file_after_the_use(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["encodings", "window(size=8)", "--plot", "--heads", "1"]) == 0
    assert capsys.readouterr().out == "picture: window-size=8.png\n"
    assert os.listdir(tmp_path) == ["window-size=8.png"]
    assert main(["encodings", "dape(alibi)", "--plot", "out/d.png", "--text", "a\u00e9b\n"]) == 0
    assert size_of((tmp_path / "out" / "d.png").read_bytes())


def test_names_of_files():
    assert default_name("alibi") == "alibi.png"
    assert default_name('near=rope(scaling="linear", base=1e6)') == "near=rope-scaling=-linear-base=1e6.png"
    assert default_name("dape(kerple_log, hidden=8)") == "dape-kerple_log-hidden=8.png"
    assert printable(b"a\n\xc3z") == "a\u00b7\u00b7z"


def test_pictures_are_the_same_bits(tmp_path):
    a, b = (plot_encodings(["alibi"], tmp_path / n, length=9).read_bytes() for n in ("a.png", "b.png"))
    assert a == b


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["kerple_lag", "--plot"], "kerple_log"),
        (["--plot"], "--plot needs an encoding"),
        (["alibi", "--plot", "a.svg"], "name the file a.png, got a.svg"),
        (["alibi(", "--plot"], "expected"),
        (["dape(softcap)", "--plot"], "is not additive in the score"),
        (["alibi", "--plot", "--heads", "0"], "--heads must be at least 1, got 0"),
        (["alibi", "--plot", "--length", "-1"], "--length must not be negative"),
        (["alibi", "--plot", "--length", "1000000000"], "--length must be at most 65536"),
        (["alibi", "--plot", "--heads", "1000000000"], "--heads times --head-dim must be at most"),
        (["alibi", "--plot", "--seed", "1" + "0" * 23], "--seed must be at least 0 and less than"),
        (["sinusoidal", "--plot", "--length", "65536"], "an image of 65536 x 256"),
        (["dape", "--plot", "--text", "ab" * 300], "up to 512 bytes, got 600"),
        (["swin", "--plot", "--heads", "121", "--length", "2"], "has 121 parts, one for each head, and there is"),
        (["alibi", "--plot", "--text", "abc"], "a text says nothing of alibi: what is drawn does not depend"),
        (["cope", "--plot", "--text", "abc", "--length", "9"], "length 9 says nothing of a text"),
        (["alibi", "--plot", "--run", ""], "--run needs the folder of a run, got an empty name"),
        (["alibi", "--plot", "file/a.png"], "cannot write file/a.png: "),
        (["alibi", "--plot", "--run", "nowhere"], "nowhere"),
        (["alibi", "--heads", "8", "--run", "r"], "--heads and --run says something of pictures alone"),
        (["alibi", "--plot", "--run", "r", "--head-dim", "8"], "--head-dim says nothing here: a run has its own heads"),
        (["alibi", "--plot", "--layer", "1"], "--layer says nothing here: a layer is one of a --run"),
        (["values_only", "--plot"], '"values_only" acts at weighted_rows'),
    ],
)
def test_errors_name_the_cause(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "values_only.mlir").write_text(VALUES_ONLY)
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    assert main(["encodings", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("sextant: error: ") and message in error
    assert sorted(os.listdir(tmp_path)) == ["file", "values_only.mlir"]


VALUES_ONLY = """\
pos.encoding @values_only attributes {formula = "o + table", paper = "none"} {
  %dim = pos.extent value_dim
  %rows = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %table = pos.param "table" : tensor<?x?xf32> dims(%rows, %dim) init constant(%zero)
  pos.weighted_rows %table : tensor<?x?xf32> {
    %first = arith.constant 0 : i32
    pos.yield %first : i32
  }
}
"""


def test_trained_parameters_are_drawn(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_bytes(b"The quick brown fox jumps over the lazy dog. " * 100)
    run = str(tmp_path / "run")
    train = ["train", run, "--data", str(text), "--layers", "2", "--width", "32", "--heads", "2"]
    train += ["--length", "16", "--batch", "2", "--steps", "2", "--quiet"]
    uses = ["learned", "mine=dape(kerple_log, hidden=3)", "forgetting"]
    assert main([*train, "--encodings", *uses]) == 0
    from sextant.training.runs import open_run, trained_params

    with open_run(run) as opened:
        (use, plain), settings = trained_params(*opened, ["mine", "learned"], 1)
        (_,), other = trained_params(*opened, ["dape"], 0)
    assert use == "mine=dape(kerple_log, hidden=3)" and settings["heads"] == 2
    assert plain == "learned" and set(settings["params"][1]) == {"learned.table"}
    first, second = (found["params"][0]["mine.w1"] for found in (settings, other))
    assert first.shape == (3, 4) and not torch.equal(first, second)
    capsys.readouterr()
    picture = tmp_path / "a.png"
    command = ["encodings", "mine", "--plot", str(picture), "--run", run, "--text", "the lazy"]
    assert main(command) == 0 and size_of(picture.read_bytes())
    assert main([*command, "--layer", "2"]) == 1
    assert "has layers 0 to 1, got 2" in capsys.readouterr().err
    assert main(["encodings", "forgetting", "--plot", "--run", run]) == 1
    assert '"forgetting.gate", which is made or given anew at every call' in capsys.readouterr().err
    assert main(["encodings", "ropes", "--plot", "--run", run]) == 1
    assert 'has no encoding "ropes"' in capsys.readouterr().err


def test_an_old_picture_outlives_a_failed_write(tmp_path, monkeypatch, capsys):
    path = tmp_path / "a.png"
    plot_encodings(["alibi"], path, length=5)
    before = path.read_bytes()

    def fail(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert main(["encodings", "rope", "--plot", str(path)]) == 1
    assert capsys.readouterr().err == f"sextant: error: cannot write {path}: No space left on device\n"
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.png"]
