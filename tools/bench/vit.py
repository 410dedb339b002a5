"""A vision transformer, compiled and in eager PyTorch: training steps at 197 tokens and their
peak memory, and the forward of one larger image, at 1765.

The eager model is what a PyTorch user writes: a convolution for the patches,
`scaled_dot_product_attention`, with the bias of a table in its mask where there is one, and
rotations by complex numbers that are made once per call. Both have the same parameters; their
losses, and logits, must agree. SeqPE is measured as it is trained on images, with both of its
losses on the same samples, and without them; without dropout.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from live_bytes import run_counted
from models import DigitEncoder, seqpe_losses
from rows import Row, Settings
from timing import Rounds

import sextant
from sextant.models.vit import Config, build
from sextant.training.samplers import samplers

RATE = 1e-3


@dataclass(frozen=True)
class Shape:
    """``side``: of the grid of patches in training; ``sets``: how many pivots, candidates,
    windows and offsets SeqPE's losses have."""

    layers: int = 12
    width: int = 384
    heads: int = 6
    patch: int = 16
    side: int = 14
    batch: int = 16
    classes: int = 1000
    sets: int = 32

    @property
    def tokens(self) -> int:
        return self.side**2 + 1

    def images(self, batch: int, side: int) -> torch.Tensor:
        return torch.randn(batch, 3, side * self.patch, side * self.patch)


QUICK = Shape(layers=2, width=64, heads=2, patch=4, side=4, batch=2, classes=10, sets=8)


class Compiled:
    def __init__(self, shape: Shape, encoding: str, class_position: str):
        self.config = Config(
            encodings=(encoding,), class_position=class_position, layers=shape.layers,
            width=shape.width, heads=shape.heads, patch=shape.patch, classes=shape.classes,
        )  # fmt: skip
        self.program = sextant.compile(build(self.config))
        self.params = self.program.init_params(0)
        self.state = {"step": torch.tensor(1.0), "learning_rate": torch.tensor(0.0)}
        for name in self.program.arguments("train_step"):
            if name.endswith((":first_moment", ":second_moment")):
                self.state[name] = torch.zeros_like(self.params[name.rsplit(":", 1)[0]])
        asked = frozenset(self.program.arguments("train_step"))
        extents = {"query": shape.tokens, "batch": shape.batch}
        (self.samples,) = [s.draw(asked, 0, 1) for s in samplers((encoding,), extents)] or [{}]

    def step(self, images: torch.Tensor, labels: torch.Tensor, rate: float) -> float:
        known = {"images": images, "labels": labels, **self.params, **self.state, **self.samples}
        self.state["learning_rate"].fill_(rate)
        names = self.program.arguments("train_step")
        return float(self.program.run("train_step", [known[n] for n in names])[0])

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        return self.program.run("logits", {"images": images, **self.params})[0]


class Eager:
    """The same model, with parameters and an optimizer of its own."""

    def __init__(self, model: Compiled):
        self.config = c = model.config
        self.samples = model.samples
        self.params = {n: p.clone().requires_grad_() for n, p in model.params.items()}
        decayed = [p for p in self.params.values() if p.dim() > 1]
        others = [p for p in self.params.values() if p.dim() <= 1]
        groups = [{"params": decayed, "weight_decay": c.decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, betas=(c.beta1, c.beta2))

    def step(self, images: torch.Tensor, labels: torch.Tensor, rate: float) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.forward(images), labels) + self.added_loss()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params.values(), self.config.clip)
        self.optimizer.step()
        return float(loss.detach())

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.forward(images)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        c, p = self.config, self.params
        weight = p["patch.weight"].view(c.width, 3, c.patch, c.patch)
        x = F.conv2d(images, weight, p["patch.bias"], stride=c.patch)
        rows, columns = x.shape[2:]
        axes = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        self.begin(torch.stack(axes, -1).flatten(0, 1))
        x = self.embed(x.flatten(2).mT)
        x = torch.cat([p["class.token"].expand(len(x), 1, -1), x], 1)
        for layer in range(c.layers):
            prefix = f"layers.{layer}"
            h = self.norm(x, f"{prefix}.norm1")
            q, k, v = (
                self.linear(h, f"{prefix}.{n}").unflatten(-1, (c.heads, -1)).transpose(1, 2)
                for n in ("query", "key", "value")
            )
            out = self.attend(q, k, v, prefix).transpose(1, 2).flatten(2)
            x = x + self.linear(out, f"{prefix}.output")
            h = self.linear(self.norm(x, f"{prefix}.norm2"), f"{prefix}.mlp.up")
            x = x + self.linear(F.gelu(h, approximate="tanh"), f"{prefix}.mlp.down")
        return self.linear(self.norm(x[:, 0], "norm"), "head")

    def begin(self, grid: torch.Tensor) -> None:
        """``grid``: (row, column) of the patches."""

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def attend(self, q, k, v, prefix: str) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v)

    def added_loss(self) -> torch.Tensor | float:
        """What the encoding adds to the loss of the last call."""
        return 0.0

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, self.params[f"{name}.weight"], self.params[f"{name}.bias"])

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        weight = self.params[f"{name}.weight"]
        return F.layer_norm(x, weight.shape, weight, self.params[f"{name}.bias"], self.config.epsilon)


class EagerLearned(Eager):
    def embed(self, x):
        return x + self.params["embedding.learned.table"]


class EagerRope(Eager):
    def begin(self, grid):
        quarter = self.config.head_dim // 4
        rates = 100.0 ** (-torch.arange(quarter) / quarter)
        at = torch.cat([torch.zeros(1, 2), grid])
        angles = torch.cat([at[:, 1:] * rates, at[:, :1] * rates], -1)
        self.turns = torch.polar(torch.ones_like(angles), angles)

    def attend(self, q, k, v, prefix):
        q, k = (
            torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * self.turns).flatten(-2)
            for x in (q, k)
        )
        return F.scaled_dot_product_attention(q, k, v)


class EagerSwin(Eager):
    side = 0  # of the table's grid

    def begin(self, grid):
        at = torch.cat([torch.zeros(1, 2, dtype=torch.long), grid])
        most = self.side - 1
        dy, dx = (at[:, None] - at).clamp(-most, most).unbind(-1)
        self.index = (dy + most) * (2 * most + 1) + dx + most

    def attend(self, q, k, v, prefix):
        bias = self.params[f"{prefix}.attention.swin.table"][self.index].permute(2, 0, 1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])


class GridEncoder(DigitEncoder):
    """Of positions [P, 2], two digits each."""

    powers = 10 ** torch.arange(1, -1, -1)

    def places(self):
        return self.params["place"] + self.params["axis"].repeat_interleave(2, 0)


class EagerSeqpe(Eager):
    def begin(self, grid):
        own = {n.removeprefix("attention.seqpe."): p for n, p in self.params.items()}
        self.encode = GridEncoder(own, self.config.width // 64 or 1)
        self.side = int(grid.max()) + 1
        self.rows = torch.cat([own["outside_row"][None], self.encode(grid)])

    def attend(self, q, k, v, prefix):
        name = f"{prefix}.attention.seqpe.layer_projection"
        both = F.linear(self.rows, self.params[f"{name}_weight"], self.params[f"{name}_bias"])
        eq, ek = (t.unflatten(-1, (self.config.heads, -1)).transpose(0, 1) for t in both.chunk(2, -1))
        return F.scaled_dot_product_attention(q * eq, k * ek, v)


    def added_loss(self):
        if not self.samples:
            return 0.0
        return seqpe_losses(
            self.encode, self.samples, lambda at: self.rows[1 + at[..., 0] * self.side + at[..., 1]]
        )


SEQPE = "seqpe(form=mul, axes=2, digits=2, projection=multi, outside=true, dropout=0.0, {losses})"
LOSSES = (
    "max_position=100, sampling=image, pivots={sets}, candidates={sets}, windows={sets}, offsets={sets}"
)
WITHOUT = ", without its losses"


def models(name: str, shape: Shape) -> tuple[Compiled, Eager]:
    """The compiled and the eager model of an encoding."""
    side = shape.side
    uses: dict[str, tuple[str, str, type[Eager]]] = {
        "learned": (
            f"learned(rows={side**2}, grid_rows={side}, grid_columns={side})", "outside", EagerLearned
        ),
        "rope_2d": ("rope_2d", "origin", EagerRope),
        "swin": (f"swin(rows={side}, columns={side})", "origin", EagerSwin),
        "seqpe mul": (
            SEQPE.format(losses=LOSSES.format(sets=shape.sets)), "outside", EagerSeqpe
        ),
        f"seqpe mul{WITHOUT}": (
            SEQPE.format(losses="alpha=0.0, beta=0.0"), "outside", EagerSeqpe
        ),
    }  # fmt: skip
    use, class_position, kind = uses[name]
    ours = Compiled(shape, use, class_position)
    theirs = kind(ours)
    if isinstance(theirs, EagerSwin):
        theirs.side = side
    return ours, theirs


def step_calls(name: str, shape: Shape) -> tuple[Callable[[], float], Callable[[], float]]:
    """A step of both on the same images; that their losses are not the same is an error."""
    ours, theirs = models(name, shape)
    images = shape.images(shape.batch, shape.side)
    labels = torch.randint(0, shape.classes, (shape.batch,))
    losses = [m.step(images, labels, 0.0) for m in (ours, theirs)]
    if abs(losses[0] - losses[1]) > 1e-3:
        raise SystemExit(f"bench: ViTs with {name} differ: losses {losses[0]} and {losses[1]}")
    return (lambda: ours.step(images, labels, RATE), lambda: theirs.step(images, labels, RATE))


def forward_calls(name: str, shape: Shape, side: int):
    ours, theirs = models(name, shape)
    images = shape.images(1, side)
    found = [m.logits(images) for m in (ours, theirs)]
    if (found[0] - found[1]).abs().max() > 1e-3:
        raise SystemExit(f"bench: ViTs with {name} differ in their logits")
    return (lambda: ours.logits(images), lambda: theirs.logits(images))


MEMORY = """
import json, sys
import torch
torch.set_num_threads(1)
from live_bytes import rises
from vit import QUICK, Shape, step_calls

calls = step_calls(sys.argv[1], QUICK if sys.argv[2] == "quick" else Shape())
for call in calls:
    call()  # the optimizer's state
print(json.dumps([rises([call])[0] for call in calls]))
"""


def images(settings: Settings) -> Iterator[Row]:
    shape = QUICK if settings.is_quick else Shape()
    larger = 3 * shape.side
    model = f"{shape.layers} layers, width {shape.width}"
    for name, goal in (("learned", 1.0), ("seqpe mul", 1.2), (f"seqpe mul{WITHOUT}", None)):
        work = f"step, {model}, {shape.batch} images of {shape.tokens} tokens, {name}"
        if settings.wants(work):
            pair = step_calls(name, shape)
            yield _ratio(settings, work, pair, goal)
    for name, goal in (("rope_2d", 1.05), ("swin", 1.8)):
        work = f"forward, {model}, 1 image of {larger**2 + 1} tokens, {name}"
        if settings.wants(work):
            yield _ratio(settings, work, forward_calls(name, shape, larger), goal)
    work = f"peak memory of a step, {model}, {shape.batch} images of {shape.tokens} tokens, learned"
    if settings.threads == 1 and settings.wants(work):
        done = run_counted(MEMORY, "learned", "quick" if settings.is_quick else "full")
        if done.returncode:
            raise SystemExit(f"bench: memory of a ViT: {done.stderr}")
        ours, theirs = json.loads(done.stdout)
        note = f"{ours / 2**20:.0f} MiB beyond parameters and moments"
        bound = None if settings.is_quick else 0.8
        yield Row("vision transformer vs eager PyTorch", work, 1, ours / theirs, goal=bound, at_most=True, note=note)


def _ratio(settings: Settings, work: str, pair, goal: float | None) -> Row:
    rounds = Rounds(dict(zip(("ours", "torch"), pair)), settings.few)
    return settings.ratio(
        "vision transformer vs eager PyTorch", work, rounds, "ours", "torch",
        None if settings.is_quick else goal, f"{rounds.median('ours'):.2f} s",
    )  # fmt: skip
