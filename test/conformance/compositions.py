"""Several encodings in one attention of any shape, held to the reference."""

from __future__ import annotations

from dataclasses import dataclass

import attention_contract
import torch
from attention_contract import Inputs
from cases import make_params

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@dataclass
class Composition:
    """An attention and the seed of its inputs. `positions` is a name of `POSITIONS`,
    or empty; `order` says in which order the dimensions of the operands lie in memory;
    `rounds_params` as in attention_contract.py."""

    uses: list
    batch: int
    heads: int
    kv_heads: int
    query: int
    key: int
    head_dim: int
    value_dims: list[int]
    target: str
    dtype: str
    seed: int
    positions: str = ""
    axes: int = 1
    order: tuple[int, ...] = (0, 1, 2, 3)
    magnitude: float = 1.0
    rounds_params: bool = False

    def inputs(self) -> Inputs:
        """Operands, exact in the type of the call."""
        generator = torch.Generator().manual_seed(self.seed)
        extents = dict(
            batch=self.batch,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            value_dim=self.value_dims[0],
            model=self.heads * self.head_dim,
            query=self.query,
            key=self.key,
        )

        def rows(heads: int, length: int, dim: int, magnitude: float = 1.0) -> torch.Tensor:
            shape = (self.batch, heads, length, dim)
            stored = [shape[i] for i in self.order]
            t = magnitude * torch.randn(stored, generator=generator, dtype=torch.float64)
            back = sorted(range(4), key=self.order.__getitem__)
            return t.to(DTYPES[self.dtype]).double().permute(back)

        positions = {}
        if self.positions:
            for side, length in (("query", self.query), ("key", self.key)):
                given = POSITIONS[self.positions](self.batch, length, self.axes, generator)
                positions[f"{side}_positions"] = given.to(torch.int32)
        return Inputs(
            rows(self.heads, self.query, self.head_dim, self.magnitude),
            rows(self.kv_heads, self.key, self.head_dim),
            [rows(self.kv_heads, self.key, dim) for dim in self.value_dims],
            [rows(self.heads, self.query, dim) for dim in self.value_dims],
            torch.randn(
                (self.batch, self.heads, self.query), generator=generator, dtype=torch.float64
            ),
            make_params(self.uses, extents, generator),
            positions,
        )

    def compare(self) -> None:
        """Holds all results to C7."""
        inputs = self.inputs()
        torch.manual_seed(self.seed)
        dtype = DTYPES[self.dtype]
        attention_contract.compare(
            self.uses, inputs, self.target, dtype, self, rounds_params=self.rounds_params
        )

    def is_defined(self) -> bool:
        """Whether the definition has a result: no infinity less another, no 0 / 0."""
        inputs = self.inputs()
        found = attention_contract.reference_results(self.uses, inputs)
        return not any(t.isnan().any() for t in found.values())


def _grid(_, length, axes, __):
    i = torch.arange(length)
    return torch.stack([i // 7, i % 7, i // 49][:axes], -1)[None]


# Each gives [batch or 1, length, axes].
POSITIONS = {
    "shared": lambda b, n, axes, g: torch.randint(1, 4, (1, n, axes), generator=g).cumsum(1),
    "batch": lambda b, n, axes, g: torch.randint(1, 4, (b, n, axes), generator=g).cumsum(1),
    "unordered": lambda b, n, axes, g: torch.randint(0, 50, (b, n, axes), generator=g),
    "far apart": lambda b, n, axes, g: torch.randint(0, 3000, (1, n, axes), generator=g),
    "negative": lambda b, n, axes, g: torch.randint(-60, 20, (b, n, axes), generator=g),
    "repeated": lambda b, n, axes, g: (torch.arange(n) // 3)[None, :, None].expand(1, n, axes),
    "grid": _grid,
}
