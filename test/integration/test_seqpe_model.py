"""SeqPE in GPTs: the encoder of digits, its projections and its losses.

Compared with seqpe_model.py in float64: the loss, and every gradient within GRADIENT
times its largest entry (test_gpt.py). Biases of keys have no gradient: what every key of
a row has in common leaves the softmax as it is.
"""

import plain_gpt
import pytest
import seqpe_model
import torch
from seqpe_parameters import encoder
from stopped_training import check_same_bits, drawn_text, train_until
from test_nn_dropout import kept

import sextant
from sextant.models import around, gpt
from sextant.reproduce.gram import matrices
from sextant.reproduce.listing import ReproduceError
from sextant.training import loop
from sextant.training.config import TrainConfig
from sextant.training.state import open_run

GRADIENT = 1e-4
LENGTH, LAYERS, WIDTH, HEADS = 13, 2, 24, 3
LOSSES = {"max_position": 200, "pivots": 5, "candidates": 6, "windows": 3, "offsets": 4}
OFF = {"alpha": 0.0, "beta": 0.0}


def use(**options):
    options = {"digits": 3, "heads": 2, "dropout": 0.0, **options}
    return f"seqpe({', '.join(f'{k}={str(v).lower()}' for k, v in options.items())})"


def config(spelled, **settings):
    shape = {"layers": LAYERS, "width": WIDTH, "heads": HEADS, "vocabulary": 64}
    return gpt.Config(encodings=("causal", spelled), **shape, **settings)


def drawn(program):
    """Parameters with which no part of the network is close to linear."""
    params = program.init_params(1)
    return {
        n: p + (0.2 if ".seqpe." in n else 0.05) * torch.randn(p.shape) for n, p in params.items()
    }


def sets(axes=1):
    near = torch.randint(0, LENGTH, (LOSSES["windows"], LOSSES["offsets"], axes))
    return {
        "pivots": torch.randint(0, 200, (LOSSES["pivots"], axes)),
        "candidates": torch.randint(0, 200, (LOSSES["pivots"], LOSSES["candidates"], axes)),
        "trained": near,
        "beyond": near + torch.randint(20, 150, (LOSSES["windows"], 1, axes)),
    }


def projections(params):
    pair = [f"attention.seqpe.projection_{k}" for k in ("weight", "bias")]
    if pair[0] in params:
        return [tuple(params[n] for n in pair)]
    layers = (f"layers.{i}.attention.seqpe.layer_projection" for i in range(LAYERS))
    return [(params[f"{n}_weight"], params[f"{n}_bias"]) for n in layers if f"{n}_weight" in params]


def dropping(settings, options, positions, first, numbers):
    """The ``drop`` of `seqpe_model.encode` with the masks that a program draws for an encoder
    whose dropouts have places from ``first`` on: two in a block, of what attention adds and
    of what the MLP does. Rows of a mask are those of the network, prefixes of positions by
    length and number (on a tree each once), then ends; of the last block only ends are made.
    Of the positions those ``at`` some places are asked for, or all."""
    share = options["dropout"]
    digits = seqpe_model.tokens(settings, positions)
    if settings.causal and options.get("tree", True):
        nodes = [digits[:, : n + 1].unique(dim=0, return_inverse=True)[1] for n in range(settings.slots)]
        ends, rows, count = nodes[-1], [], 0
        for of_length in nodes:
            rows.append(count + of_length)
            count += int(of_length.max()) + 1
    else:
        ends, count = torch.arange(len(digits)), digits.numel()
        rows = torch.arange(count).view(digits.shape).unbind(1)

    def drop(x, place, at=slice(None)):
        _, block, part = place.split(".")
        number = first + 2 * int(block) + ("output", "down").index(part)
        is_last = int(block) == settings.blocks - 1
        row = ends[:, None] if is_last else torch.stack([*rows, count + ends], 1)
        mask = kept((int(row.max()) + 1, x.shape[-1]), *numbers, number, share)
        return x * mask[row[at]] / (1 - share)

    return drop


def dropping_sets(settings, options, positions, sets, numbers):
    """The same for what losses encode: sets of positions together, behind the text's, but
    for those of the text, which are not encoded again."""
    near, trained, beyond = (
        torch.cat([sets[n].flatten(0, -2) for n in names])
        for names in (("pivots", "candidates"), ("trained",), ("beyond",))
    )
    own = dropping(settings, options, torch.cat([near, beyond]), 2 * settings.blocks, numbers)
    of_text = dropping(settings, options, positions, 0, numbers)

    def drop(x, place):
        a, b, c = x.split([len(near), len(trained), len(beyond)])
        a, c = own(torch.cat([a, c]), place).split([len(near), len(beyond)])
        return torch.cat([a, of_text(b, place, trained[:, 0]), c])

    return drop


def plain_loss(spelled, params, tokens, positions, options, given, numbers):
    settings = seqpe_model.Encoder(
        width=WIDTH, heads=2, digits=options.get("digits", 3), base=options.get("base", 10),
        blocks=options.get("blocks", 2), causal=options.get("causal", True),
    )
    network = encoder(params, settings)
    drop = [dropping(settings, options, positions, 0, numbers)] if "dropout" in options else []
    e = seqpe_model.encode(settings, network, positions, *drop)
    inside = seqpe_model.InModel(e, HEADS, options.get("form", "bias"), projections(params))
    loss = plain_gpt.loss(config(spelled), params, tokens, tokens, inside)
    alpha, beta = options.get("alpha", 0.1), options.get("beta", 0.1)
    used = {n: t for n, t in given.items() if (beta and positions[0, 0] == 0) or n not in ("trained", "beyond")}
    if alpha or beta:
        drop = dropping_sets(settings, options, positions, used, numbers) if "dropout" in options else None
        loss = loss + seqpe_model.auxiliary_loss(
            settings, network, used, alpha, beta, options.get("sided", 1), options.get("reduction", "rows"), drop
        )
    return loss


def compare(options, start=0, given=None):
    spelled = use(**(options if options.keys() & OFF.keys() else LOSSES | options))
    given_positions = {"positions": "model"} if start else {}
    program = sextant.compile(gpt.build(config(spelled, **given_positions)), target="reference")
    params = drawn(program)
    exact = {n: p.double().requires_grad_() for n, p in params.items()}
    tokens, given = torch.randint(0, 64, (2, LENGTH)), given or sets()
    positions = torch.arange(start, start + LENGTH)[:, None]
    numbers = int(torch.randint(0, 2**40, ())), 3  # seed and step
    loss = plain_loss(spelled, exact, tokens, positions, options, given, numbers)
    loss.backward()
    inputs = {"tokens": tokens, "labels": tokens, "positions": positions[None].int(), **params}
    inputs |= {f"seqpe.{n}_at": t.int() for n, t in given.items()}
    inputs |= dict(zip(("random.seed", "random.step"), map(torch.tensor, numbers)))
    names = program.arguments("gradients")
    found = program.run("gradients", [inputs[n] for n in names])
    got = dict(zip(program.results("gradients"), found, strict=True))
    assert abs(got["loss"].item() - loss.item()) < 1e-5
    for name, tensor in exact.items():
        if name.endswith("key.bias"):
            continue
        error = (got[f"{name}:gradient"].double() - tensor.grad).abs().max()
        assert error <= GRADIENT * tensor.grad.abs().max(), name


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tree": False},
        {"causal": False, "sided": 2},
        {"form": "mul", "projection": "multi", "reduction": "released"},
        {"form": "sum", "blocks": 3, "base": 2, "digits": 8, "sided": 2, "reduction": "released"},
        {"blocks": 1, "projection": "none", **OFF},
        {"dropout": 0.3},
        {"dropout": 0.2, "tree": False, "blocks": 3, "digits": 2, **OFF},
    ],
    ids=lambda options: ",".join(f"{k}={v}" for k, v in options.items()) or "default",
)
def test_gradients(options):
    compare(options)


@pytest.mark.parametrize("base, digits", [(10, 3), (2, 10)])
def test_edges_of_what_is_sampled(base, digits):
    """The first and the last position, all digits of which are used; candidates that are as
    near, of which the first counts; the pivot among its candidates."""
    last = base**digits - 1
    near = torch.tensor([[0, LENGTH - 1, 1, 2]] * LOSSES["windows"])[..., None]
    first, middle = [1, 2, 3, last, 7, 8], last // 2
    edges = {
        "pivots": torch.tensor([0, last, middle, middle, 7])[:, None],
        "candidates": torch.tensor([
            first,
            [last - 2, last - 1, 0, 1, last // 3, 9],
            [0, middle + 5, middle - 5, last, middle + 6, middle - 6],
            [last, middle - 4, 5, middle + 4, 1, 0],
            [8, 6, 7, 0, last, 5],
        ])[..., None],
        "trained": near,
        "beyond": near + last - LENGTH + 1,
    }
    compare({"base": base, "digits": digits, "max_position": last + 1, "sided": 2}, given=edges)


def test_shifted_steps_are_not_distilled():
    compare({}, start=7)


@pytest.mark.parametrize("causal", [True, False])
def test_positions_of_two_axes(causal):
    """Embeddings of a grid, row first, with a row of parameters per axis."""
    spelled = use(axes=2, digits=2, causal=causal, **OFF)
    settings = gpt.Config(encodings=("causal", spelled), layers=1, width=WIDTH, heads=HEADS, vocabulary=64)
    found = around.Around(
        sextant.definitions.signature(settings.encodings), settings.extents,
        {**settings.tensors, "positions": (None, None, 2)},
    )
    (start,) = found.of("initial_state")
    names = [a.name or a.kind for a in start.arguments]
    arguments = ", ".join(
        f"%a{i}: tensor<{''.join('?x' if n is None else f'{n}x' for n in a.shape)}{a.element}>"
        f' {{exec.name = "{names[i]}"}}' for i, a in enumerate(start.arguments)
    )
    types = ", ".join(a.split(" {")[0].split(": ")[1] for a in arguments.split(", %"))
    text = f"""
{start.declaration}
func.func @encode({arguments}) -> tensor<?x{WIDTH}xf32> {{
  %e = func.call @{start.symbol}({", ".join(f"%a{i}" for i in range(len(names)))}) : ({types}) -> tensor<?x{WIDTH}xf32>
  return %e : tensor<?x{WIDTH}xf32>
}}
"""
    program = sextant.compile(text, target="reference")
    grid = torch.stack(torch.meshgrid(torch.arange(5), torch.arange(14), indexing="ij"), -1).view(1, -1, 2)
    params = {n: torch.randn(tuple(a.shape)) / 4 for n, a in zip(names[1:], start.arguments[1:])}
    plain = seqpe_model.Encoder(width=WIDTH, heads=2, digits=2, axes=2, causal=causal)
    exact = {f"attention.{n}": p.double() for n, p in params.items()}
    (got,) = program.run("encode", {names[0]: grid.int(), **params})
    want = seqpe_model.encode(plain, encoder(exact, plain), grid[0])
    torch.testing.assert_close(got.double(), want, atol=1e-4, rtol=0)


@pytest.mark.parametrize("start, message", [(-1, "a position is negative"), (990, "more digits than the option")])
def test_positions_without_digits(start, message):
    program = sextant.compile(gpt.build(config(use(**OFF), positions="model")), target="reference")
    tokens = torch.randint(0, 64, (1, LENGTH))
    positions = torch.arange(start, start + LENGTH, dtype=torch.int32)[None, :, None]
    inputs = {"tokens": tokens, "positions": positions, **program.init_params(0)}
    with pytest.raises(sextant.RuntimeError, match=message):
        program.run("logits", inputs)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"heads": 5}, "heads divide the encoder's width: lanes that are left over: got 4"),
        ({"digits": 18}, "a position's digits are more than a number holds, in bits: got 59"),
        ({"width": 16, "projection": "none"}, "the encoder's width is that of all heads: got 16"),
    ],
)
def test_widths_that_do_not_fit(options, message):
    with pytest.raises(sextant.CompileError, match=message):
        gpt.build(config(use(**options)))


def test_without_losses_there_are_no_samples():
    text = sextant.models.gpt(encodings=["causal", use(**OFF)], layers=1, width=WIDTH, heads=HEADS)
    program = sextant.compile(text, target="reference")
    assert program.arguments("logits")[:2] == ["tokens", "embedding.weight"]
    assert "auxiliary_loss" not in text and "_at" not in "".join(program.arguments("train_step"))


def test_training_resumes_with_the_same_bits(tmp_path, seed):
    """With samples, shifted steps and dropout."""
    spelled = use(max_position=900, pivots=4, candidates=4, windows=2, offsets=4, dropout=0.2)
    config = TrainConfig(
        encodings=(spelled,), layers=1, width=WIDTH, heads=HEADS, length=16, batch=2, steps=5,
        shift=0.5, shift_range=900, shift_windows=6, warmup=1, seed=seed,
    )  # fmt: skip
    text = drawn_text()
    straight = loop.train(config, tmp_path / "a", data=text, progress=False)
    train_until(3, config, tmp_path / "b", data=text, save_every=2)
    resumed = loop.train(config, tmp_path / "b", data=text, progress=False)
    check_same_bits(straight, resumed)
    assert not torch.equal(straight.params["attention.seqpe.token"],
                           straight.program.init_params(seed)["attention.seqpe.token"])


def test_figures_are_of_embeddings_and_of_rows(tmp_path, seed):
    """The matrices of a page: products of what the encoder makes of positions, and of what
    is projected from it."""
    shape = dict(layers=1, width=24, heads=3, length=8, batch=2, steps=1, lr=0.1)
    whole = TrainConfig(encodings=(use(deviation=0.2, **OFF),), seed=seed, **shape)
    loop.train(whole, tmp_path, data=drawn_text(), progress=False)
    with open_run(tmp_path) as (model, run):
        found = matrices(model, run, 30, ("seqpe.projection=none",))
        with pytest.raises(ReproduceError, match="seqpe.token has shape .*does not hold"):
            matrices(model, run, 30, ("seqpe.base=12",))
    settings = seqpe_model.Encoder(width=24, heads=2, digits=3)
    params = {n: p.double() for n, p in model.params.items()}
    own = seqpe_model.encode(settings, encoder(params, settings), torch.arange(30)[:, None])
    ((weight, bias),) = projections(params)
    eq, ek = ((own @ weight.T + bias).unflatten(-1, (2, 3, 8)).permute(1, 2, 0, 3))
    rows = eq @ ek.mT
    first, second, *heads = found.values()
    names = [name.split("\n")[0] for name in found]
    assert names == ["embeddings", "all heads", "head 0", "head 1", "head 2"]
    for got, want in ((first, own @ own.T), (second, rows.sum(0)), (torch.stack(heads), rows)):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4 * want.abs().max().item())
