"""What of the package's names computes with tensors, and so imports PyTorch: `sextant` has
all of it."""

import sextant.nn as nn

from .attention_function import attention
from .drawn_positions import random_positions
from .initial import init_params, project_
from .program import Program, compile, emit, load
from .rowmaps import map_rows

__all__ = [
    "Program",
    "attention",
    "compile",
    "emit",
    "init_params",
    "load",
    "map_rows",
    "nn",
    "project_",
    "random_positions",
]
