"""Encodings that take part in the model around attention.

The definition is the example of docs/write-an-encoding.md, in a folder of its own; a
second one carries a state through attention as one more value. Gradients are compared
with autograd in float64, within GRADIENT times the largest entry (test_gpt.py).
"""

import math
import re
import shutil
from pathlib import Path

import drawn_encoding
import pytest
import torch
import torch.nn.functional as F
from drawn_encoding import SAMPLER
from stopped_training import check_same_bits, drawn_text, train_until

import sextant
from sextant.models import gpt, vit
from sextant.training import loop, runs
from sextant.training.config import TrainConfig
from sextant.training.samplers import Sampler, SamplerError, samplers

GRADIENT = 1e-4
PAGE = Path(__file__).resolve().parents[2] / "docs" / "write-an-encoding.md"

CARRIED = """
pos.encoding @carried {
  %lanes = pos.option "lanes" : i32 = 4 : i32
  %batch = pos.extent batch
  %heads = pos.extent heads
  %keys = pos.extent key
  %width = pos.extent model
  %rows = arith.muli %heads, %lanes : i32
  %low = arith.constant -0.3 : f32
  %high = arith.constant 0.3 : f32
  %z = pos.param "z" : tensor<?x?x?x?xf32> dims(%batch, %heads, %keys, %lanes)
  %start = pos.param "start" : tensor<?x?xf32> dims(%rows, %width) init uniform(%low, %high) scope model
  %share = pos.param "share" : tensor<?xf32> dims(%lanes) init uniform(%low, %high)
  pos.score {
  ^bb0(%s: f32):
    %b = pos.batch
    %h = pos.head
    %k = pos.index key
    %first = arith.constant 0 : i32
    %g = pos.read %z[%b, %h, %k, %first] : tensor<?x?x?x?xf32>
    %t = arith.addf %s, %g : f32
    pos.yield %t : f32
  }
  func.func @initial_state(%x: tensor<?x?x?xf32> {pos.role = "input"},
                           %w: tensor<?x?xf32> {pos.role = "start"},
                           %n: i32 {pos.role = "lanes"})
      -> (tensor<?x?x?x?xf32> {pos.role = "z"}) {
    %y = nn.linear %x, %w : (tensor<?x?x?xf32>, tensor<?x?xf32>) -> tensor<?x?x?xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %b = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %l = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %count = pos.extent heads
    %h = arith.index_cast %count : i32 to index
    %d = arith.index_cast %n : i32 to index
    %split = nn.reshape %y sizes(%b, %l, %h, %d) : tensor<?x?x?xf32> -> tensor<?x?x?x?xf32>
    %made = nn.transpose %split 1, 2 : (tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    return %made : tensor<?x?x?x?xf32>
  }
  func.func @after_attention(%old: tensor<?x?x?x?xf32> {pos.role = "z"},
                             %y: tensor<?x?x?x?xf32> {pos.weighted = "z"},
                             %s: tensor<?xf32> {pos.role = "share"})
      -> (tensor<?x?x?x?xf32> {pos.role = "z"}) {
    %a = nn.mul %y, %s : (tensor<?x?x?x?xf32>, tensor<?xf32>) -> tensor<?x?x?x?xf32>
    %n = nn.add %old, %a : (tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    return %n : tensor<?x?x?x?xf32>
  }
}
"""

# What the example becomes where a model may leave it to the first layer.
LAYERS = """
  %layers = pos.option "layers" : i32 = "all" of ["all", "first"]
  %last = arith.constant 1 : i32
  pos.require %layers at_most %last, "layers is all or first"
"""


@pytest.fixture
def encodings(tmp_path, monkeypatch):
    """A folder of the search path with the example of the page and with `carried`,
    which is a folder of its own."""
    example = re.search(r"```mlir\n// remembered.mlir\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "remembered.mlir").write_text(example[1])
    once = example[1].replace("@remembered", "@once").replace("  %batch =", LAYERS + "  %batch =", 1)
    (tmp_path / "once.mlir").write_text(once)
    carried_once = CARRIED.replace("@carried", "@carried_once")
    carried_once = carried_once.replace("  %batch =", LAYERS + "  %batch =", 1)
    (tmp_path / "carried_once.mlir").write_text(carried_once)
    (tmp_path / "carried").mkdir()
    (tmp_path / "carried" / "carried.mlir").write_text(CARRIED)
    drawn_encoding.write(tmp_path)
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    return tmp_path


class Plain:
    """A GPT-2 in plain PyTorch whose scores get a term that `around` computes."""

    def __init__(self, params, config, around):
        self.p, self.c, self.around = params, config, around

    def linear(self, x, name):
        return F.linear(x, self.p[f"{name}.weight"], self.p[f"{name}.bias"])

    def norm(self, x, name):
        weight = self.p[f"{name}.weight"]
        return F.layer_norm(x, weight.shape, weight, self.p[f"{name}.bias"], self.c.epsilon)

    def logits(self, tokens):
        x = self.p["embedding.weight"][tokens]
        self.around.start(x)
        for layer in range(self.c.layers):
            name = f"layers.{layer}"
            x = x + self.attention(self.norm(x, f"{name}.norm1"), name)
            y = self.linear(self.norm(x, f"{name}.norm2"), f"{name}.mlp.up")
            y = self.linear(F.gelu(y, approximate="tanh"), f"{name}.mlp.down")
            self.around.after_mlp(y, name)
            x = x + y
        return self.norm(x, "norm") @ self.p["embedding.weight"].T

    def attention(self, x, name):
        def split(part):
            rows = self.linear(x, f"{name}.{part}")
            return rows.unflatten(-1, (self.c.heads, -1)).transpose(1, 2)

        q, k, v = split("query"), split("key"), split("value")
        scores = q @ k.mT / math.sqrt(q.shape[-1]) + self.around.term(name, x)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        probabilities = scores.masked_fill(hidden, -math.inf).softmax(-1)
        self.around.after_attention(probabilities, name)
        out = (probabilities @ v).transpose(1, 2).flatten(2)
        return self.linear(out, f"{name}.output")


class Around:
    """Nothing; what encodings do overrides it."""

    loss = 0.0

    def __init__(self, params):
        self.p = params

    def start(self, x):
        pass

    def after_attention(self, probabilities, name):
        pass

    def after_mlp(self, y, name):
        pass


class Remembered(Around):
    def start(self, x):
        self.memory = x @ self.p["attention.remembered.start"].T

    def term(self, name, x):
        gate = (self.memory @ self.p[f"{name}.attention.remembered.read"].T).transpose(1, 2)
        self.loss = self.loss + 0.01 * gate.square().sum()
        i = torch.arange(x.shape[1])
        heads = torch.arange(gate.shape[1], dtype=x.dtype)
        slopes = 2.0 ** (-8.0 * (heads + 1) / gate.shape[1])
        return gate[:, :, None] - slopes[:, None, None] * (i[:, None] - i).abs()

    def after_mlp(self, y, name):
        self.memory = self.memory + F.silu(y @ self.p[f"{name}.attention.remembered.write"].T)


class Carried(Around):
    def start(self, x):
        rows = x @ self.p["attention.carried.start"].T
        self.z = rows.unflatten(-1, (-1, 3)).transpose(1, 2)

    def term(self, name, x):
        return self.z[..., 0][:, :, None]

    def after_attention(self, probabilities, name):
        self.z = self.z + (probabilities @ self.z) * self.p[f"{name}.attention.carried.share"]


def first_layer_only(around, name):
    """As an encoding ``name`` with the option ``layers=first``."""

    class Once(around):
        def __init__(self, params):
            old = around.__name__.lower()
            super().__init__({n.replace(f".{name}.", f".{old}."): p for n, p in params.items()})

        def term(self, name, x):
            return super().term(name, x) if name == "layers.0" else 0.0

        def after_attention(self, probabilities, name):
            if name == "layers.0":
                super().after_attention(probabilities, name)

        def after_mlp(self, y, name):
            if name == "layers.0":
                super().after_mlp(y, name)

    return Once


class Forgetting(Around):
    def term(self, name, x):
        prefix = f"{name}.attention.forgetting"
        gates = F.linear(x, self.p[f"{prefix}.weight"], self.p[f"{prefix}.bias"])
        kept = F.logsigmoid(gates).cumsum(1).transpose(1, 2)
        return kept[..., None] - kept[:, :, None]


CASES = {
    "remembered(size=4, penalty=0.01)": Remembered,
    "carried(lanes=3)": Carried,
    "once(size=4, penalty=0.01, layers=first)": first_layer_only(Remembered, "once"),
    "carried_once(lanes=3, layers=first)": first_layer_only(Carried, "carried_once"),
    "forgetting": Forgetting,
}


@pytest.mark.parametrize("use", CASES)
def test_gradients_and_logits_equal_autograd(use, encodings, seed):
    config = gpt.Config(encodings=("causal", use), layers=2, width=32, heads=2)
    program = sextant.compile(gpt.build(config))
    generator = torch.Generator().manual_seed(seed)
    params = program.init_params(seed)
    if "layers=first" in use:
        assert not any(n.startswith("layers.1") and "once" in n for n in params)
    for value in params.values():
        value += 0.1 * torch.rand(value.shape, generator=generator)
    tokens = torch.randint(0, 256, (2, 13), generator=generator)
    labels = torch.randint(0, 256, (2, 13), generator=generator)
    given = {"tokens": tokens, "labels": labels, **params}
    found = program.run("gradients", given)
    got = dict(zip(program.results("gradients"), found, strict=True))

    exact = {n: p.double().requires_grad_() for n, p in params.items()}
    around = CASES[use](exact)
    logits = Plain(exact, config, around).logits(tokens)
    cross_entropy = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    loss = cross_entropy + around.loss
    loss.backward()
    assert abs(got["loss"].item() - loss.item()) < 1e-5 * loss.item()
    for name, p in exact.items():
        want = torch.zeros_like(p) if p.grad is None else p.grad
        error = (got[f"{name}:gradient"].double() - want).abs().max().item()
        assert error <= GRADIENT * want.abs().max().item() + 1e-6, name
    (computed,) = program.run("logits", {"tokens": tokens, **params})
    assert (computed.double() - logits).abs().max() < 1e-4
    # The encoding's loss is for training alone.
    (each,) = program.run("token_losses", given)
    assert abs(each.mean().item() - cross_entropy.item()) < 1e-5 * cross_entropy.item()


@pytest.mark.parametrize("use", ["remembered(size=4, penalty=0.01)", "carried(lanes=3)"])
def test_trains_in_a_vision_transformer(use, encodings):
    """A model of another kind, whose tokens are counted row by row."""
    shape = dict(layers=2, width=32, heads=2, classes=5, channels=1, patch=2)
    program = sextant.compile(vit.vit(encodings=(use,), positions="index", **shape))
    params = program.init_params(0)
    images, labels = torch.randn(6, 1, 6, 8), torch.randint(0, 5, (6,))
    known = {"images": images, "labels": labels, "step": torch.tensor(1.0), **params}
    known["learning_rate"] = torch.tensor(3e-3)
    for name in program.arguments("train_step"):
        if name.endswith((":first_moment", ":second_moment")):
            known[name] = torch.zeros_like(params[name.rsplit(":", 1)[0]])

    def run(function):
        return program.run(function, [known[n] for n in program.arguments(function)])[0]

    penalty = run("loss") - run("sample_losses").mean()
    assert (penalty > 1e-6) == ("penalty" in use)
    losses = [run("train_step").item() for _ in range(8)]
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize(
    ("file", "old", "new", "note"),
    [
        ("drawn.mlir", "0.5", "0.25", 'the definition of "drawn" has changed'),
        ("sampler.py", "0, 10, s", "5, 6, s", 'the sampler of "drawn" has changed'),
        ("", "", "", '"drawn" is not installed here'),
    ],
)
def test_a_stopped_training_ends_with_the_same_bits(
    encodings, file, old, new, note, tmp_path, capsys, seed
):
    """The run keeps its definitions and their samplers, whatever is installed where it goes
    on."""

    def change():
        if not file:
            shutil.rmtree(encodings / "drawn")
            return
        path = encodings / "drawn" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    whole = TrainConfig(
        encodings=("remembered(size=4)", "drawn"),
        layers=2,
        width=32,
        heads=2,
        length=16,
        batch=2,
        steps=6,
        seed=seed,
    )
    text = drawn_text()
    straight = loop.train(whole, tmp_path / "a", data=text, progress=False)
    train_until(3, whole, tmp_path / "b", data=text)
    change()
    capsys.readouterr()
    resumed = loop.train(whole, tmp_path / "b", data=text, progress=False)
    assert note in capsys.readouterr().err
    check_same_bits(straight, resumed)
    start = straight.program.init_params(seed)
    for name, value in straight.params.items():
        # What the last MLP writes is read by nobody.
        is_trained = name != "layers.1.attention.remembered.write"
        assert torch.equal(value, start[name]) != is_trained, name
    result = runs.evaluate_run(tmp_path / "a", multiples=(1,), last=4, progress=False)
    assert math.isfinite(result.all_tokens[1])
    # What only a loss sees is no input of an evaluation.
    assert "drawn.digits" in straight.program.arguments("train_step")
    assert "drawn.digits" not in straight.program.arguments("token_losses")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no function sample"),
        ("def sample(inputs, options, extents, seed, step): return {}", "gives nothing, expected digits"),
        (SAMPLER.replace("int32", "int64"), 'gives torch.int64 for "digits", expected a tensor'),
        (SAMPLER.replace("0, 10, s", "0, 10, (2, 3)"), 'gives shape (2, 3) for "digits", expected'),
        (SAMPLER.replace("0, 10, s", "8, 9, s"), 'gives values from 8 to 8 for "digits", expected 0 to 7'),
        (
            SAMPLER.replace("    generator", "    raise ValueError(f'no {options} at {extents}')\n    generator"),
            'cannot draw for "drawn(most=7, kind=odd)": '
            "no {'kind': 'odd', 'most': 7, 'scale': 0.1} at {'query': 16}",
        ),
    ],
)
def test_a_wrong_sampler_is_an_error_that_names_its_file(encodings, text, message, seed):
    path = encodings / "drawn" / "sampler.py"
    path.write_text(text)
    with pytest.raises(SamplerError, match=re.escape(message)) as error:
        sampler = Sampler("drawn(most=7, kind=odd)", {"query": 16})
        sampler.draw({"drawn.digits"}, seed, 1)
    assert str(path) in str(error.value)


def test_an_input_without_a_sampler_is_an_error(encodings):
    (encodings / "drawn" / "sampler.py").unlink()
    (sampler,) = samplers(("drawn",), {"query": 16})
    assert sampler.draw({"tokens"}, 0, 1) == {}
    with pytest.raises(SamplerError, match='has the input "drawn.digits", but no sampler'):
        sampler.draw({"drawn.digits"}, 0, 1)


def test_functions_are_listed(encodings):
    text = str(sextant.definitions.describe("remembered"))
    assert "function initial_state(input, start) -> memory" in text
    assert "function auxiliary_loss(gate, penalty)" in text
    assert "state memory" in text
    assert "carried" in [info.name for info in sextant.encodings()]


def test_attention_alone_takes_what_functions_would_make(encodings, seed):
    torch.manual_seed(seed)
    q, k, v = (torch.randn(1, 2, 9, 8) for _ in range(3))
    gate = torch.randn(1, 2, 9)
    out = sextant.attention(q, k, v, ["causal", "remembered"], {"remembered.gate": gate})
    scores = q @ k.mT / math.sqrt(8)
    i = torch.arange(9)
    slopes = 2.0 ** (-8.0 * torch.arange(1, 3) / 2)
    scores = scores + gate[:, :, None] - slopes[:, None, None] * (i[:, None] - i).abs()
    scores = scores.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -math.inf)
    torch.testing.assert_close(out, scores.softmax(-1) @ v, atol=1e-5, rtol=0)
    assert set(sextant.init_params(["remembered"], heads=2, head_dim=8)) == set()


def test_what_attention_alone_lacks_is_said_with_what_would_make_it(encodings):
    q, k, v = (torch.randn(1, 2, 9, 8) for _ in range(3))
    message = '"remembered.gate" .* is missing from params; functions of its encoding make it in a model'
    with pytest.raises(ValueError, match=message):
        sextant.attention(q, k, v, ["causal", "remembered"])


CHANGED_STATES = {
    # The memory of the example after the first MLP, [batch, length, width] or [batch, length].
    "tensor<?x?x32xf32>": [
        ('"write" : tensor<?x?xf32> dims(%size, %width)', '"write" : tensor<?x?xf32> dims(%width, %width)'),
        (
            "%n = nn.add %m, %a : (tensor<?x?x?xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>\n    return %n",
            "return %a",
        ),
    ],
    "tensor<?x?xf32>": [
        (
            "%n = nn.add %m, %a : (tensor<?x?x?xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>\n"
            "    return %n : tensor<?x?x?xf32>",
            "%n = nn.sum %a over [2] : (tensor<?x?x?xf32>) -> tensor<?x?xf32>\n"
            "    return %n : tensor<?x?xf32>",
        ),
        ('{pos.role = "write"})\n      -> (tensor<?x?x?xf32>', '{pos.role = "write"})\n      -> (tensor<?x?xf32>'),
    ],
}


@pytest.mark.parametrize("changed", CHANGED_STATES)
def test_a_state_keeps_its_shape(encodings, changed):
    path = encodings / "remembered.mlir"
    text = path.read_text()
    for old, new in CHANGED_STATES[changed]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text)
    message = f"remembered.after_mlp makes the state 'memory' '{changed}', but it starts as 'tensor<?x?x4xf32>'"
    with pytest.raises(sextant.CompileError, match=re.escape(message)) as error:
        gpt.gpt(encodings=("causal", "remembered(size=4)"), layers=2, width=32, heads=2)
    assert re.search(r"remembered.mlir:\d+:\d+: ", str(error.value))
