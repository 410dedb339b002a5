"""Parts of an attention's heads, as processes of tensor parallelism have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .declared import ParamInfo, Signature
from .definitions import resolve


@dataclass(frozen=True)
class HeadShard:
    """Which of all heads a call has: ``offset`` is the first one's number."""

    total: int
    offset: int

    def whole(self, extents: dict[str, int]) -> dict[str, int]:
        """Extents of the attention that this is a part of."""
        group = extents["heads"] // extents["kv_heads"]
        return extents | {
            "heads": self.total,
            "kv_heads": self.total // group,
        }

    def part(self, param: ParamInfo, tensor: torch.Tensor, extents) -> torch.Tensor:
        """The rows of this part."""
        for axis, dim in enumerate(param.dims):
            if dim in ("heads", "kv_heads"):
                first = self.offset * extents[dim] // extents["heads"]
                tensor = tensor.narrow(axis, first, extents[dim])
        return tensor


def head_shard(
    found: Signature, heads: int, kv_heads: int, total: int | None, offset: int
) -> HeadShard | None:
    """The part that a call says it is; None for all heads."""
    total = heads if total is None else total
    if not 0 <= offset <= total - heads:
        raise ValueError(
            f"heads {offset} to {offset + heads - 1} are not among heads_total={total}: "
            f"head_offset is the number of the first of the {heads} heads of query"
        )
    if total == heads:
        return None
    group = heads // kv_heads
    if group == 0 or total % group or offset % group:
        raise ValueError(
            f"heads_total={total} and head_offset={offset} are not multiples of {group}, the "
            "heads of query for each head of key"
        )
    if found.count_heads:
        raise ValueError(
            f"{', '.join(found.count_heads)} computes with the number of its head, or "
            "of all heads: it has no part of the heads; call it with all of them"
        )
    return HeadShard(total, offset)


def fill_(held: torch.Tensor, values: torch.Tensor) -> None:
    """Copies values, given whole, into a tensor of which processes may have parts each."""
    if (parts := _distributed(held)) is not None:
        from torch.distributed.tensor import distribute_tensor

        values = distribute_tensor(values, parts.device_mesh, parts.placements)
    held.copy_(values)


def _distributed(tensor: torch.Tensor) -> Any:
    """The tensor where it is a DTensor, else None. By name: the class is in a module that
    few programs load."""
    return tensor if type(tensor).__name__ == "DTensor" else None


def check_distributed(query: torch.Tensor, spelled, texts: str, given) -> None:
    """Heads that are cut over processes: a kernel sees its own alone, so what follows
    from the number of all heads has to be given."""
    parts = _distributed(query)
    if parts is None or not any(p.is_shard(1) for p in parts.placements):
        return
    found = resolve(spelled, texts)
    if found.count_heads:
        raise ValueError(
            f"{', '.join(found.count_heads)} computes with the number of its head, or of all "
            "heads, but query is cut along its heads: redistribute it first"
        )
    for param in found.params:
        if param.made and param.name not in given:
            raise ValueError(
                f'parameter "{param.name}" is made from the heads that a process sees, but query '
                "is cut along its heads: pass it in params, as sextant.init_params(..., "
                "frozen=True) makes it for all heads, cut likewise"
            )
