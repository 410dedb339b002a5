"""TAPE in whole models: outputs and every gradient against plain PyTorch in float64
(tape_model.py), and what holds whatever was learned.

Gradients are compared within GRADIENT times the largest entry (test_gpt.py).
"""

import math

import plain_gpt
import pytest
import tape_model
import torch
from stopped_training import check_same_bits, drawn_text, train_until

import sextant
from sextant.models import gpt
from sextant.training import loop
from sextant.training.config import TrainConfig

GRADIENT = 1e-4
# Roundings of f32 in logits of size 1 to 5, after up to four layers.
LOGITS = 1e-4

# Odd numbers of everything but the lanes of a head, which are pairs.
SHAPE = dict(width=30, heads=3, layers=2)


def compiled(use, **settings):
    config = gpt.Config(encodings=("causal", use), **{**SHAPE, **settings})
    return config, sextant.compile(gpt.build(config))


def drawn_params(program, seed):
    """Parameters as after some training: what starts as 0 is not."""
    params = program.init_params(seed)
    for name, value in params.items():
        deviation = 0.3 if ".tape." in name else 0.1
        value += deviation * torch.randn(value.shape)
    return params


def of_layers(params, layers):
    """TAPE's parameters by layer, with the released code's matrix in place of its sums."""
    found = []
    for layer in range(layers):
        prefix = f"layers.{layer}.attention.tape."
        own = {n.removeprefix(prefix): p for n, p in params.items() if n.startswith(prefix)}
        if "s" in own:
            heads = own["s"].shape[0]
            own["mix"] = own["s"][:, None].expand(heads, heads) / heads
        found.append(own)
    return found


def inputs(length, batch=2):
    tokens, labels = torch.randint(0, 256, (2, batch, length))
    positions = torch.arange(length, dtype=torch.int32)[None, :, None]
    return {"tokens": tokens, "labels": labels, "positions": positions}


def logits(program, given, params):
    known = {n: t for n, t in given.items() if n in program.arguments("logits")}
    (out,) = program.run("logits", {**known, **params})
    return out



CASES = {
    "tape(hidden=5)": (tape_model.InModel, {}),
    "tape(hidden=5, base=500, scaling=yarn, factor=4, train_length=9)": (
        tape_model.InModel,
        dict(base=500.0, scaling="yarn", factor=4.0, train_length=9),
    ),
    "tape(hidden=5, base=500, scaling=ntk, factor=3)": (
        tape_model.InModel,
        dict(base=500.0, scaling="ntk", factor=3.0),
    ),
    "tape(hidden=5, attention=false)": (tape_model.InModel, dict(attention=False)),
    "tape(mlp=false)": (tape_model.InModel, dict(mlp=False)),
    "tape(form=paper, hidden=5)": (tape_model.InPaperModel, {}),
    "tape(form=paper, mlp=false)": (tape_model.InPaperModel, dict(mlp=False)),
    "tape(form=paper, hidden=5, attention=false, scaling=linear, factor=2)": (
        tape_model.InPaperModel,
        dict(attention=False, scaling="linear", factor=2.0),
    ),
    "tape(form=paper, hidden=5, equivariant=false)": (
        tape_model.InPaperModel,
        dict(equivariant=False),
    ),
    "tape(form=paper, hidden=5, tensor=false)": (tape_model.InPaperModel, dict(tensor=False)),
    "tape(form=paper, hidden=5, tensor=false, equivariant=false)": (
        tape_model.InPaperModel,
        dict(tensor=False, equivariant=False),
    ),
}


@pytest.mark.parametrize("use", CASES)
def test_outputs_and_gradients_equal_autograd(use, seed):
    config, program = compiled(use)
    params = drawn_params(program, seed)
    given = inputs(17)
    known = {**given, **params}
    found = program.run("gradients", {n: known[n] for n in program.arguments("gradients")})
    got = dict(zip(program.results("gradients"), found, strict=True))

    exact = {n: p.double().requires_grad_() for n, p in params.items()}
    inside, settings = CASES[use]
    model = inside(of_layers(exact, config.layers), **settings)
    loss = plain_gpt.loss(config, exact, given["tokens"], given["labels"], model)
    loss.backward()
    assert abs(got["loss"].item() - loss.item()) < 1e-5 * loss.item()
    learned = 0
    for name, p in exact.items():
        want = torch.zeros_like(p) if p.grad is None else p.grad
        error = (got[f"{name}:gradient"].double() - want).abs().max().item()
        assert error <= GRADIENT * want.abs().max().item() + 1e-6, name
        learned += ".tape." in name and bool(want.any())
    # The last layer makes a state that nobody reads.
    assert learned == sum(".layers.0" in f".{n}" and ".tape." in n for n in exact)


@pytest.mark.parametrize("form", ["released", "paper"])
@pytest.mark.parametrize(
    "scaling",
    [
        "base=500",
        "scaling=linear, factor=3",
        "scaling=ntk, factor=3",
        "scaling=yarn, factor=4, train_length=16",
    ],
)
def test_a_model_starts_as_that_with_rope_bit_for_bit(scaling, form, seed):
    """With all that the encoding has learned at 0, whatever the length."""
    _, program = compiled(f"tape(form={form}, {scaling})")
    _, turned = compiled(f"rope({scaling})")
    params = program.init_params(seed)
    given = inputs(40)
    ours = logits(program, given, params)
    theirs = logits(turned, given, {n: params[n] for n in turned.parameters})
    assert torch.equal(ours, theirs)
    moved = drawn_params(program, seed)
    theirs = logits(turned, given, {n: moved[n] for n in turned.parameters})
    assert (logits(program, given, moved) - theirs).abs().max() > 1e-2


def test_it_is_the_released_code_with_its_full_state(seed):
    """Over four layers, of which each reads what the one before made of the state."""
    config, program = compiled("tape(hidden=7)", layers=4)
    params = drawn_params(program, seed)
    given = inputs(21)
    exact = {n: p.double() for n, p in params.items()}
    model = tape_model.InFullModel(of_layers(exact, config.layers))
    want = plain_gpt.forward(config, exact, given["tokens"], model)
    assert (logits(program, given, params).double() - want).abs().max() < LOGITS
    # The gates of the released code's model are learned: the state has moved.
    cos, sin = model.state
    assert ((cos.square() + sin.square()).sqrt() - 1).abs().max() > 0.1


def test_a_common_rotation_of_the_state_changes_nothing(seed):
    """All positions further along by one number turn all states of a pair of lanes by one
    angle, also what the layers make of them."""
    _, program = compiled("tape", positions="model")
    params = drawn_params(program, seed)
    given = inputs(23)
    further = {**given, "positions": given["positions"] + 91}
    difference = logits(program, given, params) - logits(program, further, params)
    assert 0 < difference.abs().max() < LOGITS


def test_a_stopped_training_ends_with_the_same_bits(tmp_path, seed):
    config = TrainConfig(
        encodings=("tape(hidden=6)",), layers=2, width=24, heads=2, length=16, batch=2,
        steps=6, lr=1e-2, seed=seed,
    )
    text = drawn_text()
    straight = loop.train(config, tmp_path / "a", data=text, progress=False)
    train_until(3, config, tmp_path / "b", data=text)
    resumed = loop.train(config, tmp_path / "b", data=text, progress=False)
    check_same_bits(straight, resumed)
    start = straight.program.init_params(seed)
    for name, value in straight.params.items():
        # What the last layer makes of the state is read by nobody.
        if ".tape." in name:
            assert torch.equal(value, start[name]) == name.startswith("layers.1."), name
    assert math.isfinite(sum(p.sum().item() for p in straight.params.values()))


def test_heads_of_an_odd_width_are_refused():
    with pytest.raises(sextant.CompileError, match="maps pairs of lanes, got 5 lanes"):
        sextant.compile(gpt.gpt(encodings=("causal", "tape"), layers=1, width=15, heads=3))


def test_grouped_queries_are_refused():
    with pytest.raises(ValueError, match='state "tape.z" has 4 heads, but keys.*have 2: .*grouped'):
        gpt.gpt(encodings=("causal", "tape"), layers=1, width=32, heads=4, kv_heads=2)


def test_rows_and_columns_are_refused():
    """The state begins as RoPE, which would turn by the row alone."""
    shape = dict(encodings=["tape"], layers=1, width=16, heads=2, classes=3, channels=1, patch=2)
    message = "more coordinates than the one that RoPE turns by.*got 2, but must be at most 1"
    with pytest.raises(sextant.CompileError, match=message):
        sextant.models.vit(**shape)
    assert "tape.initial_state" in sextant.models.vit(positions="index", **shape)
