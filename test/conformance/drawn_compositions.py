"""Draws random compositions as Python source.

The source is what runs and what a failure prints. Nothing here knows an encoding:
names, options and places are read off the declarations.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from cases import KERNEL_OPERANDS
from compositions import POSITIONS
from traced_sites import TOKENS, draw_traced

import sextant
from sextant import definitions
from sextant.declared import EncodingInfo, OptionInfo
from sextant.uses import spell_option


def _option(rng: random.Random, option: OptionInfo) -> object:
    if option.choices:
        return rng.choice(option.choices)
    if option.type == "i1":
        return rng.choice([True, False])
    if option.type == "i32":
        return rng.choice([option.default, option.default // 2, 1, 2, 3, 4, 8, 16, 40])
    return option.default * rng.choice([0.5, 0.75, 1.0, 2.0, 4.0])


@dataclass(frozen=True)
class Limits:
    """Of shapes, since a test is to be short: how many scores there are of all heads
    together, how long queries and keys are where one head alone has more, and how wide
    rows are."""

    scores: int = 60_000
    length: int = 129
    width: int = 128


class Drawing:
    """One composition in the making."""

    def __init__(self, seed: int, installed: list[EncodingInfo]):
        self.rng = random.Random(seed)
        acts = [e for e in installed if _acts_in_attention(e.name)]
        self.installed = acts
        self.masks = [e.name for e in acts if e.places == ("mask",)]
        # Those that add to the score: what a host is, though not all of them may be one.
        self.hosts = [e.name for e in acts if e.places == ("score",)]
        self.sources: list[str] = []
        self.rounds_params = False
        self.turns = False
        self.is_wide = False
        self.trains_rows = False
        self.positions = ""
        if self.rng.random() < 0.45:
            self.positions = self.rng.choice(list(POSITIONS))
        self.axes = self.rng.choice([1, 2, 2, 3]) if self.positions else 1

    def use(self, number: int) -> str:
        """An expression for one use."""
        rng, chance = self.rng, self.rng.random()
        if chance < 0.3:
            return self.traced(f"traced{number}")
        if chance < 0.4 and self.masks:
            return repr(f"u{number}={rng.choice(self.masks)}")
        info = rng.choice(self.installed)
        self.turns |= any(place.startswith("turn_rows") for place in info.places)
        self.trains_rows |= _trains_rows(info)
        self.is_wide |= any(_is_of_model(dim) for p in info.parameters for dim in p.dims[1:])
        items = []
        if _takes_hosts(info) and rng.random() < 0.8:
            items += rng.sample(self.hosts, rng.choice([1, 1, 2]))
        for option in info.options:
            if rng.random() < 0.4:
                value = spell_option(_option(rng, option))
                items.append(f"{option.name}={value}")
        return repr(f"u{number}={info.name}" + (f"({', '.join(items)})" if items else ""))

    def traced(self, name: str, site: str = "") -> str:
        made = draw_traced(self.rng, name, self.axes, site)
        self.sources.append(made.source)
        self.rounds_params |= made.columns
        self.trains_rows |= made.rows
        if not made.takes_hosts or self.rng.random() < 0.2:
            return name
        hosts = self.rng.sample(self.hosts, self.rng.choice([1, 1, 2]))
        return f"{name}({', '.join(map(repr, hosts))})"

    def shape(self, limits: Limits) -> dict[str, object]:
        rng = self.rng
        groups, kv_heads = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 2, 2, 3, 8])
        head_dim = rng.choice([4, 8, 16, 16, 17, 24, 32, 40, 64, 80, 128])
        if self.turns:  # By dense matrices of lanes.
            head_dim = min(head_dim, limits.width // 4)
        value_dims = [head_dim] if rng.random() < 0.5 else [rng.choice([1, 3, 8, 24, 64, 72, 128])]
        if rng.random() < 0.15:
            value_dims.append(rng.choice([1, 8, 24]))
        lengths = [0, 1, 2, 7, 16, 31, 33, 63, 64, 65, 100, 129, 300]
        query = rng.choice(lengths)
        key = query if rng.random() < 0.5 else rng.choice(lengths)
        batch = rng.choice([1, 2, 2, 3])
        most = limits.scores
        if self.is_wide:  # Each score is a sum over as many columns as a model has lanes.
            most = max(most // 3, limits.length**2)
        while batch * groups * kv_heads * query * key > most:
            if batch * groups > 1:
                batch, groups = 1, 1
            elif kv_heads > 1:
                kv_heads = 1
            else:
                query, key = min(query, limits.length), min(key, limits.length)
        head_dim, *value_dims = (min(dim, limits.width) for dim in (head_dim, *value_dims))
        return dict(batch=batch, heads=kv_heads * groups, kv_heads=kv_heads, query=query,
                    key=key, head_dim=head_dim, value_dims=value_dims)  # fmt: skip


def _acts_in_attention(name: str) -> bool:
    return not definitions.signature([name]).operands - KERNEL_OPERANDS


def _trains_rows(info: EncodingInfo) -> bool:
    """Whether parameters turn or map rows. Their gradient is a difference of sums over
    queries and keys, times positions: rounding the rows' gradients to bf16, as plain
    code does as well, moves it further than rounding operands, which is what stands
    for plain code in attention_contract.py."""
    maps = any(place.startswith(("rows of", "turn_rows")) for place in info.places)
    return maps and any(p.trained for p in definitions.signature([info.name]).params)


def _is_of_model(dim: str) -> bool:
    return "head_dim" in dim and "heads" in dim


def _takes_hosts(info: EncodingInfo) -> bool:
    return "pos.host" in Path(info.file).read_text()


def _requires_past(use: str) -> bool:
    if not use.startswith("'"):
        return False
    try:
        return definitions.signature([use.strip("'")]).requires_past
    except sextant.CompileError:
        return False  # It is refused where it is used.


def draw(seed: int, targets: list[str], limits: Limits = Limits(), maps_tokens: bool = False) -> str:
    """A composition as Python source: definitions, then `composition = ...`. With
    `maps_tokens` one of its uses maps rows by given rows of the same tokens."""
    drawing = Drawing(seed, sextant.encodings())
    rng = drawing.rng
    uses = [drawing.use(i) for i in range(rng.choice([1, 2, 2, 3, 3, 4]))]
    if maps_tokens:
        uses.insert(rng.randrange(len(uses) + 1), drawing.traced("token_rows", TOKENS))
    if rng.random() < 0.5 or any(_requires_past(use) for use in uses):
        uses.insert(rng.randrange(len(uses) + 1), '"past=causal"')
    target = rng.choice(targets)
    is_narrow = rng.random() < (0.6 if target.endswith("bf16") else 0.25)
    fields = dict(
        **drawing.shape(limits),
        target=target,
        dtype="bf16" if is_narrow and not drawing.trains_rows else "f32",
        seed=rng.randrange(2**31),
        positions=drawing.positions,
        axes=drawing.axes,
        order=rng.choice([(0, 1, 2, 3), (0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2), (2, 0, 1, 3)]),
        magnitude=rng.choice([1.0] * 8 + [0.0, 8.0]),
        rounds_params=drawing.rounds_params,
    )
    head = "import sextant\nfrom compositions import Composition\n"
    words = ",\n".join(f"    {name}={value!r}" for name, value in fields.items())
    call = f"composition = Composition(\n    uses=[{', '.join(uses)}],\n{words},\n)\n"
    return "\n\n".join([head, *drawing.sources, call])
