"""Calls of an attention: what a kernel is given, and which kernel it is.

Both follow from the shapes, types and devices of a call's tensors, from its settings and
from the definitions as they are now, not from what the tensors hold. A model asks the same
in every layer and step, and an attention of a few tokens is done sooner than a call is
checked: calls that look alike are checked once.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from dataclasses import dataclass

import torch

from . import arguments, definitions, targets
from .declared import ParamInfo, Signature
from .definitions import Located
from .initial import FrozenParams
from .plans import Request
from .shards import HeadShard, head_shard
from .tensor_checks import Like, check_devices


@dataclass(frozen=True)
class Checked:
    """What holds for every call with tensors like these and these settings.

    ``frozen``: parameters that are made, of all heads where the call has a part of them.
    ``tail``: how many queries follow those of the call, of which a kernel reads the extent
    of a tensor.
    """

    signature: Signature
    names: list[str]
    extents: dict[str, int]
    compute: torch.dtype
    device: torch.device
    request: Request
    frozen: FrozenParams
    shard: HeadShard | None
    tail: int

    def operands(self, params: Sequence[torch.Tensor], query_positions, key_positions):
        """What a kernel reads beside rows: parameters in the order of its operands, then
        positions."""
        named = arguments.converted_params(
            self.signature, dict(zip(self.names, params)), self.compute
        )
        made = self.frozen.tensors()
        if self.shard is not None:
            by_name = self.signature.by_name
            made = {n: self.shard.part(by_name[n], t, self.extents) for n, t in made.items()}
        tensors = ordered(self.signature, named | made)
        for side, positions in (("query", query_positions), ("key", key_positions)):
            if positions is not None:
                label = f"{side}_positions"
                tensors.append(arguments.converted_positions(label, positions))
        if self.tail:
            tail = torch.empty(1, dtype=torch.int32, device=self.device)
            tensors.append(tail.expand(self.tail))
        return tensors


def missing(signature: Signature, names: Container[str]) -> list[ParamInfo]:
    """The parameters that a call does not give, which has those of ``names``."""
    return [p for p in signature.params if p.name not in names]


def ordered(signature: Signature, named: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Parameters in the order of a kernel's operands."""
    return [named[p.name] for p in signature.params]


def check(
    query, key, values, params, names, uses, texts, query_positions, key_positions, *settings
) -> Checked:  # fmt: skip
    """Checks a call against its encodings: the arguments of the operators of attention."""
    located = definitions.locate(definitions.of_lines(uses))
    return _check(
        definitions.environment(),
        Like.of(query),
        Like.of(key),
        tuple(map(Like.of, values)),
        tuple(map(Like.of, params)),
        names,
        located,
        texts,
        None if query_positions is None else Like.of(query_positions),
        None if key_positions is None else Like.of(key_positions),
        *settings,
    )


@functools.lru_cache(maxsize=1024)
def _check(
    environment: tuple[str | None, ...],
    query: Like,
    key: Like,
    values: tuple[Like, ...],
    params: tuple[Like, ...],
    names: str,
    located: Located,
    texts: str,
    query_positions: Like | None,
    key_positions: Like | None,
    scale: float | None,
    query_offset: int | None,
    heads_total: int | None,
    head_offset: int,
    deterministic: bool,
    target: str,
) -> Checked:
    arguments.check_rows(query, key, values)
    others = arguments.operands_of(names, params, query_positions, key_positions)
    check_devices("query", query, others)
    target = targets.resolve(target, query.device)
    arguments.check_device_and_dtype(query, target)
    signature = definitions.resolve_located(located, texts)
    foreign = signature.operands - {"query", "key", "value"}
    if foreign:
        raise ValueError(
            f"these encodings map rows of {', '.join(sorted(foreign))}, outside "
            "attention: apply them with sextant.map_rows"
        )
    batch, heads, query_length, head_dim = query.shape
    shard = head_shard(signature, heads, key.shape[1], heads_total, head_offset)
    extents = {
        "batch": batch,
        "heads": heads,
        "kv_heads": key.shape[1],
        "head_dim": head_dim,
        "value_dim": values[0].shape[-1],
        "model": (shard.total if shard else heads) * head_dim,
        "query": query_length,
        "key": key.shape[2],
    }
    named = dict(zip(names.split("\n"), params)) if names else {}
    compute = torch.float64 if query.dtype == torch.float64 else torch.float32
    arguments.check_params(signature, named, extents, compute)
    axes = [
        0 if positions is None
        else arguments.check_positions(f"{side}_positions", positions, batch, extents[side])
        for side, positions in (("query", query_positions), ("key", key_positions))
    ]  # fmt: skip
    tail = query_tail(query_length, key.shape[2], query_offset)
    request = Request(
        located.spelled,
        texts,
        query.dtype,
        head_dim,
        tuple(value.shape[-1] for value in values),
        axes[0],
        axes[1],
        bool(tail),
        scale,
        target,
        heads if signature.all_heads else 0,
        deterministic,
        targets.are_long(target, query),
        environment,
    )
    whole = extents if shard is None else shard.whole(extents)
    frozen = FrozenParams(signature, missing(signature, named), whole, compute, query.device)
    return Checked(
        signature, list(named), extents, compute, query.device, request, frozen, shard, tail
    )


def query_tail(queries: int, keys: int, offset: int | None) -> int:
    """How many queries follow those of a call; both sides are aligned at the end."""
    if offset is None:
        return 0
    tail = keys - queries - offset
    if tail < 0:
        raise ValueError(
            f"query_offset={offset} puts the last of {queries} queries beyond the {keys} keys: "
            f"it is at most {keys - queries}"
        )
    return tail
