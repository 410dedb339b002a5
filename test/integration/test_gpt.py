"""Whole GPTs, compiled, against autograd of the same models in plain PyTorch.

Gradients are compared with PyTorch's in float64: an error of GRADIENT times the
largest entry is a few hundred roundings of float32, as sums over batch and length
make in PyTorch's own float32 as well.
"""

import dataclasses
import itertools

import plain_gpt
import pytest
import torch

import sextant
from sextant.models import gpt

GRADIENT = 1e-4

CASES = {
    "gpt2-none": gpt.Config(encodings=("causal",), layers=2, width=32, heads=2),
    "gpt2-none-erf": gpt.Config(encodings=("causal",), gelu="erf", layers=2, width=32, heads=2),
    "gpt2-learned-t5": gpt.Config(
        encodings=("causal", "learned(rows=64)", "t5_bias"), layers=2, width=32, heads=4
    ),
    "gpt2-sinusoidal-kerple": gpt.Config(
        encodings=("causal", "sinusoidal", "kerple_log"), layers=2, width=32, heads=2, tied=False
    ),
    "llama-rope-alibi": gpt.Config(
        encodings=("causal", "rope", "alibi"),
        style="llama",
        layers=2,
        width=48,
        heads=6,
        kv_heads=2,
    ),
    "llama-rope-kerple-t5": gpt.Config(
        encodings=("causal", "rope", "kerple_log", "t5_bias"),
        style="llama",
        layers=2,
        width=48,
        heads=2,
    ),
    "gpt2-expe-learned": gpt.Config(
        encodings=("causal", "expe(channels=5, values=learned)"), layers=2, width=32, heads=2
    ),
    "llama-exqpe-first": gpt.Config(
        encodings=("causal", "exqpe(channels=7, layers=first)"), style="llama", layers=2, width=48, heads=2
    ),
}
SHAPES = [(2, 24), (1, 1), (3, 17), (1, 40)]
# Whole training steps as warps of a GPU: tables, rows of embeddings, turned rows.
EMULATED = [
    (name, "cuda-emulated:sm_80") for name in ("gpt2-learned-t5", "llama-rope-kerple-t5")
]


@pytest.fixture(
    scope="module", params=[*itertools.product(CASES, ["reference", "cpu"]), *EMULATED], ids=":".join
)
def case(request):
    name, target = request.param
    config = dataclasses.replace(CASES[name], adam_epsilon=1e-5, decay=0.3, clip=0.4)
    return config, sextant.compile(gpt.build(config), target=target)


def sample(config, batch, length, seed):
    """Tokens and labels, some of them ignored."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, config.vocabulary, (batch, length), generator=generator)
    labels = torch.randint(0, config.vocabulary, (batch, length), generator=generator)
    labels[torch.rand(batch, length, generator=generator) < 0.2] = gpt.IGNORED
    labels[0, 0] = 1
    return tokens, labels


def perturbed(program, seed):
    """Initial parameters moved a little, so that no gradient is special."""
    generator = torch.Generator().manual_seed(seed)
    params = program.init_params(seed)
    for name, value in params.items():
        if not program.parameters[name]["frozen"]:
            value += 0.05 * torch.rand(value.shape, generator=generator)
    return params


def trained(program, params):
    return {n: p for n, p in params.items() if not program.parameters[n]["frozen"]}


def doubled(params):
    return {n: p.double().requires_grad_() for n, p in params.items()}


def test_gradients_equal_autograd(case, seed):
    config, program = case
    params = perturbed(program, seed)
    for number, (batch, length) in enumerate(SHAPES):
        tokens, labels = sample(config, batch, length, seed + number)
        got = dict(
            zip(
                program.results("gradients"),
                program.run("gradients", {"tokens": tokens, "labels": labels, **params}),
                strict=True,
            )
        )
        exact = doubled(params)
        loss = plain_gpt.loss(config, exact, tokens, labels)
        loss.backward()
        assert abs(got["loss"].item() - loss.item()) < 1e-5 * max(1.0, loss.item())
        for name in trained(program, params):
            want = exact[name].grad
            want = torch.zeros_like(exact[name]) if want is None else want
            error = (got[f"{name}:gradient"].double() - want).abs().max().item()
            bound = GRADIENT * want.abs().max().item() + 1e-6
            assert error <= bound, f"{name} at {batch} x {length}: {error} > {bound}"


@pytest.mark.parametrize("encoding, function", [("tape", "gradients"), ("seqpe", "logits")])
def test_encodings_of_the_whole_model_as_warps(encoding, function, seed):
    """The same as on the CPU. Launches merged of several stand in no one place of a text,
    which code that keeps places for the emulator's errors must bear."""
    config = gpt.Config(encodings=("causal", encoding), layers=2, width=32, heads=2)
    tokens, labels = sample(config, 1, 24, seed)
    found = []
    for target in ("cpu", "cuda-emulated:sm_80"):
        program = sextant.compile(gpt.build(config), target=target)
        given = {"tokens": tokens, "labels": labels, **perturbed(program, seed)}
        asked = {name: given[name] for name in program.arguments(function)}
        found.append(program.run(function, asked))
    for name, got, want in zip(program.results(function), *reversed(found), strict=True):
        error = (got - want).abs().max().item()
        assert error <= 2 * GRADIENT * want.abs().max().item() + 1e-6, name


def test_losses_and_logits(case, seed):
    config, program = case
    params = perturbed(program, seed)
    tokens, labels = sample(config, 2, 19, seed)
    (logits,) = program.run("logits", {"tokens": tokens, **params})
    (losses,) = program.run("token_losses", {"tokens": tokens, "labels": labels, **params})
    want = plain_gpt.forward(config, doubled(params), tokens)
    assert (logits.double() - want).abs().max() < 1e-4
    each = torch.nn.functional.cross_entropy(
        want.flatten(0, 1), labels.flatten(), ignore_index=gpt.IGNORED, reduction="none"
    )
    assert (losses.double().flatten() - each).abs().max() < 1e-4


def test_training_steps_equal_torch(case, seed):
    """Five steps of AdamW with clipping and a learning rate that changes. Its
    epsilon is well above the rounding of gradients that are zero in exact
    arithmetic (a bias on keys), which AdamW would else blow up."""
    config, program = case
    params = perturbed(program, seed)
    weights = {n: p.clone().requires_grad_() for n, p in trained(program, params).items()}
    matrix = {n: n.endswith(".weight") and p.dim() == 2 for n, p in weights.items()}
    decayed = [p for n, p in weights.items() if matrix[n]]
    others = [p for n, p in weights.items() if not matrix[n]]
    optimizer = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": config.decay},
            {"params": others, "weight_decay": 0.0},
        ],
        betas=(config.beta1, config.beta2),
        eps=config.adam_epsilon,
    )
    state = {"step": torch.tensor(1.0), "learning_rate": torch.tensor(0.0)}
    for name, p in weights.items():
        state[f"{name}:first_moment"] = torch.zeros_like(p)
        state[f"{name}:second_moment"] = torch.zeros_like(p)
    for step in range(5):
        rate = 1e-3 * (step + 1)
        tokens, labels = sample(config, 2, 16, seed + step)
        state["learning_rate"].fill_(rate)
        values = dict(
            zip(
                program.results("train_step"),
                program.run("train_step", {"tokens": tokens, "labels": labels, **params, **state}),
                strict=True,
            )
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = plain_gpt.loss(config, {**params, **weights}, tokens, labels)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(weights.values(), config.clip)
        optimizer.step()
        for name, p in weights.items():
            bounds = [program.parameters[name].get(b) for b in ("floor", "ceiling")]
            if bounds != [None, None]:
                with torch.no_grad():
                    p.clamp_(*bounds)
        assert values["loss"].item() == pytest.approx(loss.item(), rel=1e-4)
        assert values["gradient_norm"].item() == pytest.approx(norm.item(), rel=1e-3)
        assert state["step"].item() == step + 2
    for name, p in weights.items():
        assert (params[name] - p).abs().max().item() < 2e-4, name


def test_a_training_step_keeps_parameters_in_their_bounds(seed):
    """Of the definition, floor and ceiling: what starts outside is inside after a step."""
    config = gpt.Config(encodings=("causal", "kerple_power"), layers=1, width=16, heads=4)
    program = sextant.compile(gpt.build(config), target="cpu")
    params = perturbed(program, seed)
    (exponent,) = [n for n in params if n.endswith("kerple_power.r2")]
    params[exponent].copy_(torch.tensor([-3.0, 0.5, 1.5, 5.0]))
    state = {"step": torch.tensor(1.0), "learning_rate": torch.tensor(1e-3)}
    for name, p in trained(program, params).items():
        state[f"{name}:first_moment"] = torch.zeros_like(p)
        state[f"{name}:second_moment"] = torch.zeros_like(p)
    tokens, labels = sample(config, 2, 16, seed)
    program.run("train_step", {"tokens": tokens, "labels": labels, **params, **state})
    low, *middle, high = params[exponent].tolist()
    assert low == pytest.approx(0.01) and high == 2.0
    assert middle == pytest.approx([0.5, 1.5], abs=1e-2)


def test_accumulated_gradients_make_the_same_step(case, seed):
    """`update` of the mean of two half batches' gradients is `train_step` of the
    whole batch, up to the rounding of another order of sums. It leaves the
    gradients alone."""
    config, program = case
    tokens, labels = sample(config, 4, 12, seed)
    labels = labels.abs() % config.vocabulary
    start = perturbed(program, seed)
    names = list(trained(program, start))

    def fresh():
        params = {n: p.clone() for n, p in start.items()}
        state = {"step": torch.tensor(1.0), "learning_rate": torch.tensor(1e-2)}
        for name in names:
            state[f"{name}:first_moment"] = torch.zeros_like(params[name])
            state[f"{name}:second_moment"] = torch.zeros_like(params[name])
        return params, state

    whole, state = fresh()
    program.run("train_step", {"tokens": tokens, "labels": labels, **whole, **state})
    parts, state = fresh()
    gradients = {f"{n}:gradient": torch.zeros_like(start[n]) for n in names}
    for half in (slice(0, 2), slice(2, 4)):
        _, *found = program.run(
            "gradients", {"tokens": tokens[half], "labels": labels[half], **parts}
        )
        for total, part in zip(gradients.values(), found, strict=True):
            total += part / 2
    before = {n: g.clone() for n, g in gradients.items()}
    inputs = {**{n: parts[n] for n in names}, **gradients, **state}
    program.run("update", inputs)
    for name in names:
        assert torch.equal(gradients[f"{name}:gradient"], before[f"{name}:gradient"])
        assert (whole[name] - parts[name]).abs().max() < 1e-4, name
        assert not torch.equal(parts[name], start[name]), name
