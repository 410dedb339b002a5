"""Parameters that are trained, or have settings of the optimizer of their own, by
patterns of their names; runs that begin with the parameters of another."""

import re

import pytest
import torch

import sextant
from sextant.cli import main
from sextant.models import gpt
from sextant.models.groups import Group, matches
from sextant.training.begin import begin_from
from sextant.training.state import open_run, read_state

NAMES = [
    "embedding.weight",
    "layers.0.norm1.weight",
    "layers.1.norm2.bias",
    "layers.1.attention.fire.w1",
    "layers.12.query.weight",
    "attention.t5_bias.table",
    "norm.weight",
]


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("fire", [3]),
        ("norm", [1, 2, 6]),
        ("norm1", [1]),
        ("layers.1", [2, 3]),
        ("t5_bias.table", [5]),
        ("layers.*.weight", [1, 4]),
        ("bias", [2]),
        ("t5", []),
    ],
)
def test_patterns(pattern, found):
    assert [i for i, name in enumerate(NAMES) if matches(pattern, name)] == found


def test_groups_as_text():
    assert Group.parse(" fire : rate=0.5, decay=0 clip=5") == Group("fire", 0.5, 0.0, 5.0)
    for text, message in [
        ("fire", "has no settings"),
        ("fire: rat=1", 'unknown setting "rat".*"rate"'),
        ("fire: rate=fast", "rate=fast is no number"),
        ("fire: clip=-1", "clip must be finite and not negative, got -1"),
        (": clip=1", "needs a pattern"),
    ]:
        with pytest.raises(ValueError, match=message):
            Group.parse(text)


SMALL = dict(layers=2, width=32, heads=2, encodings=("causal", "fire"))


def test_patterns_that_name_nothing_are_errors():
    with pytest.raises(ValueError, match='"fir" names no parameter that can be trained.*"fire"'):
        gpt.gpt(trained=("fir",), **SMALL)
    with pytest.raises(ValueError, match='"causal" names no parameter'):
        gpt.gpt(groups=(Group("causal", 0.5),), **SMALL)
    with pytest.raises(ValueError, match="two groups have one pattern"):
        gpt.gpt(groups=(Group("fire", 0.5), Group("fire", 2.0)), **SMALL)


@pytest.mark.parametrize(
    "groups, trained, message",
    [
        (("fire: decay=0.1",), (), 'group "fire": decay 0.1 .* layers.0.attention.fire.*, do not'),
        (("norm: decay=0.1",), (), 'group "norm": decay 0.1 changes nothing: matrices'),
        (("layers: rate=0.5", "fire: rate=2"), (), '"fire" changes nothing: .* first .* "layers"'),
        (("fire: rate=2",), ("norm",), 'group "fire" changes nothing: what it names is frozen'),
    ],
)
def test_groups_that_change_nothing_are_errors(groups, trained, message):
    with pytest.raises(ValueError, match=message):
        gpt.gpt(groups=tuple(map(Group.parse, groups)), trained=trained, **SMALL)


def test_groups_that_change_some_of_what_they_name():
    """No decay where nothing decays, some of what a group before it has left."""
    for texts in (("fire: decay=0",), ("layers.0: rate=2", "layers: decay=0.5"), ("fire: rate=2", "layers: rate=3")):
        gpt.gpt(groups=tuple(map(Group.parse, texts)), **SMALL)


GROUPS = (
    Group("fire", rate=0.25, clip=0.01),
    Group("layers.1", decay=0.5),
    Group("embedding", rate=2.0, decay=0.0, clip=0.0),
)


def test_training_steps_equal_torch(seed):
    """Three steps, against AdamW of PyTorch with a group of settings per parameter, its
    gradients clipped apart or together."""
    config = gpt.Config(groups=GROUPS, decay=0.1, clip=0.5, adam_epsilon=1e-3, **SMALL)
    program = sextant.compile(gpt.build(config), target="cpu")
    params = program.init_params(seed)
    weights = {
        n: p.clone().requires_grad_()
        for n, p in params.items()
        if not program.parameters[n]["frozen"]
    }
    group = {n: next((g for g in GROUPS if matches(g.pattern, n)), Group("none")) for n in weights}

    def decay(name, p):
        own = group[name].decay
        is_matrix = name.endswith(".weight") and p.dim() == 2
        return (config.decay if own is None else own) if is_matrix else 0.0

    optimizer = torch.optim.AdamW(
        [{"params": [p], "weight_decay": decay(n, p)} for n, p in weights.items()],
        betas=(config.beta1, config.beta2),
        eps=config.adam_epsilon,
    )
    state = {"step": torch.tensor(1.0), "learning_rate": torch.tensor(1e-2)}
    for name, p in weights.items():
        state |= {f"{name}:{m}_moment": torch.zeros_like(p) for m in ("first", "second")}
    for _ in range(3):
        tokens, labels = torch.randint(0, config.vocabulary, (2, 2, 16))
        inputs = {"tokens": tokens, "labels": labels}
        gradients = program.run(
            "gradients", {**inputs, **{n: p.detach() for n, p in params.items()}}
        )
        found = dict(zip(program.results("gradients"), gradients))
        result = program.run("train_step", {**inputs, **params, **state})
        norm = dict(zip(program.results("train_step"), result))["gradient_norm"]
        for (name, p), settings in zip(weights.items(), optimizer.param_groups):
            p.grad = found[f"{name}:gradient"].clone()
            settings["lr"] = 1e-2 * group[name].rate
        together = [p for n, p in weights.items() if group[n].clip is None]
        # A clip of 0 in the group of the embedding: as it is.
        own = [p for n, p in weights.items() if group[n].pattern == "fire"]
        want = torch.nn.utils.clip_grad_norm_(together, config.clip)
        torch.nn.utils.clip_grad_norm_(own, 0.01)
        optimizer.step()
        assert norm.item() == pytest.approx(want.item(), rel=1e-3)
    for name, p in weights.items():
        low, high = (program.parameters[name].get(b) for b in ("floor", "ceiling"))
        assert low is None and high is None
        # Roundings of f32, in gradients that differ by an order of sums in the norm.
        assert (params[name] - p).abs().max().item() < 1e-5, name


def test_frozen_parameters_have_no_gradients_and_no_moments():
    program = sextant.compile(gpt.gpt(trained=("fire", "norm"), **SMALL))
    found = [n.removesuffix(":gradient") for n in program.results("gradients") if ":" in n]
    assert found and all(matches("fire", n) or matches("norm", n) for n in found)
    assert not any(n.startswith("embedding") and ":" in n for n in program.arguments("train_step"))
    # The manifest says the same of them.
    assert {n for n, p in program.parameters.items() if not p["frozen"]} == set(found)


TINY = "--layers 1 --width 16 --heads 2 --length 16 --batch 2 --steps 2 --warmup 1 --quiet".split()


def test_an_empty_list_of_parameters_trains_none(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", str(tmp_path), "--train", " , ", "--dry-run"])
    assert "argument --train: it names no parameter; leave it out to train all" in capsys.readouterr().err


def params_of(folder):
    return read_state(folder).checkpoint.part("param")


def test_a_run_begins_with_another(tmp_path, capsys):
    """All but the new encoding is frozen, and stays as it was, also where the run goes
    on without its flags."""
    base, new = str(tmp_path / "base"), str(tmp_path / "new")
    assert main(["train", base, *TINY]) == 0
    flags = ["--encodings", "fire", "--init", base, "--train", "fire", "--group", "fire: rate=2"]
    assert main(["train", new, *flags, *TINY, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "frozen" in said and f"begins with the parameters of {base}" in said
    assert main(["train", new, *flags, *TINY]) == 0
    counts = re.search(r"trained ([0-9,]+) parameters, ([0-9,]+) are frozen; ", capsys.readouterr().out)
    before, after = params_of(base), params_of(new)
    assert set(after) - set(before) == {n for n in after if ".fire." in n}
    assert all(torch.equal(before[n], after[n]) for n in before)
    trained, frozen = (int(n.replace(",", "")) for n in counts.groups())
    assert frozen == sum(p.numel() for p in before.values())
    assert trained == sum(p.numel() for p in after.values()) - frozen
    assert main(["train", new, "--steps", "3", "--quiet"]) == 0
    later = params_of(new)
    assert all(torch.equal(before[n], later[n]) for n in before)
    assert any(not torch.equal(after[n], later[n]) for n in after)
    assert main(["eval", new, "--multiples", "1", "--quiet"]) == 0


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--encodings", "t5_bias", "--width", "32"], "is of a model of another shape: width"),
        (["--encodings", "t5_bias", "--heads", "1"], "another shape: heads is 2, here 1"),
        (["--encodings", "t5_bias", "--layers", "2"], "another shape: layers is 1, here 2"),
        (["--encodings", "alibi"], "has parameters that the model lacks"),
        (["--encodings", "t5_bias", "--train", "fire"], '"fire" names no parameter'),
        (["--encodings", "t5_bias", "--init", "nowhere"], "nowhere"),
    ],
)
def test_a_run_that_does_not_fit_is_refused(tmp_path, capsys, flags, message):
    base, new = str(tmp_path / "base"), tmp_path / "new"
    assert main(["train", base, "--encodings", "t5_bias", *TINY]) == 0
    assert main(["train", str(new), *TINY, "--init", base, *flags]) == 1
    assert message in capsys.readouterr().err
    # Nothing is left: neither a checkpoint, nor the file that would have become one, nor the folder.
    assert not new.exists()


def test_an_encoding_begins_as_the_one_that_it_extends(tmp_path, capsys):
    """The model's outputs at the start are the run's, bit for bit, so that both have one
    loss; all but the new encoding, and what is named, is frozen and counted."""
    base = str(tmp_path / "base")
    assert main(["train", base, "--encodings", "rope(base=500)", *TINY]) == 0
    new, flags = str(tmp_path / "new"), ["--init", base, "--train", "tape,embedding,norm"]
    command = ["train", new, "--encodings", "tape(base=500, hidden=3)", *flags, *TINY]
    assert main([*command, "--dry-run"]) == 0
    said = capsys.readouterr().out
    after = 3 * 16 + 2 * 3 * 2 + 2  # x, w1 and w2, s
    assert f"{after + 256 * 16 + 3 * 2 * 16:,} trained parameters, " in said
    assert main(command) == 0
    before, trained = params_of(base), params_of(new)
    moved = {n for n, p in before.items() if not torch.equal(p, trained[n])}
    assert "embedding.weight" in moved and all("norm" in n or "embedding" in n for n in moved)
    # What its state begins with is stored, too, and evaluated where it is not installed.
    assert set(read_state(new).definitions.texts) == {"causal", "tape", "rope"}
    assert main(["eval", new, "--multiples", "1", "--quiet"]) == 0

    with open_run(base) as (ours, _), open_run(new) as (theirs, _):
        begin_from(theirs, base)
        for name, value in theirs.program.init_params(0).items():
            if ".tape." in name:
                theirs.params[name].copy_(value)
        tokens = torch.randint(0, 256, (2, 16))
        losses = [model.token_losses(tokens, tokens.roll(-1, 1))[0] for model in (ours, theirs)]
        assert torch.equal(*losses)


@pytest.mark.parametrize(
    "base, use, message",
    [
        ("none", ["tape"], '"tape" starts as "rope", with which .* was not trained .*none'),
        ("rope(base=500)", ["tape"], '"tape" starts as "rope", with .* rope.base=500'),
        ("rope(pairing=interleaved)", ["tape"], 'starts as "rope", with .*interleaved'),
        ("rope", ["tape(scaling=linear, factor=2)"], "scaling=linear, factor=2.* starts as"),
        ("rope", ["rope", "tape"], '"tape" starts as "rope" and takes its place: leave that out'),
    ],
)
def test_an_encoding_that_does_not_extend_a_run_is_refused(tmp_path, capsys, base, use, message):
    run, new = str(tmp_path / "base"), tmp_path / "new"
    assert main(["train", run, "--encodings", base, *TINY]) == 0
    flags = ["--encodings", *use, "--init", run, "--train", "tape"]
    assert main(["train", str(new), *flags, *TINY]) == 1
    assert re.search(message, capsys.readouterr().err)
    assert not (new / "checkpoint.safetensors").exists()
