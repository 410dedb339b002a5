"""Checks and conversions of what `sextant.attention` is called with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from . import definitions, targets
from .declared import ParamInfo, Signature
from .errors import nearest
from .tensor_checks import Described, check_devices

_INT32 = torch.iinfo(torch.int32)
_MAY_BE_EMPTY = ("batch", "query", "key")
_INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8, torch.bool)


def named_params(params) -> dict[str, torch.Tensor]:
    """Parameters by name; none for None."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise TypeError(
            f"params must map names to tensors, got {type(params).__name__}"
        )
    for name in params:
        if not isinstance(name, str):
            raise TypeError(f"the names of params must be strings, got {name!r}")
        if not name:
            raise ValueError("a parameter of params has an empty name")
        if "\n" in name:
            raise ValueError(f"the name of a parameter has one line, got {name!r}")
    return dict(params)


def operands_of(names: str, params, query_positions, key_positions):
    """What stands beside query, key and value, with the words for each."""
    listed = names.split("\n") if names else []
    return [
        *((f'parameter "{name}"', param) for name, param in zip(listed, params)),
        ("query_positions", query_positions),
        ("key_positions", key_positions),
    ]


def check_groups(query: torch.Tensor, key: torch.Tensor, enable_gqa: bool) -> None:
    """Grouped queries are asked for: heads and lengths are easily exchanged."""
    if query.dim() != 4 or key.dim() != 4 or enable_gqa or query.shape[1] == key.shape[1]:
        return
    swapped = ""
    if query.shape[2] == key.shape[2]:
        swapped = "; if these are lengths, transpose(1, 2) gives (batch, heads, length, head dim)"
    raise ValueError(
        f"query has {query.shape[1]} heads and key has {key.shape[1]}: enable_gqa=True "
        f"asks for grouped queries{swapped}"
    )


def check_rows(query: Described, key: Described, values: Sequence[Described]) -> None:
    """Ranks, dtypes and shapes that must agree."""
    named = [("value" if len(values) == 1 else f"value[{i}]", v) for i, v in enumerate(values)]
    for name, tensor in (("query", query), ("key", key), *named):
        if tensor.dim() != 4:
            raise ValueError(
                f"{name} must be (batch, heads, length, head dim), got shape "
                f"{tuple(tensor.shape)}"
            )
        if tensor.dtype != query.dtype:
            raise TypeError(
                f"query, key and value share a dtype: {name} is {tensor.dtype}, query "
                f"is {query.dtype}"
            )
    check_devices("query", query, [("key", key), *named])
    batch, heads, _, head_dim = query.shape
    for name, value in named:
        if key.shape[0] != batch or value.shape[0] != batch:
            raise ValueError(
                f"batch sizes differ: query {batch}, key {key.shape[0]}, {name} {value.shape[0]}"
            )
    if key.shape[-1] != head_dim:
        raise ValueError(
            f"query and key have different head dims: {head_dim} and {key.shape[-1]}"
        )
    for name, value in named:
        if key.shape[1] != value.shape[1]:
            raise ValueError(f"key has {key.shape[1]} heads, {name} has {value.shape[1]}")
        if key.shape[2] != value.shape[2]:
            raise ValueError(f"key has length {key.shape[2]}, {name} has length {value.shape[2]}")
    if key.shape[1] == 0 or heads % key.shape[1] != 0:
        raise ValueError(
            f"the {heads} heads of query are not a multiple of the {key.shape[1]} "
            "heads of key (grouped queries)"
        )
    if head_dim == 0 or any(value.shape[-1] == 0 for value in values):
        raise ValueError("head dims must be at least 1")


def check_device_and_dtype(tensor: Described, target: str) -> None:
    """What a target computes with."""
    device, allowed = targets.describe(target)
    if tensor.device.type != device:
        raise ValueError(f"target {target} takes tensors on {device}, got {tensor.device}")
    dtype = tensor.dtype
    if dtype not in allowed:
        other = ""
        if dtype == torch.float64:
            other = '; target="reference" computes in float64'
        raise TypeError(
            f"target {target} computes in {' and '.join(map(str, allowed))}, got "
            f"{dtype}{other}"
        )


def check_params(
    signature: Signature,
    named: Mapping[str, Described],
    extents: dict[str, int],
    compute: torch.dtype,
) -> None:
    """Names, dtypes and shapes of parameters against their declarations."""
    known = signature.by_name
    listed = ", ".join(signature.spelled) or "none"
    for name in named:
        if name not in known:
            raise ValueError(
                f'no encoding of [{listed}] has a parameter "{name}"{nearest(name, known)}'
            )
    for param in signature.params:
        if param.name in named or param.made:
            continue
        what = "is given at every call" if param.given else "is trained"
        if not param.given:
            cure = "; sextant.init_params makes initial values"
        elif param.name in signature.filled:
            cure = (
                "; functions of its encoding make it in a model (sextant.models.gpt or vit), not "
                "where attention stands alone"
            )
        else:
            cure = ""
        raise ValueError(
            f'parameter "{param.name}" [{", ".join(param.dims)}] of [{listed}] '
            f"{what} and is missing from params{cure}"
        )
    shapes = definitions.shapes(signature, extents)
    for param in signature.params:
        for size, dim in zip(shapes[param.name], param.dims):
            if size < 1 and dim not in _MAY_BE_EMPTY:
                raise ValueError(
                    f'parameter "{param.name}" of [{listed}] would have the shape '
                    f"{shapes[param.name]}: an option is too small or too large"
                )
    for name, tensor in named.items():
        _check_param(known[name], tensor, shapes[name], extents["batch"], compute)


def _check_param(
    param: ParamInfo,
    tensor: Described,
    shape: tuple[int, ...],
    batch: int,
    compute: torch.dtype,
) -> None:
    if param.element == "i32":
        if tensor.dtype not in _INTEGERS:
            raise TypeError(
                f'parameter "{param.name}" holds integers, got {tensor.dtype}'
            )
    elif tensor.dtype not in (compute, torch.bfloat16, torch.float16):
        raise TypeError(
            f'parameter "{param.name}" must be {compute} beside these operands, got '
            f"{tensor.dtype}"
        )
    fits = tensor.dim() == len(shape) and all(
        have == want or (dim == "batch" and have > 0 and batch % have == 0)
        for have, want, dim in zip(tensor.shape, shape, param.dims)
    )
    if not fits:
        raise ValueError(
            f'parameter "{param.name}" must have shape {shape} '
            f"[{', '.join(param.dims)}], got {tuple(tensor.shape)}"
        )


def converted_params(
    signature: Signature, named: Mapping[str, torch.Tensor], compute: torch.dtype
) -> dict[str, torch.Tensor]:
    """Parameters as a kernel reads them: integers of 32 bits, others of the type that it
    computes in, which those of a module that was moved to a narrow one are not."""
    known = signature.by_name

    def convert(name: str, tensor: torch.Tensor) -> torch.Tensor:
        label, param = f'parameter "{name}"', known[name]
        if param.element == "i32":
            tensor = _to_int32(label, tensor)
        elif tensor.dtype != compute:
            tensor = tensor.to(compute)
        return _near(label, tensor, param.dims)

    return {name: convert(name, tensor) for name, tensor in named.items()}


def _near(label: str, tensor: torch.Tensor, dims: Sequence[str]) -> torch.Tensor:
    """The tensor, or a copy if its elements lie farther apart than kernels count, in 32
    bits; batch and head they count apart from the others."""
    if tensor.is_contiguous() and tensor.numel() <= _INT32.max:
        return tensor

    def reach(names: Sequence[str]) -> int:
        places = zip(dims, tensor.shape, tensor.stride())
        return sum((size - 1) * stride for dim, size, stride in places if dim in names)

    if reach(dims) <= _INT32.max:
        return tensor
    tensor = tensor.contiguous()
    farthest = reach([dim for dim in dims if dim not in ("batch", "heads")])
    if farthest > _INT32.max:
        raise ValueError(
            f"{label} [{', '.join(dims)}] of shape {tuple(tensor.shape)} has elements "
            f"{farthest} apart for one head, kernels count to {_INT32.max}: call with fewer "
            "queries at a time (query_offset says which these are), or compute its values in "
            "the encoding"
        )
    return tensor


def converted_positions(label: str, tensor: torch.Tensor) -> torch.Tensor:
    """Positions, which are checked, as int32 [batch or a divisor, length, axes]."""
    return _near(label, _to_int32(label, _arranged(tensor)), ("batch", "length", "axes"))


def arrange_positions(
    label: str, tensor: torch.Tensor, batch: int, length: int, operand: str = ""
) -> torch.Tensor:
    """Positions as [batch or a divisor, length, axes] of any integers. ``operand``: whose
    length that is, where its name is not that of the positions."""
    check_positions(label, tensor, batch, length, operand)
    return _arranged(tensor)


def _arranged(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 1:
        return tensor[None, :, None]
    return tensor[:, :, None] if tensor.dim() == 2 else tensor


def check_positions(
    label: str, tensor: Described, batch: int, length: int, operand: str = ""
) -> int:
    """Dtype and shape of positions; how many axes they have."""
    if tensor.dtype not in _INTEGERS or tensor.dtype == torch.bool:
        raise TypeError(
            f"{label} must hold integers, got {tensor.dtype}; times that are none are read as a "
            "parameter of an encoding: times[at.batch, at.row]"
        )
    shape = tuple(tensor.shape)
    arranged = {1: (1, *shape, 1), 2: (*shape, 1), 3: shape}
    rows, count, axes = arranged.get(len(shape), (0, -1, 0))
    if count != length or axes == 0:
        of_one = len(shape) == 2 and shape[0] == length
        cure = f": positions of {shape[1]} axes for the whole batch are {label}[None]" if of_one else ""
        raise ValueError(
            f"{label} must be (length), (batch, length) or (batch, length, axes) "
            f"with length {length}{operand and f' of {operand}'}, got {shape}{cure}"
        )
    if rows != batch and (rows == 0 or batch % rows):
        raise ValueError(f"the batch of {label} must be 1, {batch} or a divisor of it, got {rows}")
    return axes


def _to_int32(label: str, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype == torch.int32:
        return tensor
    if tensor.dtype == torch.int64 and tensor.numel():
        low, high = torch.aminmax(tensor)
        if tensor.device.type != "cpu":  # which nobody waits for
            fits = (low >= _INT32.min) & (high <= _INT32.max)
            torch._assert_async(fits, f"{label} must fit 32 bits")
        elif low < _INT32.min or high > _INT32.max:
            raise ValueError(
                f"{label} must fit 32 bits, got values from {int(low)} to {int(high)}"
            )
    return tensor.to(torch.int32)
