"""Initial values of parameters, and the bounds that they keep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch

from . import backend, definitions
from .checks import check_count, check_seed
from .declared import ParamInfo, Signature
from .definitions import EncodingLike
from .memory import gibibytes, memory_limit
from .shards import head_shard


def init_params(
    encodings: Iterable[EncodingLike],
    *,
    heads: int,
    head_dim: int,
    seed: int = 0,
    kv_heads: int | None = None,
    value_dim: int | None = None,
    model: int | None = None,
    length: int | None = None,
    heads_total: int | None = None,
    head_offset: int = 0,
    dtype: torch.dtype = torch.float32,
    frozen: bool = False,
    requires_grad: bool = False,
) -> dict[str, torch.Tensor]:
    """Initial values of the trained parameters of some encodings.

    Each tensor depends on the seed and on its own name only. ``frozen`` adds
    frozen ones. ``kv_heads`` is ``heads``, ``value_dim`` is ``head_dim``, ``model``
    is heads * head_dim unless said; ``length`` is needed by parameters with a dim of
    query or key, and only by these. Parameters without initial value (ids, lengths) are left
    out. Bounds are applied. ``heads_total``, ``head_offset``: ``heads`` are a part of
    an attention's heads, as in `sextant.attention`.

    >>> sextant.init_params(["causal", "kerple_log"], heads=12, head_dim=64, seed=1)
    """
    found = definitions.signature(encodings)
    extents = {
        "batch": 1,
        "heads": heads,
        "kv_heads": heads if kv_heads is None else kv_heads,
        "head_dim": head_dim,
        "value_dim": head_dim if value_dim is None else value_dim,
        "model": (heads_total or heads) * head_dim if model is None else model,
        "query": length or 0,
        "key": length or 0,
    }
    for name, value in extents.items():
        check_count(name, value, least=0)
    check_seed(seed)
    wanted = [p for p in found.params if not p.given and (p.trained or frozen)]
    if length is None:
        _check_lengths(found, wanted, extents)
    if dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        raise TypeError(f"parameters are of a floating-point type, got {dtype}")
    shard = None
    if heads_total is not None or head_offset:
        shard = head_shard(found, heads, extents["kv_heads"], heads_total, head_offset)
    params = values(found, wanted, shard.whole(extents) if shard else extents, seed, dtype)
    if shard:
        for param in wanted:
            params[param.name] = shard.part(param, params[param.name], extents).contiguous()
    project(params, found)
    for param in wanted:
        params[param.name].requires_grad_(requires_grad and param.trained)
    return params


def _check_lengths(
    signature: Signature, wanted: Sequence[ParamInfo], extents: dict[str, int]
) -> None:
    """No parameter has the length of a call, which is not known."""
    short, long = (
        definitions.shapes(signature, extents | {"query": length, "key": length})
        for length in (1, 2)
    )
    for param in wanted:
        if short[param.name] != long[param.name] or param.starts_with_call:
            raise ValueError(
                f'parameter "{param.name}" [{", ".join(param.dims)}] follows the length of a call, '
                "which is not given: sextant.init_params takes a length; a table for all lengths "
                "has a number of rows, and one that each call brings is given=True"
            )


def values(
    signature: Signature,
    wanted: Sequence[ParamInfo],
    extents: dict[str, int],
    seed: int,
    dtype: torch.dtype,
) -> dict[str, torch.Tensor]:
    """Tensors as their definitions say; formulas are evaluated in float64."""
    result = {}
    found = definitions.initial_values(signature, [p.name for p in wanted], extents)
    for name, (kind, numbers, shape) in found.items():
        _check_size(name, shape)
        if kind == "values":
            tensor = torch.tensor(numbers, dtype=torch.float64, device="cpu").reshape(shape)
        else:
            first, second = (*numbers, 0.0)[:2]
            tensor = backend.operators().sample(kind, first, second, shape, name, seed)
        result[name] = tensor.to(dtype)
    return result


def _check_size(name: str, shape: tuple[int, ...]) -> None:
    """A size that options made too large is an error before memory runs out."""
    needed = 4 * math.prod(shape)
    if needed > memory_limit():
        raise MemoryError(
            f'parameter "{name}" of shape {shape} takes {gibibytes(needed)}, '
            f"there are {gibibytes(memory_limit())}"
        )


# One with a dim of query or key has another shape at each token that is decoded.
_MOST_FROZEN = 256

_frozen: dict[tuple, torch.Tensor] = {}  # the oldest one is first


class FrozenParams:
    """Frozen parameters of calls with the same extents, made from their definitions; the last
    ones of all calls are remembered by shape and device."""

    def __init__(
        self,
        signature: Signature,
        wanted: Sequence[ParamInfo],
        extents: dict[str, int],
        dtype: torch.dtype,
        device: torch.device,
    ):
        self._signature, self._extents = signature, extents
        self._dtype, self._device = dtype, device
        shapes = definitions.shapes(signature, extents) if wanted else {}
        names = ("heads", "kv_heads", "head_dim", "value_dim", "model")
        sizes = tuple(extents[name] for name in names)
        self._keys = {}
        for param in wanted:
            # Slopes are made once for all tokens of a text that is decoded.
            known = tuple(extents.values()) if param.starts_with_call else sizes
            shape = shapes[param.name]
            self._keys[param] = (signature, param.name, shape, dtype, device, *known)

    def tensors(self) -> dict[str, torch.Tensor]:
        """The parameters by name."""
        result = {}
        for param, key in self._keys.items():
            found = _frozen.get(key)
            result[param.name] = self._make(param, key) if found is None else found
        return result

    def _make(self, param: ParamInfo, key: tuple) -> torch.Tensor:
        made = values(self._signature, [param], self._extents, 0, self._dtype)[param.name]
        made = _frozen[key] = made.to(self._device)
        if self._device.type == "cpu":  # a stream of a GPU may still have to read one
            for oldest in list(_frozen)[:-_MOST_FROZEN]:
                _frozen.pop(oldest, None)
        return made


def project_(
    params: Mapping[str, torch.Tensor], encodings: Iterable[EncodingLike]
) -> None:
    """Applies floors and ceilings in place, as after each optimizer step.

    Names that the encodings do not declare are left alone.
    """
    project(params, definitions.signature(encodings))


@torch.no_grad()
def project(params: Mapping[str, torch.Tensor], signature: Signature) -> None:
    """As `project_`, of a resolved list."""
    for param in signature.params:
        bounded = param.floor is not None or param.ceiling is not None
        if bounded and param.name in params:
            params[param.name].clamp_(param.floor, param.ceiling)
