"""The operators behind `sextant.attention`.

``torch.ops.sextant.attention`` takes one value and has fixed results, (output, lse,
statistics), so that sharding rules can be written for it; ``attention_values`` takes a
list of values and gives (outputs, lse, statistics). The statistics, (batch, heads, query
length, 2), are what the softmax was shifted and divided by: the backward of the same
target reads them, and they have no rows where no gradient is wanted (``recorded`` None;
autograd names there the parameters that it records, a line each). Both share
``attention_backward``, whose results are the gradients of query, key, values and parameters
in one list, zeros of those that are not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.autograd.function import _SingleLevelFunction

from . import arguments, calls, definitions, operators, plans, targets
from .declared import ParamInfo
from .listeners import unheard
from .operators import Operator
from .tensor_checks import check_devices

_SETTINGS = (
    "Tensor[] params, str names, str uses, str definitions, Tensor? query_positions, "
    "Tensor? key_positions, float? scale, SymInt? query_offset, SymInt? heads_total, "
    "SymInt head_offset, bool deterministic, str target"
)
_LABEL = "sextant.attention"
# Results beside the outputs that have no derivative, last in the list.
_CONSTANT = 1


def _listed(values: torch.Tensor | Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [values] if isinstance(values, torch.Tensor) else list(values)


def _structured(inputs, results):
    """What comes once for a value as a tensor or a list, as value is one; then the
    rest."""
    values = inputs[2]
    if isinstance(values, torch.Tensor):
        return tuple(results)
    return results[: len(values)], *results[len(values) :]


def _forward(*inputs):
    query, key, values, params, *settings, recorded = inputs
    values = _listed(values)
    call = calls.check(query, key, values, params, *settings)
    wanted = plans.wanted_of(call.signature, recorded)
    gradient = wanted is not None
    few = not gradient and query.is_cpu and query.shape[2] <= plans.FEW_QUERIES
    plan = plans.plan_for(call.request, call.signature, wanted, few)
    operands = [query, key, *values, *call.operands(params, *settings[3:5])]
    # A plan that has a backward gives statistics whether they are wanted or not.
    results = list(plan.artifact.run("forward", operands))[: len(values) + 1 + gradient]
    if not gradient:
        results.append(_statistics(results[-1], 0))
    return _structured(inputs, results)


def _statistics(lse: torch.Tensor, length: int) -> torch.Tensor:
    batch, heads, _ = lse.shape
    return torch.empty((batch, heads, length, 2), dtype=lse.dtype, device=lse.device)


def _forward_shapes(*inputs):
    query, key, values, params, names, _, _, *positions, _, _, _, _, _, _, recorded = inputs
    values = _listed(values)
    arguments.check_rows(query, key, values)
    check_devices("query", query, arguments.operands_of(names, params, *positions))
    batch, heads, length, _ = query.shape
    compute = torch.float64 if query.dtype == torch.float64 else torch.float32
    outputs = [query.new_empty((batch, heads, length, v.shape[-1])) for v in values]
    lse = query.new_empty((batch, heads, length), dtype=compute)
    statistics = _statistics(lse, 0 if recorded is None else length)
    return _structured(inputs, [*outputs, lse, statistics])


def _backward(query, key, values, results, gradients, params, *last):
    *settings, recorded = last
    call = calls.check(query, key, values, params, *settings)
    wanted = plans.wanted_of(call.signature, recorded)
    plan = plans.plan_for(call.request, call.signature, wanted)
    *outputs, _, statistics = results
    if statistics.shape[2] != query.shape[2]:
        raise ValueError(
            "a forward with recorded=None leaves no statistics of its softmax, of which the "
            "gradient is made: name the parameters that are recorded, as autograd does"
        )
    operands = [query, key, *values, *outputs, statistics, *gradients]
    operands += call.operands(params, *settings[3:5])
    computed = plan.artifact.run("backward", operands)
    own, rest = computed[: 2 + len(values)], computed[2 + len(values) :]
    return [*own, *plans.in_order(call.names, params, wanted, rest)]


def _backward_shapes(query, key, values, results, gradients, params, *settings):
    like = (query, key, *values, *params)
    return [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in like]


def _whole(gradients: Sequence, results: Sequence) -> list[torch.Tensor]:
    """Gradients of the results that have one, zeros where nobody asks."""
    return [
        torch.zeros_like(result) if gradient is None else gradient
        for result, gradient in zip(results[: len(results) - _CONSTANT], gradients)
    ]


def _gradient(inputs, results, gradients):
    query, key, values, params, *settings, recorded = inputs
    listed = _listed(values)
    gradients = _whole(gradients, results)
    given = [t for t in settings[3:5] if t is not None]
    tensors = unheard([query, key, *listed, *results, *gradients, *params, *given])
    dq, dk, *rest = attention_backward(
        tensors, query, key, listed, results, gradients, params, *settings, recorded or ""
    )
    own, rest = rest[: len(listed)], rest[len(listed) :]
    names, uses, texts = settings[:3]
    rest = plans.of_trained(names, uses, texts, recorded, rest)
    own = own[0] if isinstance(values, torch.Tensor) else own
    return dq, dk, own, rest, *[None] * (len(settings) + 1)


# ---- Calls that autograd alone listens to ----


class _Recorded(_SingleLevelFunction):
    """What autograd keeps of a call: the backward runs the plan of the forward, of the same
    definitions, without looking for it again, unless somebody listens to it by then or it is
    recorded itself: then it is an operator like others. (The call, its plan, the arguments that are no
    tensors, how many values and parameters there are, the tensors) to the list of results."""

    @staticmethod
    def forward(ctx, call, plan, settings, counts, *tensors):
        values, params, positions = _parted(tensors, counts, settings)
        operands = [*tensors[:2], *values, *call.operands(params, *positions)]
        results = tuple(plan.artifact.run("forward", operands))
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*results[-_CONSTANT:])
        ctx.save_for_backward(*tensors, *results)
        ctx.of_call = call, plan, settings, counts
        return results

    @staticmethod
    def backward(ctx, *gradients):
        call, plan, settings, counts = ctx.of_call
        saved = ctx.saved_tensors
        results = saved[-len(gradients) :]
        tensors = saved[: -len(gradients)]
        values, params, positions = _parted(tensors, counts, settings)
        asked = _whole(gradients, results)
        if torch.is_grad_enabled() or unheard([*saved, *asked]) is None:
            settings = [*settings[:3], *positions, *settings[5:]]
            recorded = "\n".join(plan.wanted)
            inputs = (*tensors[:2], list(values), list(params), *settings, recorded)
            dq, dk, own, rest, *_ = _gradient(inputs, results, asked)
        else:
            operands = [*tensors[:2], *values, *results[:-2], results[-1], *asked]
            operands += call.operands(params, *positions)
            dq, dk, *rest = plan.artifact.run("backward", operands)
            own, rest = rest[: len(values)], rest[len(values) :]
            by_name = dict(zip(plan.wanted, rest))
            rest = [_like(by_name.get(name), p) for name, p in zip(call.names, params)]
        given = [None for each in positions if each is not None]
        return None, None, None, None, dq, dk, *own, *rest, *given

    @staticmethod
    def _compiled_autograd_key(ctx):
        return (ctx._autograd_function_id,)


operators.name_function(_Recorded, "Differentiable_attention")


def _like(gradient: torch.Tensor | None, param: torch.Tensor) -> torch.Tensor | None:
    return None if gradient is None else gradient.to(param.dtype)


def _parted(tensors: Sequence, counts: tuple[int, int], settings: Sequence):
    """Values, parameters and positions (None without) among the tensors of a call."""
    values, params = counts
    given = iter(tensors[2 + values + params :])
    positions = [next(given) if is_given else None for is_given in settings[3:5]]
    return tensors[2 : 2 + values], tensors[2 + values : 2 + values + params], positions


def _recorded(tensors: Sequence, arguments: Sequence):
    query, key, values, params, *settings, _ = arguments
    values = _listed(values)
    call = calls.check(query, key, values, params, *settings)
    wanted = plans.wanted_of(call.signature, plans.recorded_of(arguments, 3))
    plan = plans.plan_for(call.request, call.signature, wanted)
    settings[3:5] = [positions is not None for positions in settings[3:5]]
    counts = len(values), len(params)
    apply = _Recorded.apply  # type: ignore[attr-defined] # of its base in C++
    return _structured(arguments, apply(call, plan, settings, counts, *tensors))


# ---- torch.vmap: the new axis joins the batch, which every tensor but a parameter has ----


def _declared(uses: str, texts: str) -> dict[str, ParamInfo]:
    return definitions.resolve(definitions.of_lines(uses), texts).by_name


def _folded(size: int, batch: int, params, settings, has_params, has_settings):
    """Parameters and settings for a batch of ``size`` times as many elements, or None
    where a parameter of the new axis has no batch to join."""
    names, uses, texts, *positions = settings[:5]
    declared = _declared(uses, texts)
    tensors = []
    for name, tensor, has in zip(names.split("\n"), params, has_params):
        if not has:
            tensors.append(tensor)
        elif name in declared and declared[name].dims[:1] == ("batch",):
            tensors.append(operators.fold(tensor, True, size, batch))
        else:
            return None
    positions = [
        operators.fold_positions(p, h, size, batch)
        for p, h in zip(positions, has_settings[3:5])
    ]
    return tensors, [names, uses, texts, *positions, *settings[5:]]


def _forward_batched(size, inputs, has):
    query, key, values, params, *settings, recorded = inputs
    is_single = isinstance(values, torch.Tensor)
    op = torch.ops.sextant.attention if is_single else torch.ops.sextant.attention_values
    batch = query.shape[1] if has[0] else query.shape[0]
    folded = _folded(size, batch, params, settings, has[3], has[4:-1])
    if folded is None:
        return operators.one_by_one(op, size, inputs, has)
    query, key = (operators.fold(t, h, size) for t, h in zip(inputs[:2], has[:2]))
    if is_single:
        values = operators.fold(values, has[2], size)
    else:
        values = [operators.fold(v, h, size) for v, h in zip(values, has[2])]
    results = op(query, key, values, folded[0], *folded[1], recorded)
    return [operators.unfold(r, size, batch) for r in operators.leaves(results)]


def _backward_batched(size, inputs, has):
    *rows, params, _, uses, texts = inputs[:9]
    found = definitions.resolve(definitions.of_lines(uses), texts)
    op = torch.ops.sextant.attention_backward
    batch = rows[0].shape[1] if has[0] else rows[0].shape[0]
    folded = None
    # A gradient of a parameter without batch is a sum over the batch: it cannot be
    # taken apart again.
    if not plans.wanted_of(found, inputs[-1]):
        folded = _folded(size, batch, params, inputs[6:], has[5], has[6:])
    if folded is None:
        return operators.one_by_one(op, size, inputs, has)
    query, key = (operators.fold(t, h, size) for t, h in zip(rows[:2], has[:2]))
    lists = [
        [operators.fold(t, h, size) for t, h in zip(tensors, flags)]
        for tensors, flags in zip(rows[2:], has[2:5])
    ]
    count = 2 + len(rows[2])
    results = op(query, key, *lists, folded[0], *folded[1])
    # Parameters that are not recorded have no gradient: what stands for one is zeros.
    zeros = [
        torch.zeros_like(p) if h else torch.zeros_like(p).expand(size, *p.shape)
        for p, h in zip(params, has[5])
    ]
    return [*(operators.unfold(r, size, batch) for r in results[:count]), *zeros]


# ---- Autocast ----


def _autocast(*inputs):
    """Rows in the type of autocast, as its products of matrices are; in f32 where the
    target does not take that. Types that autocast leaves alone elsewhere stay."""
    query, key, values, *rest = inputs
    wanted = torch.get_autocast_dtype(query.device.type)
    target = targets.resolve(str(rest[-2]), query.device)
    if wanted not in targets.describe(target)[1]:
        wanted = torch.float32

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        kept = not tensor.is_floating_point() or tensor.dtype == torch.float64
        return tensor if kept else tensor.to(wanted)

    values = cast(values) if isinstance(values, torch.Tensor) else [cast(v) for v in values]
    return cast(query), cast(key), values, *rest


def _registered(name: str, value: str, output: str):
    return operators.register(
        Operator(
            f"{name}(Tensor query, Tensor key, {value}, {_SETTINGS}, str? recorded) "
            f"-> ({output}, Tensor lse, Tensor statistics)",
            _LABEL,
            _forward,
            _forward_shapes,
            _forward_batched,
            _structured,
            _gradient,
            constant=_CONSTANT,
            autocast=_autocast,
            recorded=lambda inputs: (*inputs[:-1], plans.recorded_of(inputs, 3)),
            direct=_recorded,
        )
    )


attention = _registered("attention", "Tensor value", "Tensor output")
attention_values = _registered("attention_values", "Tensor[] values", "Tensor[] outputs")
attention_backward = operators.register(
    Operator(
        "attention_backward(Tensor query, Tensor key, Tensor[] values, Tensor[] results, "
        f"Tensor[] gradients, {_SETTINGS}, str recorded) -> Tensor[]",
        _LABEL,
        _backward,
        _backward_shapes,
        _backward_batched,
        lambda inputs, results: results,
    )
)
