"""Sextant: attention with any positional encoding, compiled.

>>> import sextant
>>> params = sextant.init_params(["causal", "kerple_log"], heads=8, head_dim=64)
>>> out = sextant.attention(q, k, v, ["causal", "kerple_log"], params)
"""

from typing import TYPE_CHECKING

from . import processors

# Before anything imports torch.
processors.prepare_command()

from . import models, nn
from .attention import attention
from .definitions import describe, encodings
from .errors import CompileError, Note, RuntimeError
from .errors import nearest as _nearest
from .initial import init_params, project_
from .program import Program, compile, emit, load
from .random_positions import random_positions
from .revision import VERSION as __version__
from .rowmaps import map_rows
from .trace.foreign import instead_of as _instead_of
from .trace.functions import (
    abs,
    ceil,
    clamp,
    contract,
    cos,
    exp,
    floor,
    log,
    log1p,
    logsigmoid,
    maximum,
    minimum,
    relu,
    sigmoid,
    sin,
    softplus,
    sqrt,
    sum,
    tanh,
    to_float,
    to_int,
    where,
)
from .trace.parameters import Param, PerHead, Range, constant_init, normal, uniform
from .trace.requirements import require, require_past, require_span
from .trace.tracer import Encoding, columns, encoding, mask, rows, turn_rows, weighted_rows
from .uses import Use, parse_use


__all__ = [
    "CompileError",
    "Encoding",
    "Note",
    "Param",
    "PerHead",
    "Program",
    "Range",
    "RuntimeError",
    "Use",
    "abs",
    "attention",
    "ceil",
    "clamp",
    "columns",
    "compile",
    "constant_init",
    "contract",
    "cos",
    "describe",
    "emit",
    "encoding",
    "encodings",
    "exp",
    "floor",
    "init_params",
    "load",
    "log",
    "log1p",
    "logsigmoid",
    "map_rows",
    "mask",
    "maximum",
    "minimum",
    "models",
    "nn",
    "normal",
    "parse_use",
    "project_",
    "random_positions",
    "relu",
    "require",
    "require_past",
    "require_span",
    "rows",
    "sigmoid",
    "sin",
    "softplus",
    "sqrt",
    "sum",
    "tanh",
    "to_float",
    "to_int",
    "turn_rows",
    "uniform",
    "weighted_rows",
    "where",
]


if not TYPE_CHECKING:  # to which any name would be one of the module

    def __getattr__(name: str):
        """An error of a function that PyTorch has, or of a misspelt one, says what to write."""
        if cure := _instead_of(name):
            cure = f"; {cure}"
        elif not name.startswith("_"):
            cure = _nearest(name, __all__, lists=False)
        raise AttributeError(f"module 'sextant' has no attribute '{name}'{cure}")
