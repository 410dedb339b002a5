"""What a target computes with, as the compiler's table says."""

from __future__ import annotations

import functools
import os

import torch

from . import backend

# Names of element types in IR.
ELEMENTS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float64: "f64", torch.float16: "f16"}


def describe(target: str) -> tuple[str, tuple[torch.dtype, ...]]:
    """The type of device whose tensors a target takes, and their dtypes. An unknown
    target is a `CompileError` that lists the names."""
    # The variable says what "cpu" means.
    return _describe(target, os.environ.get("SEXTANT_TARGET"))


@functools.cache
def _describe(target: str, _chosen: str | None) -> tuple[str, tuple[torch.dtype, ...]]:
    device, names = backend.compiler().describe_target(target)
    return device, tuple(dtype for dtype, name in ELEMENTS.items() if name in names)
