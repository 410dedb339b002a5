"""Sextant: attention with any positional encoding, compiled."""

from .errors import CompileError, Note, RuntimeError
from .trace.functions import (
    abs,
    contract,
    cos,
    exp,
    floor,
    log,
    log1p,
    maximum,
    minimum,
    relu,
    sigmoid,
    sin,
    sqrt,
    sum,
    tanh,
    to_float,
    to_int,
    where,
)
from .trace.parameters import Param, PerHead, constant_init, normal, uniform
from .trace.tracer import Encoding, encoding, mask, rows
from .uses import Use, parse_use
