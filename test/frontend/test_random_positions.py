"""Random positions: the draw, and models that are trained and evaluated with them."""

from dataclasses import replace

import pytest
import torch
from stopped_training import drawn_text

import sextant
from sextant.models import gpt
from sextant.training.config import TrainConfig
from sextant.training.evaluate import evaluate
from sextant.training.model import Model


def test_draws_are_sorted_and_without_repetition(seed):
    draw = torch.Generator().manual_seed(seed)
    for length, most in ((0, 0), (1, 1), (7, 7), (9, 100), (500, 2048)):
        positions = sextant.random_positions(length, most, draw)
        assert positions.dtype == torch.int32 and positions.shape == (length,)
        assert (positions.diff() > 0).all()
        assert length == 0 or (0 <= positions[0] and positions[-1] < most)


def test_every_position_is_as_likely():
    draw = torch.Generator().manual_seed(3)
    counts = torch.zeros(10)
    for _ in range(2000):
        counts[sextant.random_positions(3, 10, draw).long()] += 1
    # 600 expected each, with a deviation of 20.
    assert (counts - 600).abs().max() < 120


def test_generators_decide():
    a, b = (
        sextant.random_positions(50, 200, torch.Generator().manual_seed(s)) for s in (5, 5)
    )
    assert torch.equal(a, b)
    assert not torch.equal(a, sextant.random_positions(50, 200, torch.Generator().manual_seed(6)))


def test_a_length_that_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="cannot draw 9 different positions below 8"):
        sextant.random_positions(9, 8)
    with pytest.raises(TypeError, match="max_length must be a whole number, got 10.5"):
        sextant.random_positions(5, 10.5)


def test_whole_range_is_the_index(seed):
    """Drawn from as many as there are, positions are the indices."""
    settings = dict(layers=1, width=32, heads=2, encodings=("causal", "rope", "t5_bias"))
    given = sextant.compile(gpt.gpt(positions="model", **settings), target="reference")
    plain = sextant.compile(gpt.gpt(**settings), target="reference")
    params = plain.init_params(1)
    tokens = torch.randint(0, 256, (2, 12), generator=torch.Generator().manual_seed(seed))
    known = {"tokens": tokens, "positions": sextant.random_positions(12, 12)[None, :, None]}
    known |= params
    got, want = (
        p.run("logits", [known[n] for n in p.arguments("logits")])[0] for p in (given, plain)
    )
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("per", ["layer", "model"])
def test_training_and_evaluation(per):
    """Two runs of equal settings give the same weights; evaluation draws as well."""
    config = TrainConfig(
        encodings=("rope", "sinusoidal"), layers=2, width=32, heads=2, length=16, batch=2,
        max_position=64, positions_per=per,
    )  # fmt: skip
    tokens = torch.arange(34).reshape(2, 17) % 7
    models = [Model(config), Model(config)]
    losses = [[m.step(tokens[:, :-1], tokens[:, 1:], 1e-2) for _ in range(3)] for m in models]
    assert losses[0] == losses[1] and losses[0][-1] < losses[0][0]
    first, second = (models[0].token_losses(tokens[:, :-1], tokens[:, 1:])[0] for _ in range(2))
    assert not torch.equal(first, second)
    # Losses of a length are the same whatever lengths stand before it.
    text = drawn_text(8000)
    found = [evaluate(models[0], text, lengths=at, progress=False) for at in ((32,), (16, 32))]
    assert found[0] == tuple({2: losses[2]} for losses in found[1])
    with pytest.raises(ValueError, match="different positions below 64"):
        models[0].token_losses(torch.zeros(1, 65).long(), torch.zeros(1, 65).long())


def test_longer_sequences_have_their_indices_if_asked_for():
    """Up to the bound they are drawn; beyond it losses are those of the model without draws."""
    config = TrainConfig(
        encodings=("rope",), layers=2, width=32, heads=2, length=8, batch=2,
        max_position=16, positions_beyond="index",
    )  # fmt: skip
    random, plain = Model(config), Model(replace(config, max_position=0))
    assert all(torch.equal(t, plain.params[n]) for n, t in random.params.items())
    tokens = torch.arange(18)[None] % 7
    texts = {length: (tokens[:, :length], tokens[:, 1 : length + 1]) for length in (8, 16, 17)}
    drawn = random.token_losses(*texts[8])[0]
    assert not torch.equal(drawn, plain.token_losses(*texts[8])[0])
    # 16 of 16 positions are the indices, too.
    for length in (16, 17):
        got, want = (m.token_losses(*texts[length])[0] for m in (random, plain))
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


HOSTS = ["alibi", "kerple_log", "t5_bias", "fire", "rope", "xpos", "sandwich", "cope", "shaw",
         "dape(kerple_log)", "talking_heads", "learned(rows=256)", "sinusoidal",
         "liere(axes=1, unit=0.01)"]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_any_host(host):
    """A model with one draw per layer trains, and is evaluated beyond its length."""
    config = TrainConfig(
        encodings=(host,), layers=2, width=32, heads=2, length=12, batch=2,
        max_position=256, positions_per="layer",
    )  # fmt: skip
    model = Model(config)
    tokens = torch.arange(26).reshape(2, 13) % 5
    losses = [model.step(tokens[:, :-1], tokens[:, 1:], 1e-2) for _ in range(3)]
    assert losses[-1] < losses[0]
    longer = torch.arange(101)[None] % 5
    first, second = (model.token_losses(longer[:, :-1], longer[:, 1:])[0] for _ in range(2))
    assert first.isfinite().all()
    # What asks for no coordinate cannot tell two draws apart.
    assert torch.equal(first, second) == (host in ("cope", "talking_heads"))


def test_settings_that_do_not_fit():
    with pytest.raises(ValueError, match="max_position 8 is less than length 16"):
        TrainConfig(length=16, max_position=8)
    with pytest.raises(ValueError, match='unknown positions_per "layers".*layer'):
        TrainConfig(positions_per="layers")
    with pytest.raises(ValueError, match='unknown positions_beyond "indexes"; did you mean "index"'):
        TrainConfig(positions_beyond="indexes")
