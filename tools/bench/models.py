"""Encodings that live in the whole model: a training step of a GPT, and the encoder of
digits alone, against what a PyTorch user writes.

The eager models make every position's digits one by one, and use
`scaled_dot_product_attention` where it serves: with the product of SeqPE's rows in the
mask, and as it is for ExPE. TAPE has two: its probabilities written out and used twice,
as its released code does, and that function called for the values and again for the
state. Both sides have the same parameters, the same samples and no dropout; their losses must agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import gpt
import torch
import torch.nn.functional as F
from rows import Row, Settings
from timing import Rounds

import sextant
from sextant.models import around
from sextant.models.gpt import Config as GptConfig
from sextant.models.printer import tensor_type
from sextant.training.config import TrainConfig
from sextant.training.model import Model

SEQPE = "seqpe(dropout=0.0)"


class DigitEncoder:
    """SeqPE's encoder of positions [P, axes], each coordinate of some decimal digits."""

    powers = 10 ** torch.arange(4, -1, -1)

    def __init__(self, params: dict[str, torch.Tensor], heads: int):
        self.params, self.heads = params, heads

    def __call__(self, positions: torch.Tensor) -> torch.Tensor:
        p = self.params
        x = p["token"][self.digits(positions)] + self.places()
        x = torch.cat([x, p["cls"].expand(len(x), 1, -1)], 1)
        for i in range(len(p["qkv_weight"])):
            x = x + self.attention(self.norm(x, "norm1", i), i)
            h = F.linear(self.norm(x, "norm2", i), p["up_weight"][i], p["up_bias"][i])
            h = F.gelu(h, approximate="tanh")
            x = x + F.linear(h, p["down_weight"][i], p["down_bias"][i])
        x = F.layer_norm(x[:, -1], p["norm_weight"].shape, p["norm_weight"], p["norm_bias"])
        return F.linear(x, p["last_weight"], p["last_bias"])

    def digits(self, positions: torch.Tensor) -> torch.Tensor:
        return (positions[..., None] // self.powers % 10).flatten(-2)

    def places(self) -> torch.Tensor:
        return self.params["place"]

    def norm(self, x: torch.Tensor, name: str, i: int) -> torch.Tensor:
        weight = self.params[f"{name}_weight"][i]
        return F.layer_norm(x, weight.shape, weight, self.params[f"{name}_bias"][i])

    def attention(self, x: torch.Tensor, i: int) -> torch.Tensor:
        qkv = F.linear(x, self.params["qkv_weight"][i], self.params["qkv_bias"][i])
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in qkv.chunk(3, -1))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out = out.transpose(1, 2).flatten(2)
        return F.linear(out, self.params["output_weight"][i], self.params["output_bias"][i])


def seqpe_losses(
    encode: DigitEncoder,
    samples: dict[str, torch.Tensor],
    of_text: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Both losses of SeqPE at the positions that its sampler draws. ``of_text``: the rows of
    positions [..., axes] of the text or image itself."""
    pivots, candidates, trained, beyond = (
        samples[f"seqpe.{n}_at"].long() for n in ("pivots", "candidates", "trained", "beyond")
    )
    sets = [t.flatten(0, -2) for t in (pivots, candidates, beyond)]
    parts = encode(torch.cat(sets)).split([len(t) for t in sets])
    pivot, others, student = (
        e.unflatten(0, t.shape[:-1]) for e, t in zip(parts, (pivots, candidates, beyond))
    )
    nearest = (candidates - pivots[:, None]).square().sum(-1).argmin(-1)
    contrast = F.cross_entropy(torch.einsum("sc,smc->sm", pivot, others), nearest)

    def relations(rows):
        e = rows.unflatten(-1, (encode.heads, -1)).transpose(1, 2)
        return (e @ e.mT).log_softmax(-1)

    teacher, student = relations(of_text(trained).detach()), relations(student)
    distil = (teacher.exp() * (teacher - student)).sum(-1).mean()
    return 0.1 * contrast + 0.1 * distil


class Eager(gpt.Eager):
    """A GPT whose layers differ from a plain one in `project` and `attend`."""

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        self.begin(tokens)
        x = self.params["embedding.weight"][tokens]
        for layer in range(self.config.layers):
            prefix = f"layers.{layer}"
            h = self.norm(x, f"{prefix}.norm1")
            q, k = (self.project(h, f"{prefix}.{name}") for name in ("query", "key"))
            out = self.attend(q, k, Eager.project(self, h, f"{prefix}.value"), prefix)
            x = x + self.linear(out.transpose(1, 2).flatten(2), f"{prefix}.output")
            h = self.linear(self.norm(x, f"{prefix}.norm2"), f"{prefix}.mlp.up")
            y = self.linear(F.gelu(h, approximate="tanh"), f"{prefix}.mlp.down")
            self.after_mlp(y, prefix)
            x = x + y
        return self.norm(x, "norm") @ self.params["embedding.weight"].T

    def begin(self, tokens: torch.Tensor) -> None:
        pass

    def project(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return self.linear(x, name).unflatten(-1, (self.config.heads, -1)).transpose(1, 2)

    def attend(self, q, k, v, prefix: str) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def after_mlp(self, y: torch.Tensor, prefix: str) -> None:
        pass


class EagerExpe(Eager):
    def project(self, x, name):
        lanes, length = x.shape[-1] // 8, x.shape[1]
        values = (torch.arange(length)[:, None] + torch.arange(lanes)) / 2048
        return super().project(torch.cat([values.expand(len(x), -1, -1), x[..., lanes:]], -1), name)


class EagerTape(Eager):
    def begin(self, tokens):
        half = self.config.width // self.config.heads // 2
        angles = torch.arange(tokens.shape[1])[:, None] * 10000.0 ** (-torch.arange(half) / half)
        z = torch.cat([angles.cos(), angles.sin()], -1)
        self.z = z.expand(len(tokens), self.config.heads, -1, -1)

    def turned(self, x):
        a, b = x.chunk(2, -1)
        c, s = self.z.chunk(2, -1)
        return torch.cat([a * c - b * s, a * s + b * c], -1)

    def attend(self, q, k, v, prefix):
        out, seen = self.weighted(self.turned(q), self.turned(k), (v, self.z))
        self.z = self.z + self.params[f"{prefix}.attention.tape.s"][:, None, None] * seen
        return out

    def weighted(self, q, k, values):
        return [F.scaled_dot_product_attention(q, k, v, is_causal=True) for v in values]

    def after_mlp(self, y, prefix):
        x, w1, w2 = (self.params[f"{prefix}.attention.tape.{n}"] for n in ("x", "w1", "w2"))
        inner = torch.einsum("eh,bhlt->blet", w1, self.z) * F.silu(F.linear(y, x))[..., None]
        self.z = self.z + torch.einsum("he,blet->bhlt", w2, inner)


class EagerTapeReleased(EagerTape):
    def begin(self, tokens):
        super().begin(tokens)
        self.hidden = torch.ones(tokens.shape[1], tokens.shape[1]).triu(1).bool()

    def weighted(self, q, k, values):
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(self.hidden, -math.inf)
        probabilities = scores.softmax(-1)
        return [probabilities @ v for v in values]


class EagerSeqpe(Eager):
    """``samples``: the positions of both losses."""

    def __init__(self, model: Model, encoding: str):
        super().__init__(model, encoding)
        prefix = "attention.seqpe."
        own = {n.removeprefix(prefix): p for n, p in self.params.items() if n.startswith(prefix)}
        self.encode = DigitEncoder(own, self.config.width // 64 or 1)
        self.own = own
        self.samples = model.inputs(model.program, "train_step", 1)

    def begin(self, tokens):
        self.rows = self.encode(torch.arange(tokens.shape[1])[:, None])
        both = F.linear(self.rows, self.own["projection_weight"], self.own["projection_bias"])
        eq, ek = (t.unflatten(-1, (self.config.heads, -1)).transpose(0, 1) for t in both.chunk(2, -1))
        hidden = torch.ones(len(self.rows), len(self.rows)).triu(1).bool()
        self.mask = (eq @ ek.mT / math.sqrt(eq.shape[-1])).masked_fill(hidden, -math.inf)

    def attend(self, q, k, v, prefix):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)

    def loss(self, logits, labels):
        losses = seqpe_losses(self.encode, self.samples, lambda at: self.rows[at[..., 0]])
        return super().loss(logits, labels) + losses


# What is compared with what, and the goals at both sizes.
PAIRS: tuple[tuple[str, str, type[Eager], tuple[float, float]], ...] = (
    (SEQPE, "", EagerSeqpe, (1.8, 1.2)),
    ("tape", ", probabilities as released", EagerTapeReleased, (1.6, 1.1)),
    ("tape", ", SDPA twice", EagerTape, (1.6, 1.1)),
    ("expe", "", EagerExpe, (1.1, 1.0)),
)


def steps(settings: Settings) -> Iterator[Row]:
    """A step of a 12-layer, 768-wide GPT on bytes: one long sequence, and a batch."""
    sizes = ((1, 128), (2, 64)) if settings.is_quick else ((1, 2048), (8, 512))
    layers, width, heads = (2, 128, 2) if settings.is_quick else (12, 768, 12)
    for encoding, how, eager, goals in PAIRS:
        for (batch, length), goal in zip(sizes, goals):
            work = f"{layers} layers, width {width}, {batch} x {length}, {encoding}{how}"
            if not settings.wants(work):
                continue
            config = TrainConfig(
                encodings=(encoding,), layers=layers, width=width, heads=heads, batch=batch, length=length
            )  # fmt: skip
            model = Model(config)
            pair = gpt.same_steps(model, eager(model, encoding), batch, length)
            rounds = Rounds(dict(zip(("ours", "torch"), pair)), settings.few)
            yield settings.ratio(
                "training step of a GPT with an encoding of the whole model vs eager PyTorch",
                work, rounds, "ours", "torch", None if settings.is_quick else goal,
                f"{rounds.median('ours'):.2f} s per step",
            )  # fmt: skip


@dataclass(frozen=True)
class Encoding:
    """The compiled encoder of a width, with the gradients of all its parameters."""

    program: sextant.Program
    params: dict[str, torch.Tensor]

    @staticmethod
    def of(width: int, heads: int, options: str) -> Encoding:
        use = f"seqpe(dropout=0.0, alpha=0.0, beta=0.0, projection=none{options})"
        config = GptConfig(encodings=("causal", use), width=width, heads=heads)
        found = around.Around(sextant.definitions.signature(config.encodings), config.extents, config.tensors)
        (encode,) = found.of(around.INITIAL_STATE)
        types = [tensor_type(a.shape, a.element) for a in encode.arguments]
        names = [a.name or a.kind for a in encode.arguments]
        rows = f"tensor<?x{width}xf32>"
        text = "".join(
            f'nn.parameter "{n}" : {t} init normal [0.0, 0.1]\n' for n, t in zip(names[1:], types[1:])
        )
        arguments = [f'%a0: {types[0]} {{exec.name = "positions"}}'] + [
            f'%a{i}: {types[i]} {{nn.parameter = "{names[i]}"}}' for i in range(1, len(names))
        ]
        values = ", ".join(f"%a{i}" for i in range(len(names)))
        text += f"""{encode.declaration}
func.func @loss({", ".join(arguments)}) -> (tensor<f32>, {rows}) attributes {{nn.gradients = @gradients}} {{
  %e = func.call @{encode.symbol}({values}) : ({", ".join(types)}) -> {rows}
  %q = nn.mul %e, %e : ({rows}, {rows}) -> {rows}
  %l = nn.sum %q over [0, 1] : ({rows}) -> tensor<f32>
  return %l, %e : tensor<f32>, {rows}
}}
"""
        program = sextant.compile(text)
        return Encoding(program, program.init_params(0))

    def run(self, positions: torch.Tensor) -> list[torch.Tensor]:
        inputs = {"positions": positions[None, :, None].int(), **self.params}
        return self.program.run("gradients", inputs)


def digits(settings: Settings) -> Iterator[Row]:
    """The encoder on its tree of prefixes, against each position by itself: in eager
    PyTorch, and compiled."""
    width, heads = (64, 1) if settings.is_quick else (768, 12)
    tree = Encoding.of(width, heads, "")
    apart = Encoding.of(width, heads, ", tree=false")
    params = {n.removeprefix("seqpe."): p.clone().requires_grad_() for n, p in tree.params.items()}
    eager = DigitEncoder(params, heads)

    def plain(positions: torch.Tensor) -> Callable[[], None]:
        def run() -> None:
            for p in params.values():
                p.grad = None
            eager(positions[:, None]).square().sum().backward()

        return run

    works = (("512 consecutive", torch.arange(512), 3.0), ("1056 random", torch.randint(0, 20000, (1056,)), 1.8))
    for name, positions, goal in works:
        work = f"{name} positions, width {width}, forward + backward"
        if not settings.wants(work):
            continue
        rows = tree.run(positions)[1]
        if (rows - eager(positions.long()[:, None])).abs().max() > 1e-3 * rows.abs().max():
            raise SystemExit("bench: the encoders differ")
        candidates: dict[str, Callable[[], object]] = {
            "tree": partial(tree.run, positions),
            "torch": plain(positions.long()),
            "apart": partial(apart.run, positions),
        }
        rounds = Rounds(candidates, settings.rounds)
        for other, called in (("torch", "eager PyTorch"), ("apart", "compiled, without the tree")):
            bound = goal if other == "torch" and not settings.is_quick else None
            yield settings.ratio(
                "encoder of digits on the tree of prefixes", f"{work}, vs {called}", rounds, "tree", other,
                bound, f"{1e3 * rounds.median('tree'):.0f} ms",
            )  # fmt: skip
