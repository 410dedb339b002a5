"""Whole ViTs, compiled, against autograd of the same models in plain PyTorch.

Gradients are compared in float64, within GRADIENT times the largest entry (test_gpt.py), at
the size of the table and at another one whose sides differ. Biases of keys have no gradient:
what every key of a row has in common leaves the softmax as it is.
"""

import math

import plain_vit
import pytest
import seqpe_model
import torch
from seqpe_parameters import encoder

import sextant
from sextant.models import vit

GRADIENT = 1e-4
SHAPE = dict(layers=2, width=24, heads=3, classes=5, channels=2, patch=3)
SIZES = [(3, 9, 6), (2, 6, 15)]  # batch, height, width
SEQPE = dict(axes=2, digits=2, heads=2, dropout=0.0, form="mul", projection="multi")
OFF = dict(alpha=0.0, beta=0.0)


def seqpe(**options):
    spelled = ", ".join(f"{k}={str(v).lower()}" for k, v in {**SEQPE, **options}.items())
    return f"seqpe({spelled})"


class Seqpe(plain_vit.Inside):
    """Li et al. 2025, its three forms, a projection for each layer. Tokens outside the grid
    have a learned row in place of the encoder's."""

    def __init__(self, params, outside=False, form="mul"):
        super().__init__(params)
        self.outside, self.form = outside, form
        self.settings = seqpe_model.Encoder(width=SHAPE["width"], heads=2, digits=2, axes=2)
        self.network = encoder(params, self.settings)

    def embed(self, x, at):
        samples = []
        for positions in at:
            e = seqpe_model.encode(self.settings, self.network, positions.clamp(min=0))
            if self.outside:
                row = self.params["attention.seqpe.outside_row"]
                e = torch.where((positions < 0).any(-1, keepdim=True), row, e)
            samples.append(e)
        self.embeddings = torch.stack(samples)
        return x

    def attend(self, layer, q, k, v, at):
        prefix = f"layers.{layer}.attention.seqpe.layer_projection"
        pair = self.params[f"{prefix}_weight"], self.params[f"{prefix}_bias"]
        rows = [seqpe_model.project(e, SHAPE["heads"], *pair) for e in self.embeddings]
        eq, ek = (torch.cat(part) for part in zip(*rows))
        self.added = 0.0
        if self.form == "bias":
            self.added = eq @ ek.mT / math.sqrt(q.shape[-1])
        elif self.form == "sum":
            q, k = q + eq, k + ek
        else:
            q, k = q * eq, k * ek
        return super().attend(layer, q, k, v, at)

    def bias(self, layer, at):
        return self.added


CASES = {
    "none": ((), {}, plain_vit.Inside),
    "none-mean-llama": ((), dict(head="mean", style="llama"), plain_vit.Inside),
    "learned": (
        ("learned(rows=6, grid_rows=3, grid_columns=2)",), dict(class_position="outside"),
        lambda p: plain_vit.Learned(p, 3, 2),
    ),
    "rope_2d-soft": (("rope_2d",), dict(targets="soft"), plain_vit.Rope2d),
    "rope_2d-outside": (
        ("rope_2d(outside=true)",), dict(class_position="outside"),
        lambda p: plain_vit.LeftAlone(p, plain_vit.Rope2d),
    ),
    "rope_2d_mixed-outside": (
        ("rope_2d_mixed(outside=true)",), dict(class_position="outside"),
        lambda p: plain_vit.LeftAlone(p, plain_vit.Rope2dMixed),
    ),
    "liere-outside": (
        ("liere(unit=0.5, outside=true)",), dict(class_position="outside"),
        lambda p: plain_vit.LeftAlone(p, plain_vit.Liere),
    ),
    "swin-mean": (
        ("swin(rows=3, columns=3)",), dict(head="mean"), lambda p: plain_vit.Swin(p, 3, 3)
    ),
    "seqpe-mul": ((seqpe(**OFF),), {}, Seqpe),
    "seqpe-bias": ((seqpe(form="bias", **OFF),), {}, lambda p: Seqpe(p, form="bias")),
    "seqpe-sum": ((seqpe(form="sum", **OFF),), {}, lambda p: Seqpe(p, form="sum")),
    "seqpe-mul-outside": (
        (seqpe(outside=True, **OFF),), dict(class_position="outside", targets="soft"),
        lambda p: Seqpe(p, outside=True),
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def case(request):
    encodings, settings, inside = CASES[request.param]
    config = vit.Config(encodings=encodings, **SHAPE, **settings)
    return config, sextant.compile(vit.build(config), target="cpu"), inside


def drawn(program):
    """Parameters with which no part of the network is close to linear."""
    params = program.init_params(1)
    return {
        n: p + (0.2 if ".seqpe." in n else 0.1) * torch.randn(p.shape) for n, p in params.items()
    }


def sample(config, batch, height, width):
    images = torch.randn(batch, config.channels, height, width)
    if config.targets == "soft":
        return images, torch.rand(batch, config.classes).softmax(-1)
    return images, torch.randint(0, config.classes, (batch,))


def run(program, function, inputs):
    found = program.run(function, [inputs[n] for n in program.arguments(function)])
    return dict(zip(program.results(function), found, strict=True))


def check_gradients(config, program, inside, params, images, labels, more=None, loss=0.0, positions=None):
    """``loss``: a function of float64 parameters that is added."""
    exact = {n: p.double().requires_grad_() for n, p in params.items()}
    known = {"images": images, "labels": labels, **params, **(more or {})}
    got = run(program, "gradients", known)
    images, labels = (t.double() if t.is_floating_point() else t for t in (images, labels))
    want = plain_vit.loss(config, exact, images, labels, inside(exact), positions=positions)
    want = want + (loss(exact) if callable(loss) else loss)
    want.backward()
    assert abs(got["loss"].item() - want.item()) < 1e-5 * max(1.0, want.item())
    for name, tensor in exact.items():
        if name.endswith("key.bias"):
            continue
        error = (got[f"{name}:gradient"].double() - tensor.grad).abs().max()
        assert error <= GRADIENT * tensor.grad.abs().max() + 1e-7, name


def test_gradients_equal_autograd(case):
    config, program, inside = case
    params = drawn(program)
    for shape in SIZES:
        check_gradients(config, program, inside, params, *sample(config, *shape))


def test_logits_and_losses(case):
    config, program, inside = case
    params = drawn(program)
    exact = {n: p.double() for n, p in params.items()}
    for shape in SIZES:
        images, labels = sample(config, *shape)
        logits = run(program, "logits", {"images": images, **params})["logits"]
        want = plain_vit.forward(config, exact, images.double(), inside(exact))
        torch.testing.assert_close(logits.double(), want, atol=1e-4, rtol=0)
        losses = run(program, "sample_losses", {"images": images, "labels": labels, **params})
        labels = labels.double() if config.targets == "soft" else labels
        each = plain_vit.loss(config, exact, images.double(), labels, inside(exact), "none")
        torch.testing.assert_close(losses["losses"].double(), each, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "encoding, inside",
    [("rope_2d", plain_vit.Rope2d), (seqpe(**OFF), Seqpe)],
    ids=["rope_2d", "seqpe"],
)
@pytest.mark.parametrize("shared", [1, 2])
def test_positions_of_samples(encoding, inside, shared):
    """Shifts of two axes; two samples have the same where ``shared`` is 2."""
    config = vit.Config(encodings=(encoding,), positions="sample", **SHAPE)
    program = sextant.compile(vit.build(config), target="cpu")
    images, labels = sample(config, 4, 9, 6)
    shift = torch.randint(0, 40, (4 // shared, 1, 2))
    at = plain_vit.positions_of(config, 9, 6) + shift * torch.tensor([0] + [1] * 6)[:, None]
    check_gradients(
        config, program, inside, drawn(program), images, labels,
        {"positions": at.int()}, positions=at.repeat(shared, 1, 1),
    )  # fmt: skip


@pytest.mark.parametrize("encoding", ["rope_2d_mixed", "liere(unit=0.5)", seqpe(form="bias", **OFF)])
def test_trains_and_evaluates_at_other_sizes(encoding):
    text = sextant.models.vit(encodings=(encoding,), **{**SHAPE, "layers": 1})
    program = sextant.compile(text, target="cpu")
    params = program.init_params(0)
    known = {"step": torch.tensor(1.0), "learning_rate": torch.tensor(3e-3), **params}
    for name in program.arguments("train_step"):
        if name.endswith((":first_moment", ":second_moment")):
            known[name] = torch.zeros_like(params[name.rsplit(":", 1)[0]])
    images, labels = torch.randn(6, 2, 9, 9), torch.randint(0, 5, (6,))
    steps = [
        run(program, "train_step", {"images": images, "labels": labels, **known})["loss"].item()
        for _ in range(8)
    ]
    assert steps[-1] < 0.7 * steps[0]
    logits = run(program, "logits", {"images": torch.randn(1, 2, 15, 12), **params})["logits"]
    assert logits.shape == (1, 5) and logits.isfinite().all()


@pytest.mark.parametrize(
    "class_position, shift", [("origin", 0), ("outside", 0), ("origin", 3), ("outside", 3)]
)
def test_losses_of_images(class_position, shift):
    """Both losses of seqpe, with windows of grids. A shifted step is not distilled."""
    outside = class_position == "outside"
    sets = dict(max_position=50, pivots=4, candidates=5, windows=2, offsets=3, sampling="image")
    spelled = seqpe(outside=outside, sided=2, reduction="released", **sets)
    shape = {**SHAPE, "layers": 1}
    config = vit.Config(
        encodings=(spelled,), positions="model", class_position=class_position, **shape
    )
    program = sextant.compile(vit.build(config), target="reference")
    cells = plain_vit.grid(config, 9, 9)
    near = torch.stack([cells[torch.randperm(9)[:3]] for _ in range(2)])
    drawn_sets = {
        "pivots": torch.randint(0, 50, (4, 2)),
        "candidates": torch.randint(0, 50, (4, 5, 2)),
        "trained": near,
        "beyond": near + torch.randint(9, 40, (2, 1, 2)),
    }
    at = plain_vit.positions_of(config, 9, 9)
    at[1:] += shift

    def loss(params):
        settings = seqpe_model.Encoder(width=24, heads=2, digits=2, axes=2)
        given = drawn_sets if not shift else {n: drawn_sets[n] for n in ("pivots", "candidates")}
        return seqpe_model.auxiliary_loss(
            settings, encoder(params, settings), given, 0.1, 0.1, 2, "released"
        )

    more = {"positions": at[None].int()}
    more |= {f"seqpe.{n}_at": t.int() for n, t in drawn_sets.items()}
    images, labels = sample(config, 2, 9, 9)
    check_gradients(
        config, program, lambda p: Seqpe(p, outside), drawn(program), images, labels,
        more, loss, positions=at[None],
    )  # fmt: skip


@pytest.mark.parametrize(
    "encoding, message",
    [
        ("seqpe", "positions of this model have more coordinates than the option axes: got 2"),
        ("seqpe(axes=3)", "positions of this model have fewer coordinates than the option axes"),
    ],
)
def test_coordinates_of_seqpe_are_those_of_the_model(encoding, message):
    with pytest.raises(sextant.CompileError, match=message):
        vit.vit(encodings=(encoding,))


def test_a_class_token_at_a_negative_position_needs_a_row_of_its_own():
    config = vit.Config(encodings=(seqpe(**OFF),), positions="model", **SHAPE)
    program = sextant.compile(vit.build(config), target="reference")
    at = torch.tensor([[[-1, -1], [0, 0]]], dtype=torch.int32)
    known = {"images": torch.zeros(1, 2, 3, 3), "positions": at, **program.init_params(0)}
    with pytest.raises(sextant.RuntimeError, match="a position is negative"):
        program.run("logits", known)


@pytest.mark.parametrize(
    "encoding, cure",
    [
        ("rope_2d(theta=10.0)", r'write "rope_2d\(theta=10.0, outside=true\)"'),
        ("at=rope_2d_mixed", r'write "at=rope_2d_mixed\(outside=true\)"'),
        ("liere(outside=false)", r'write "liere\(outside=true\)"'),
        (seqpe(**OFF), r"beta=0.0, outside=true\)"),
    ],
)
def test_a_class_token_outside_the_grid_is_no_patch(encoding, cure):
    """With a mean in its place there is none."""
    with pytest.raises(ValueError, match=f"outside the grid.*takes it for a patch: .*{cure}"):
        vit.vit(encodings=(encoding,), class_position="outside", **SHAPE)
    assert vit.vit(encodings=(encoding,), class_position="outside", head="mean", **SHAPE)
    assert vit.vit(encodings=(encoding,), class_position="origin", **SHAPE)
