"""ExPE and ExQPE against plain PyTorch in float64 (exact_positions.py): values and
every gradient, where the row map stands alone; whole models are in test_gpt.py."""

import exact_positions
import pytest
import torch

import sextant

pytest.importorskip("sextant._compiler")

TARGETS = ["reference", "cpu"]
# (batch, length, width); the width is no multiple of the number of lanes.
SHAPES = [(3, 70, 40), (1, 1, 40)]
EXPE = [
    "",
    "channels=7, start=0.5, step=0.0125, scaled=0.5",
    "channels=7, values=equal",
    "channels=7, values=learned, scaled=0.5",
]
EXQPE = [
    "",
    "channels=7, start=0.5, step=0.0125, increment=0.25, scaled=0.5",
    "channels=7, values=learned, scaled=0.5",
]
CASES = [("expe", o) for o in EXPE] + [("exqpe", o) for o in EXQPE]
PARAMS = {"expe": ("s", "theta"), "exqpe": ("s", "theta1", "theta2")}


def options_of(text):
    given = dict(item.split("=") for item in text.replace(" ", "").split(",") if item)
    return {k: v if k == "values" else int(v) if k == "channels" else float(v) for k, v in given.items()}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name, options", CASES)
def test_values_and_gradients(name, options, target):
    """f32 rounds three operations on values of at most 20; sums of gradients have up to
    1500 terms (up to 20 each). The reference has the literals of a definition in f32: 6e-8 of values."""
    dtype = torch.float64 if target == "reference" else torch.float32
    learned = "learned" in options
    for shape in SHAPES:
        x = torch.randn(shape, dtype=dtype, requires_grad=True)
        leaves = {n: torch.rand((), dtype=dtype).mul(0.2).requires_grad_() for n in PARAMS[name] if learned}
        params = {f"{name}.{n}": t for n, t in leaves.items()}
        y = sextant.map_rows(x, [f"{name}({options})"], params, of="query_input", target=target)
        exact = x.detach().double().requires_grad_()
        doubles = {n: t.detach().double().requires_grad_() for n, t in leaves.items()}
        want = getattr(exact_positions, name)(exact, **options_of(options), **doubles)
        torch.testing.assert_close(y.double(), want, atol=2e-6, rtol=3e-7)
        dy = torch.randn(shape, dtype=dtype)
        got = torch.autograd.grad(y, [x, *leaves.values()], dy)
        expected = torch.autograd.grad(want, [exact, *doubles.values()], dy.double())
        assert torch.equal(got[0].double(), expected[0])
        for ours, theirs in zip(got[1:], expected[1:]):
            torch.testing.assert_close(ours.double(), theirs, atol=2e-3, rtol=1e-5)


@pytest.mark.parametrize("name", ["expe", "exqpe"])
def test_keys_and_given_positions(name):
    """Keys are mapped like queries, values not at all; positions may start anywhere and
    differ between sequences, and before 0 lanes go on as they do behind it."""
    x = torch.randn(2, 12, 20)
    at = torch.randint(0, 300, (2, 12)).sort(-1).values
    got = sextant.map_rows(x, [f"{name}(channels=3)"], of="key_input", positions=at)
    want = getattr(exact_positions, name)(x.double(), at, channels=3)
    torch.testing.assert_close(got.double(), want, atol=2e-6, rtol=3e-7)
    assert torch.equal(sextant.map_rows(x, [f"{name}(channels=3)"], of="value_input"), x)
    before = sextant.map_rows(x, [f"{name}(channels=3)"], of="key_input", positions=at - 300)
    size = 300 / 2048 if name == "expe" else 100 / 16
    torch.testing.assert_close(before[..., :3], got[..., :3] - size, atol=1e-5, rtol=0)


def test_positions_are_distinct_in_bf16():
    """One lane of bf16 holds 385 of the numbers 0, 1/2048, ..., 511/2048: from 1/8 on it
    rounds every second one. Lanes that follow each other round at different places: 96
    of them tell all of 8192 positions apart."""
    x = torch.zeros(1, 8192, 768, dtype=torch.bfloat16)
    rows = sextant.map_rows(x, ["expe"], of="query_input")[0, :, :96]
    assert len(rows.unique(dim=0)) == 8192
    assert len(rows[:512, :1].unique(dim=0)) == 385
    rounded = exact_positions.expe(x[0].double()).bfloat16()[:, :96]
    assert torch.equal(rows, rounded)


def test_folding_is_exact():
    """The projection of mapped rows is a shorter product plus what is affine in the
    position: what a compiler may make of it."""
    x = torch.randn(2, 40, 24, dtype=torch.float64)
    weight = torch.randn(10, 24, dtype=torch.float64)
    direct = exact_positions.expe(x, channels=7, start=0.3) @ weight.T
    torch.testing.assert_close(exact_positions.folded(weight, x, 7, 0.3, 1 / 2048), direct, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    "use, width, message",
    [
        ("expe(channels=0)", 16, "no lane holds the position.*got 0, but must be at least 1"),
        ("exqpe(channels=0)", 16, "no lane holds the position.*got 0, but must be at least 1"),
        ("expe", 7, "an eighth of the width may be 0: got 0, but must be at least 1"),
        ("expe(channels=17)", 16, "channels are more than the width.*got 17, but must be at most 16"),
        ("exqpe(channels=17)", 16, "channels are more than the width.*got 17, but must be at most 16"),
        ("expe(channels=-2)", 16, "channels.*at least -1"),
        ("exqpe(values=equal)", 16, "values.*exact.*learned"),
        ("expe(theta=1)", 16, "no option 'theta'"),
    ],
)
def test_lanes_that_cannot_be(use, width, message):
    with pytest.raises(sextant.CompileError, match=message):
        sextant.map_rows(torch.zeros(1, 4, width), [use], of="query_input")
