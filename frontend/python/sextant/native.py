"""Loads the module of the compiler with functions that are looked up when they are first
called. Python would look up all that it takes from LLVM and MLIR, most of which no
process calls: that takes longer than all else before the first result.

A file of its own, since Python runs its body once, in one thread.
"""

import os
import sys

_before = sys.getdlopenflags()
sys.setdlopenflags(_before & ~os.RTLD_NOW | os.RTLD_LAZY)
try:
    from . import _compiler as module  # type: ignore[attr-defined] # compiled
finally:
    sys.setdlopenflags(_before)

__all__ = ["module"]
