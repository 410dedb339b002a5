"""Operators of PyTorch with derivatives, batching and autocast.

`torch.compile`, `torch.func.grad` and `torch.vmap` come by the same door: an operator with
a kernel below autograd, an autograd function above, and a rule of batching. Eager code that
nobody but autograd listens to goes around it, to the same function and the same kernel.
The function is one of a single level, since functorch itself calls the operator level by
level; `torch.library.register_autograd` makes one that functorch refuses. Forward mode
and second derivatives are refused: PyTorch's own answer to a missing formula is a tangent
of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

_library = torch.library.Library("sextant", "FRAGMENT")

# What the dispatcher would look at below autograd: where that is the device alone, the
# kernel is called without it, which takes about as long as a short attention.
_KEY = torch._C.DispatchKey
_BELOW_AUTOGRAD = torch._C._after_autograd_keyset.remove(_KEY.ADInplaceOrView).remove(
    _KEY.BackendSelect
)
_DEVICES = (_KEY.CPU, _KEY.CUDA)


@dataclass(frozen=True)
class Operator:
    """What PyTorch is told of an operator.

    ``schema``: as PyTorch writes it, with the name. ``label``: what the user calls.
    ``kernel``, ``fake``: what computes, and what gives shapes alone. ``gradient``:
    from arguments, results (one list) and their gradients to gradients of the
    arguments, a list where the argument is one; None where the operator is itself a
    derivative. ``constant``: how many results, the last ones, have no derivative.
    ``batched``: the rule of `torch.vmap`, from its extent, arguments with the new axis in
    front and flags of those that have it, to a list of results with it in front.
    ``structure``: from arguments and the list of results to what the schema says.
    ``autocast``: from arguments to arguments in the types of autocast. ``recorded``: from
    arguments to those of a call that autograd records, which may have to keep more.
    ``direct``: from the tensors among the arguments and the arguments to results, of a call
    that autograd records and nobody else hears of.
    """

    schema: str
    label: str
    kernel: Callable
    fake: Callable
    batched: Callable[[int, Sequence, Sequence], Sequence]
    structure: Callable[[Sequence, list], Any]
    gradient: Callable[[Sequence, list, Sequence], Sequence] | None = None
    constant: int = 0
    autocast: Callable[..., Sequence] | None = None
    recorded: Callable[[Sequence], Sequence] | None = None
    direct: Callable[[Sequence, Sequence], Any] | None = None

    @property
    def name(self) -> str:
        return self.schema.split("(", 1)[0]


def register(operator: Operator) -> Callable:
    """Makes ``torch.ops.sextant.<name>`` of it. Calls are made by what this returns, which
    takes the tensors among the arguments if they are `listeners.unheard`, or None, then all
    arguments."""
    _library.define(operator.schema, tags=(torch.Tag.pt2_compliant_tag,))
    op = getattr(torch.ops.sextant, operator.name).default
    qualified = f"sextant::{operator.name}"
    _library.impl(
        operator.name, _kept_from_dynamo(operator.kernel), "CompositeExplicitAutograd"
    )
    torch.library.register_fake(qualified, operator.fake, lib=_library)

    def below_autograd(keyset, arguments: Sequence):
        keyset &= _BELOW_AUTOGRAD
        with torch._C._AutoDispatchBelowAutograd():
            if keyset.highestPriorityTypeId() in _DEVICES:
                return operator.kernel(*arguments)
            return op.redispatch(keyset, *arguments)

    function = _function(operator, below_autograd)

    def call(tensors: list[torch.Tensor] | None, *arguments):
        if tensors is None:
            return op(*arguments)
        if not (torch.is_grad_enabled() and _is_trained(tensors)):
            return operator.kernel(*arguments)
        if operator.direct is not None:
            return operator.direct(tensors, arguments)
        if operator.recorded is not None:
            arguments = tuple(operator.recorded(arguments))
        flat, spec = _flattened(arguments)
        return operator.structure(arguments, list(function.apply(None, spec, *flat)))

    defaults = [argument.default_value for argument in op._schema.arguments]

    def complete(arguments: Sequence) -> tuple:
        """All arguments: the dispatcher leaves out those that have their default."""
        return (*arguments, *defaults[len(arguments) :])

    def differentiable(keyset, *arguments):
        arguments = complete(arguments)
        # Only here it is known: what calls the operator may be a level of functorch above
        # the one that records, or a graph that was traced for both.
        is_recorded = torch.is_grad_enabled() and _is_trained(_tensors(arguments))
        if not is_recorded and not _is_transformed(arguments):
            return below_autograd(keyset, arguments)
        if is_recorded and operator.recorded is not None:
            arguments = tuple(operator.recorded(arguments))
        flat, spec = _flattened(arguments)
        # functorch comes here once per level, with the tensors of that level.
        with enable_single_level_autograd_function():
            results = function.apply(keyset, spec, *flat)
        return operator.structure(arguments, list(results))

    _library.impl(operator.name, differentiable, "Autograd", with_keyset=True)

    def batched(info, in_dims, *arguments):
        arguments = complete(arguments)
        flat, spec = _flattened(arguments)
        dims = _flat_dims(in_dims, arguments)
        results = _batched(operator, info.batch_size, dims, flat, spec)
        out_dims = operator.structure(arguments, [0] * len(results))
        return operator.structure(arguments, results), out_dims

    torch.library.register_vmap(qualified, batched, lib=_library)

    def batched_by_autograd(*arguments):
        """`torch.autograd.grad` with ``is_grads_batched``, and what is made of it, have an
        older kind of batch than `torch.vmap`."""
        flat, spec = _flattened(arguments)
        level, front, has = _unbatched(flat)
        size = next(t.shape[0] for t, h in zip(front, has) if h)
        results = _batched(operator, size, [0 if h else None for h in has], front, spec)
        return operator.structure(
            arguments, [torch._add_batch_dim(result, 0, level) for result in results]
        )

    _library.impl(operator.name, batched_by_autograd, "Batched")
    widened = operator.autocast
    if widened is not None:
        keys = torch._C.DispatchKey
        below = torch._C.DispatchKeySet(keys.AutocastCPU) | torch._C.DispatchKeySet(keys.AutocastCUDA)

        def autocast(_keyset, *arguments):
            given = widened(*complete(arguments))
            with torch._C._ExcludeDispatchKeyGuard(below):
                return op(*given)

        for key in ("AutocastCPU", "AutocastCUDA"):
            _library.impl(operator.name, autocast, key, with_keyset=True)
    return call


def _kept_from_dynamo(kernel: Callable) -> Callable:
    """``kernel``, which `torch.compile` leaves alone with all that it calls.

    `torch._disable_dynamo` says the same, but imports PyTorch's compiler at the first
    call, which takes longer than to compile a kernel.
    """
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(kernel.__code__, frames._FrameExecStrategy(skip, skip))
    return kernel


# How many leaves each argument is: one that is a list has a number, another has None. The
# schema of an operator has no lists of lists; `torch.utils._pytree` would ask of every leaf
# what it is, which a short attention waits for.
Spec = tuple[int | None, ...]


def _flattened(arguments: Sequence) -> tuple[list, Spec]:
    """The leaves of arguments, in order, and how they are put together."""
    flat: list = []
    spec: list[int | None] = []
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            flat += argument
            spec.append(len(argument))
        else:
            flat.append(argument)
            spec.append(None)
    return flat, tuple(spec)


def _unflattened(flat: Sequence, spec: Spec) -> list:
    """The inverse."""
    arguments = []
    first = 0
    for count in spec:
        arguments.append(flat[first] if count is None else list(flat[first : first + count]))
        first += 1 if count is None else count
    return arguments


def _tensors(arguments: Sequence) -> list[torch.Tensor]:
    """The tensors among arguments, and in those that are lists."""
    return [leaf for leaf in _flattened(arguments)[0] if isinstance(leaf, torch.Tensor)]


def _is_trained(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether autograd asks for the gradient of one of them."""
    for tensor in tensors:
        if tensor.requires_grad:
            return True
    return False


def _is_transformed(arguments: Sequence) -> bool:
    """Whether functorch or forward mode may ask for a derivative."""
    if torch._C._are_functorch_transforms_active():
        return True
    return forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(t).tangent is not None for t in _tensors(arguments)
    )


# As many as PyTorch has in batches of its older kind.
_MOST_LEVELS = 64


def _unbatched(leaves: Sequence) -> tuple[int, list, list[bool]]:
    """The innermost level of batches of the older kind; the leaves without it, its axis in
    front; and which had it. PyTorch tells no level but that of the thread at hand, which may
    be one of autograd's, so it is looked for."""
    is_batched = torch._C._functorch.is_legacy_batchedtensor
    for level in range(_MOST_LEVELS, 0, -1):
        # A tensor that the level does not batch is spread over the extent given, 0.
        moved = [
            torch._remove_batch_dim(t, level, 0, 0)
            if isinstance(t, torch.Tensor) and is_batched(t)
            else None
            for t in leaves
        ]
        has = [m is not None and m.shape[0] > 0 for m in moved]
        if any(has):
            return level, [m if h else t for t, m, h in zip(leaves, moved, has)], has
    raise NotImplementedError("gradients of a batch without elements")


def _flat_dims(in_dims: Sequence, arguments: Sequence) -> list[int | None]:
    dims: list[int | None] = []
    in_dims = [*in_dims, *[None] * (len(arguments) - len(in_dims))]
    for dim, argument in zip(in_dims, arguments):
        if isinstance(dim, (list, tuple)):
            dims += dim
        else:
            dims += [dim] * (len(argument) if isinstance(argument, (list, tuple)) else 1)
    return dims


def _batched(operator: Operator, size: int, dims, flat, spec) -> list[torch.Tensor]:
    """Results with the new axis in front."""
    front = [
        leaf if dim is None else leaf.movedim(dim, 0) for leaf, dim in zip(flat, dims)
    ]
    has = [dim is not None for dim in dims]
    results = operator.batched(
        size, _unflattened(front, spec), _unflattened(has, spec)
    )
    return list(results)


def leaves(tree) -> list:
    """The tensors of what an operator returns, in order."""
    return [tree] if isinstance(tree, torch.Tensor) else _flattened(tree)[0]


def _function(operator: Operator, below_autograd: Callable) -> Any:
    """The operator as PyTorch differentiates it at one level of functorch: (keys of the
    dispatcher, structure of the arguments, their leaves) to the list of results. The keys are
    None where the dispatcher was not asked: then there is no other level."""

    class Differentiable(_SingleLevelFunction):
        """Calls the operator below autograd, and its gradient in the backward."""

        @staticmethod
        def forward(keyset, spec, *flat):
            arguments = _unflattened(flat, spec)
            if keyset is None:
                return tuple(leaves(operator.kernel(*arguments)))
            # The levels below differentiate, too.
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                results = below_autograd(keyset, arguments)
            return tuple(leaves(results))

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, spec, *flat = inputs
            ctx.set_materialize_grads(False)
            ctx.spec, ctx.results = spec, len(output)
            tensors = [t for t in flat if isinstance(t, torch.Tensor)]
            ctx.others = [None if isinstance(t, torch.Tensor) else (t,) for t in flat]
            if operator.constant:
                ctx.mark_non_differentiable(*output[-operator.constant :])
            if operator.gradient is not None:
                ctx.save_for_backward(*tensors, *output)

        @staticmethod
        def backward(ctx, *gradients):
            if operator.gradient is None:
                raise NotImplementedError(
                    f"{operator.label} has no second derivative: leave out create_graph=True, "
                    "or write this attention with PyTorch's operations"
                )
            saved = list(ctx.saved_tensors)
            results = saved[len(saved) - ctx.results :]
            tensors = iter(saved)
            flat = [next(tensors) if other is None else other[0] for other in ctx.others]
            arguments = _unflattened(flat, ctx.spec)
            own = []
            for argument, gradient in zip(
                arguments, operator.gradient(arguments, results, gradients)
            ):
                if isinstance(argument, (list, tuple)):
                    own += gradient
                else:
                    own.append(gradient)
            return None, None, *own

        @staticmethod
        def _compiled_autograd_key(ctx):
            return (ctx._autograd_function_id,)

        @staticmethod
        def jvp(ctx, *tangents):
            raise NotImplementedError(
                f"{operator.label} has no forward-mode derivative: use reverse mode "
                "(torch.func.vjp, jacrev, grad, or backward)"
            )

    name_function(Differentiable, f"Differentiable_{operator.name}")
    return Differentiable


def name_function(function: type[_SingleLevelFunction], name: str) -> None:
    """By these names errors, profiles and pictures of graphs call it and its backward."""
    function.__name__ = function.__qualname__ = name
    backward = function._backward_cls
    backward.__name__ = backward.__qualname__ = f"{name}Backward"


def one_by_one(op, size: int, arguments: Sequence, has: Sequence) -> list[torch.Tensor]:
    """`torch.vmap` of what no reshape can express: a call for each element."""
    flat, spec = _flattened(arguments)
    flags = leaves(has)
    calls = []
    # Without elements a call on zeros has the shapes.
    for element in range(size or 1):
        own = [
            (t[element] if size else t.new_zeros(t.shape[1:])) if flag else t
            for t, flag in zip(flat, flags)
        ]
        calls.append(leaves(op(*_unflattened(own, spec))))
    return [torch.stack(results)[:size] for results in zip(*calls)]


def fold(tensor: torch.Tensor, has: bool, size: int, batch: int | None = None) -> torch.Tensor:
    """[size, batch, ...] as [size * batch, ...]. A batch that is a divisor of
    ``batch`` counts modulo itself, so that without an axis of its own it needs nothing;
    without ``batch`` the tensor is spread over the new axis."""
    if not has:
        if batch is not None:
            return tensor
        tensor = tensor.expand(size, *tensor.shape)
    elif batch is not None and tensor.shape[1] != batch:
        own = tensor.shape[1]
        tensor = tensor.unsqueeze(1).expand(size, batch // own, *tensor.shape[1:])
        return tensor.reshape(size * batch, *tensor.shape[3:])
    return tensor.reshape(size * tensor.shape[1], *tensor.shape[2:])


def fold_positions(positions, has: bool, size: int, batch: int):
    """As `fold`, of (length), (batch, length) or (batch, length, axes)."""
    if not has:
        return positions
    given = positions[:, None] if positions.dim() == 2 else positions
    return fold(given, True, size, batch)


def unfold(tensor: torch.Tensor, size: int, batch: int) -> torch.Tensor:
    """The inverse, of a result."""
    return tensor.reshape(size, batch, *tensor.shape[1:])
