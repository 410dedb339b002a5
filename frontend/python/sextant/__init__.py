"""Sextant: attention with any positional encoding, compiled.

>>> import sextant
>>> params = sextant.init_params(["causal", "kerple_log"], heads=8, head_dim=64)
>>> out = sextant.attention(q, k, v, ["causal", "kerple_log"], params)
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from . import models, processors
from .definitions import describe, encodings
from .errors import CompileError, Note, RuntimeError
from .errors import nearest as _nearest
from .revision import VERSION as __version__
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

# The command line prepares what torch reads when it is imported, and says what is wrong with
# its arguments before it waits for that: there these names come at their first use.
if TYPE_CHECKING or not processors.prepare_command():
    from .on_tensors import (
        Program,
        attention,
        compile,
        emit,
        init_params,
        load,
        map_rows,
        nn,
        project_,
        random_positions,
    )

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
        """A name that the command line left for its first use. An error of a function that
        PyTorch has, or of a misspelt one, says what to write."""
        if name in __all__:
            return getattr(_import_module(".on_tensors", __name__), name)
        if cure := _instead_of(name):
            cure = f"; {cure}"
        elif not name.startswith("_"):
            cure = _nearest(name, __all__, lists=False)
        raise AttributeError(f"module 'sextant' has no attribute '{name}'{cure}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
