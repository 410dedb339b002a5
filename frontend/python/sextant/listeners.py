"""Who hears of an operator's call besides autograd and the kernel.

PyTorch's dispatcher asks whether anybody does: modes of Python, transforms (`torch.func`),
autocast, tracers, the profiler, tensors that are more than their elements. To ask takes
longer than an attention of a few tokens. Tensors and threads tell the same by their sets of
the dispatcher's keys: where these are those of plain tensors, and of a thread whose settings
nobody has changed, an operator may be called without it.
"""

from __future__ import annotations

import functools
import threading

import torch
from torch.autograd import forward_ad

_KEY = torch._C.DispatchKey


def _set_of(*keys: torch._C.DispatchKey) -> int:
    found = torch._C.DispatchKeySet(keys[0])
    for key in keys[1:]:
        found = found | torch._C.DispatchKeySet(key)
    return found.raw_repr()


# Keys of strided tensors on a device, and of those that `torch.inference_mode` makes. Others
# have more: conjugated or negated views, batches of `torch.vmap`, tensors of subclasses.
_PLAIN = frozenset(
    keys
    for device, autograd, autocast in (
        (_KEY.CPU, _KEY.AutogradCPU, _KEY.AutocastCPU),
        (_KEY.CUDA, _KEY.AutogradCUDA, _KEY.AutocastCUDA),
    )
    for keys in (
        _set_of(device, _KEY.ADInplaceOrView, autograd, autocast),
        _set_of(device, autocast),
    )
)
_TYPES = (torch.Tensor, torch.nn.Parameter)
_keys_of = torch._C._dispatch_keys


def _settings_of_thread() -> tuple[int, int]:
    """The keys that this thread adds to those of all tensors, and those that it takes away."""
    return (
        torch._C._dispatch_tls_local_include_set().raw_repr(),
        torch._C._dispatch_tls_local_exclude_set().raw_repr(),
    )


@functools.cache
def _unchanged() -> frozenset[tuple[int, int]]:
    """The settings that threads begin with, and those of `torch.inference_mode`."""
    found: list[tuple[int, int]] = []

    def look() -> None:
        found.append(_settings_of_thread())
        with torch.inference_mode():
            found.append(_settings_of_thread())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return frozenset(found)


def unheard(tensors: list) -> list[torch.Tensor] | None:
    """The tensors of an operator's call, where the kernel may be called in its place; None where
    somebody listens, as to what is no tensor. Autograd is the caller's to ask."""
    if torch.compiler.is_compiling():
        return None
    for tensor in tensors:
        if type(tensor) not in _TYPES or _keys_of(tensor).raw_repr() not in _PLAIN:
            return None
    is_undisturbed = (
        torch._C._len_torch_function_stack() == 0
        and _settings_of_thread() in _unchanged()
        and forward_ad._current_level < 0
        and not torch._C._autograd._profiler_enabled()
        and not torch._C._is_tracing()
    )
    return tensors if is_undisturbed else None
