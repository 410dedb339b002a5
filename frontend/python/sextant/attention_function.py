"""`sextant.attention`: softmax attention with any positional encodings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real

import torch

from . import arguments, attention_operators, shards
from .checks import check_count, check_flag
from .definitions import EncodingLike, split, split_once
from .listeners import unheard
from .tensor_checks import check_tensor


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor | Sequence[torch.Tensor],
    encodings: Iterable[EncodingLike] = (),
    params: Mapping[str, torch.Tensor] | None = None,
    *,
    query_positions: torch.Tensor | None = None,
    key_positions: torch.Tensor | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    enable_gqa: bool = False,
    query_offset: int | None = None,
    heads_total: int | None = None,
    head_offset: int = 0,
    deterministic: bool = True,
    target: str = "auto",
):
    """Softmax attention with positional encodings, fused and differentiable.

    Args:
      query: (batch, heads, query length, head dim); f32 or bf16 on ``cpu``, these or f16
        on ``cuda``, f32 or f64 on ``reference``. Any strides.
      key: (batch, kv heads, key length, head dim). As many heads as query has, or
        with ``enable_gqa`` a divisor of them. Same dtype as query.
      value: (batch, kv heads, key length, value dim), or a sequence of such tensors
        (value dims may differ): the same probabilities are applied to each, in one
        pass. Same dtype as query.
      encodings: uses in order, as text (``"window(size=64)"``,
        ``"near=window(size=64)"``) or as what `sextant.encoding` returns. Nothing
        is implied: causal attention names ``"causal"``.
      params: tensors by public name (``"kerple_log.r1"``), f32 (f64 for f64
        operands; bf16 and f16 are widened), or integers or bools for integer ones. Gradients
        flow into trained ones; others have none (None). That of one that requires none is not
        computed.
        A missing frozen one is made from its definition; a missing trained or
        given one is an error, as is one that no encoding declares.
      query_positions, key_positions: integer coordinates, (length), (batch, length)
        or (batch, length, axes), where batch may be 1 or a divisor of it. Without
        them a coordinate is the index. Queries and keys are aligned at the end:
        the first query has the index key length - query length, as in decoding
        (`scaled_dot_product_attention` aligns ``is_causal`` at the start).
      scale: factor on the product of query and key; 1 / sqrt(head dim) if None.
      return_lse: also return the log-sum-exp of each row's scores.
      enable_gqa: key and value may have fewer heads than query, each for a group of
        its heads (grouped queries).
      query_offset: index of the first query, key length - query length if None. A chunk
        of queries is what those rows are in the whole: masks, indices and coordinates
        that are not given follow it. The last query is not beyond the last key.
      heads_total, head_offset: where the heads of query are a part of an attention's
        heads, as under tensor parallelism: how many there are in all, and the number of
        the first one. Frozen parameters are those of the part; params are given for
        the part.
      deterministic: gradients are summed up in one order, so that the same inputs give
        the same bits. False allows a GPU another order at each call: on tensor cores
        the sums of query gradients then take the memory of one f32 per element, not of
        up to 16. CPUs and kernels of warps keep their order all the same, and
        `torch.use_deterministic_algorithms` asks for it everywhere.
      target: "auto" follows the device of query: "cpu" (the best that this machine has)
        or "cuda" (the best for its GPU). By name also "cpu:avx2", "cpu:avx512",
        "cpu:avx512bf16", "cpu:amx", "cuda:sm_80", "cuda:sm_86", "cuda:sm_90a", or
        "reference" (the definition run literally; slow).

    Returns:
      (batch, heads, query length, value dim) in the dtype of query, a tuple of them
      for a sequence of values; with ``return_lse`` a pair of that and (batch, heads,
      query length) in f32 (f64 for f64).
      A row that sees no key is zeros, its log-sum-exp minus infinity.

    Raises:
      CompileError: an encoding is unknown, wrong, or has no kernel.
      TypeError, ValueError: tensors that do not fit, with the expected shape.
      RuntimeError: the compiled program cannot run.

    `torch.compile`, `torch.func.grad`, `torch.vmap` and autocast work as with PyTorch's
    own operators; forward mode and second derivatives are refused. Under autocast to a
    dtype that the target does not take (f16 on ``cpu``, any on ``reference``) rows and the
    result are f32, where `scaled_dot_product_attention` gives the narrow dtype.
    """
    if isinstance(encodings, torch.Tensor):  # where scaled_dot_product_attention has its mask
        raise TypeError(
            "encodings is a list, got a tensor: a mask or a bias is given to an encoding that "
            'reads it, in params, as in ["padding"] with {"padding.visible": mask}'
        )
    named = arguments.named_params(params)
    is_single = isinstance(value, torch.Tensor) or not isinstance(value, Sequence)
    values = [value] if is_single else list(value)
    given = [query, key, *values, *named.values()]
    for positions in (query_positions, key_positions):
        if positions is not None:
            given.append(positions)
    tensors = unheard(given)
    spelled, definitions = (split if tensors is None else split_once)(encodings)
    if tensors is None or not values:
        _check_tensors(query, key, value, named, query_positions, key_positions)
    # What is as it mostly is need not be looked at closely: calls of a few tokens are short.
    if scale is not None:
        _check_scale(scale)
    if not isinstance(target, str):
        raise TypeError(f"target must be a string, got {type(target).__name__}")
    if not (return_lse is False and enable_gqa is False and deterministic is True):
        check_flag("return_lse", return_lse)
        check_flag("enable_gqa", enable_gqa)
        check_flag("deterministic", deterministic)
    if query_offset is not None:
        check_count("query_offset", query_offset, least=None)
    if heads_total is not None:
        check_count("heads_total", heads_total)
    if type(head_offset) is not int or head_offset != 0:
        check_count("head_offset", head_offset, least=0)
    shards.check_distributed(query, spelled, definitions, named)
    arguments.check_groups(query, key, enable_gqa)
    call = attention_operators.attention if is_single else attention_operators.attention_values
    output, lse, _ = call(
        tensors,
        query,
        key,
        value if is_single else values,
        list(named.values()),
        "\n".join(named),
        "\n".join(spelled),
        definitions,
        query_positions,
        key_positions,
        scale,
        query_offset,
        heads_total,
        head_offset,
        deterministic or torch.are_deterministic_algorithms_enabled(),
        target,
        None,  # autograd says what it records
    )
    output = output if is_single else tuple(output)
    return (output, lse) if return_lse else output


def _check_tensors(query, key, value, named, query_positions, key_positions) -> None:
    check_tensor("query", query)
    check_tensor("key", key)
    if isinstance(value, torch.Tensor) or not isinstance(value, Sequence):
        check_tensor("value", value)
    elif not value:
        raise ValueError("value must hold at least one tensor")
    else:
        for i, tensor in enumerate(value):
            check_tensor(f"value[{i}]", tensor)
    for label, positions in (
        ("query_positions", query_positions),
        ("key_positions", key_positions),
    ):
        if positions is not None:
            check_tensor(label, positions)
    for name, tensor in named.items():
        check_tensor(f'params["{name}"]', tensor)


_NUMBERS = (Real, torch.SymFloat, torch.SymInt)


def _check_scale(scale) -> None:
    is_number = isinstance(scale, _NUMBERS) and not isinstance(scale, bool)
    # `math.isfinite` takes no symbol, which torch.compile makes of a scale that changes.
    if not (is_number and scale - scale == 0):
        raise ValueError(f"scale must be a finite number, got {scale!r}")
