"""GPTs with SeqPE as trainings have them: kernels of the CPU, initial values, what the
sampler draws, positions of each sample, dropout.

Compared with seqpe_model.py in float64; gradients to 1e-4 of the largest entry
(test_gpt.py).
"""

import math

import plain_gpt
import seqpe_model
import torch

import sextant
from sextant.models import gpt
from sextant.training.samplers import Sampler

GRADIENT = 1e-4
LENGTH, LAYERS, WIDTH, HEADS = 13, 2, 24, 3
# Sizes that no other size equals. The encoder is narrower than the model.
USE = (
    "seqpe(form=mul, projection=multi, width=20, heads=2, blocks=2, digits=4, dropout=0.0, "
    "max_position=2000, pivots=5, candidates=7, windows=4, offsets=6, sampling=paper, "
    "alpha=0.3, beta=0.2, sided=2, reduction=released)"
)
ENCODER = seqpe_model.Encoder(width=20, heads=2, digits=4)


def program_of(use, **settings):
    config = gpt.Config(
        encodings=("causal", use), layers=LAYERS, width=WIDTH, heads=HEADS, **settings
    )
    return config, sextant.compile(gpt.build(config))


def check_initial(params, deviation=0.02):
    """Normal with this deviation, biases 0, norms 1: the released code's. The deviation of n
    draws is known to 5 / sqrt(2 n) of itself, but for its bias of about 1 / n."""
    own = {n.rpartition("seqpe.")[2]: p for n, p in params.items() if ".seqpe." in n}
    assert {"token", "place", "cls", "qkv_weight", "layer_projection_weight"} < set(own)
    for name, value in own.items():
        if name.endswith("bias"):
            assert not value.any(), name
        elif name.startswith("norm"):
            assert (value == 1).all(), name
        else:
            limit = 5 / math.sqrt(2 * value.numel()) + 1 / value.numel()
            assert abs(value.std().item() / deviation - 1) < limit, name
            assert abs(value.mean().item()) < 5 * deviation / math.sqrt(value.numel()), name


def encoder_of(params):
    """The encoder's parameters as seqpe_model.py calls them."""
    prefix = "attention.seqpe."
    own = {n.removeprefix(prefix): p for n, p in params.items() if n.startswith(prefix)}
    found = {n: own[n] for n in ("token", "place", "cls")}
    for kind in ("weight", "bias"):
        found |= {f"norm.{kind}": own[f"norm_{kind}"], f"output.{kind}": own[f"last_{kind}"]}
        for part in ("norm1", "norm2", "qkv", "output", "up", "down"):
            of_blocks = enumerate(own[f"{part}_{kind}"])
            found |= {f"blocks.{i}.{part}.{kind}": p for i, p in of_blocks}
    return found


class OfSamples:
    """As `seqpe_model.InModel`, with embeddings [L, C] of each sample's own positions."""

    def __init__(self, embeddings, projections):
        self.samples = [seqpe_model.InModel(e, HEADS, "mul", projections) for e in embeddings]

    def attend(self, layer, q, k, v):
        rows = zip(self.samples, q.split(1), k.split(1), v.split(1))
        return torch.cat([own.attend(layer, *row) for own, *row in rows])

    def after_mlp(self, layer, output):
        pass


def plain(config, params, tokens, labels, positions, sets):
    """Logits, cross entropy, and the losses of the encoding."""
    encoder = encoder_of(params)
    names = [f"layers.{i}.attention.seqpe.layer_projection" for i in range(LAYERS)]
    projections = [(params[f"{n}_weight"], params[f"{n}_bias"]) for n in names]
    embeddings = [seqpe_model.encode(ENCODER, encoder, at.long()) for at in positions]
    logits = plain_gpt.forward(config, params, tokens, OfSamples(embeddings, projections))
    cross_entropy = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    if positions[:, 0].any():  # a shifted step
        sets = {n: sets[n] for n in ("pivots", "candidates")}
    extra = seqpe_model.auxiliary_loss(ENCODER, encoder, sets, 0.3, 0.2, 2, "released")
    return logits, cross_entropy, extra


def test_initial_values_of_a_narrow_model(seed):
    _, program = program_of(USE.replace("seqpe(", "seqpe(deviation=0.07, "))
    check_initial(program.init_params(seed), 0.07)


def test_a_model_with_drawn_inputs(seed, generator):
    config, program = program_of(USE, positions="sample")
    params = program.init_params(seed)
    check_initial(params)
    for value in params.values():
        value += 0.1 * torch.randn(value.shape, generator=generator)
    tokens, labels = torch.randint(0, 256, (2, 2, LENGTH), generator=generator)
    asked = program.arguments("gradients")
    drawn = Sampler(USE, {"query": LENGTH, "batch": 2}).draw(asked, seed, 1)
    sets = {n.removeprefix("seqpe.").removesuffix("_at"): t.long() for n, t in drawn.items()}
    assert set(sets) == {"pivots", "candidates", "trained", "beyond"}
    # The losses of the encoding are for training alone.
    assert not set(drawn) & set(program.arguments("token_losses"))
    starts = torch.randint(1, 1900, (2, 1, 1), generator=generator)
    for start in (torch.zeros_like(starts), starts):
        positions = (start + torch.arange(LENGTH)[:, None]).int()
        known = {"tokens": tokens, "labels": labels, "positions": positions, **drawn, **params}

        def run(function, known=known):
            inputs = {n: known[n] for n in program.arguments(function)}
            return dict(zip(program.results(function), program.run(function, inputs), strict=True))

        exact = {n: p.double().requires_grad_() for n, p in params.items()}
        logits, cross_entropy, extra = plain(config, exact, tokens, labels, positions, sets)
        loss = cross_entropy + extra
        loss.backward()
        got = run("gradients")
        assert abs(got["loss"].item() - loss.item()) < 1e-5 * loss.item()
        for name, p in exact.items():
            error = (got[f"{name}:gradient"].double() - p.grad).abs().max().item()
            # What all keys have in common has no gradient: there the rest is rounding.
            assert error <= GRADIENT * p.grad.abs().max().item() + 1e-6, name
        assert (run("logits")["logits"].double() - logits).abs().max() < 1e-4
        each = run("token_losses")["losses"].double().mean().item()
        assert abs(each - cross_entropy.item()) < 1e-5 * cross_entropy.item()


def test_dropout_is_of_seed_and_step_and_of_training_alone(seed, generator):
    _, program = program_of("seqpe(digits=2, blocks=1, dropout=0.3, alpha=0.0, beta=0.0)")
    params = program.init_params(seed)
    for value in params.values():
        value += 0.1 * torch.randn(value.shape, generator=generator)
    tokens, labels = torch.randint(0, 256, (2, 1, LENGTH), generator=generator)
    given = {
        "tokens": tokens,
        "labels": labels,
        "positions": torch.arange(LENGTH, dtype=torch.int32)[None, :, None],
        "random.seed": torch.tensor(seed),
        "random.step": torch.tensor(1),
        **params,
    }

    def loss(function="loss", **changed):
        known = given | changed
        found = program.run(function, {n: known[n] for n in program.arguments(function)})
        return found[0].double().mean().item()

    assert loss() == loss()
    losses = [loss(**{"random.seed": torch.tensor(s), "random.step": torch.tensor(n)})
              for s, n in ((seed, 1), (seed, 2), (seed + 1, 1))]  # fmt: skip
    assert len({*losses, loss("token_losses")}) == 4
    assert losses[0] == loss()
    assert not {"random.seed", "random.step"} & set(program.arguments("token_losses"))
