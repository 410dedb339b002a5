"""What a target computes with, as the compiler's table says."""

from __future__ import annotations

import functools
import os

import torch

from . import backend
from .tensor_checks import Like

# The target that follows the device of a call's tensors.
AUTO = "auto"

# Names of element types in IR.
ELEMENTS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float64: "f64", torch.float16: "f16"}


def resolve(target: str, device: torch.device) -> str:
    """The target of a name for tensors on a device: "auto" is "cpu" or "cuda", and "cuda"
    the best one for the GPU."""
    if target == AUTO:
        target = "cuda" if device.type == "cuda" else "cpu"
    if target != "cuda":
        return target
    if device.type != "cuda":
        raise ValueError(f"target cuda takes tensors on cuda, got {device}")
    return _of_gpu(device)


@functools.cache
def _of_gpu(device: torch.device) -> str:
    if not torch.cuda.is_available():
        raise ValueError(
            'target "cuda" is the best one for the GPU, and PyTorch finds none; '
            '"cuda:sm_80", "cuda:sm_86" and "cuda:sm_90a" can be named without one'
        )
    capability = torch.cuda.get_device_capability(device)
    if capability == (9, 0):  # whose own code runs nowhere else
        return "cuda:sm_90a"
    # Blocks have 99 KiB of shared memory there, on others 163 or more.
    if capability in ((8, 6), (8, 9)) or capability >= (12, 0):
        return "cuda:sm_86"
    if capability >= (8, 0):
        return "cuda:sm_80"
    raise ValueError(
        f"{torch.cuda.get_device_name(device)} has compute capability "
        f"{capability[0]}.{capability[1]}, and kernels of cuda:sm_80 need 8.0 or later: "
        "use such a GPU, or move the tensors to the CPU"
    )


def are_long(target: str, query: Like) -> bool:
    """Whether "cpu" means the target of long rows for a call with these queries."""
    return (
        target == "cpu"
        and query.dtype == torch.float32
        and query.shape[2] >= _least_long_rows(chosen())
    )


@functools.cache
def _least_long_rows(_chosen: str | None) -> int:
    return backend.compiler().least_long_rows()


def describe(target: str) -> tuple[str, tuple[torch.dtype, ...]]:
    """The type of device whose tensors a target takes, and their dtypes. An unknown
    target is a `CompileError` that lists the names."""
    return _describe(target, chosen())


def chosen() -> str | None:
    """What the environment says "cpu" means."""
    return os.environ.get("SEXTANT_TARGET")


@functools.cache
def _describe(target: str, _chosen: str | None) -> tuple[str, tuple[torch.dtype, ...]]:
    device, names = backend.compiler().describe_target(target)
    return device, tuple(dtype for dtype, name in ELEMENTS.items() if name in names)
