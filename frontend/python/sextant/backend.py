"""The two native parts of the package: the compiler and the runtime.

``sextant._compiler`` turns text into artifacts (bytes); the operators
``torch.ops.sextant.*`` load and run them. Both are loaded on first use, and torch with the
operators: who asks the compiler alone does not wait for it.
"""

from __future__ import annotations

import builtins
import functools
import os
import threading
import weakref
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from .errors import CompileError, Note, RuntimeError

if TYPE_CHECKING:
    import torch

PACKAGE = Path(__file__).parent


class _Compiler:
    """Calls of ``sextant._compiler`` whose failures are `CompileError`.

    A child of a fork has the compiler's locks as they were, but not the threads
    that would release them. So a fork waits until no other thread is inside of the
    compiler.
    """

    def __init__(self, module: ModuleType):
        self._module = module
        self._mine = threading.local()
        self._reset()
        os.register_at_fork(
            before=self._wait, after_in_parent=self._release, after_in_child=self._reset
        )

    def _reset(self) -> None:
        self._inside = threading.Condition(threading.RLock())
        self._calls = getattr(self._mine, "calls", 0)

    def _wait(self) -> None:
        self._inside.acquire()
        mine = getattr(self._mine, "calls", 0)
        self._inside.wait_for(lambda: self._calls == mine)

    def _release(self) -> None:
        self._inside.release()

    def _count(self, change: int) -> None:
        with self._inside:
            self._calls += change
            self._mine.calls = getattr(self._mine, "calls", 0) + change
            self._inside.notify_all()

    def __getattr__(self, name: str):
        function = getattr(self._module, name)

        @functools.wraps(function)
        def call(*arguments, **keywords):
            self._count(1)
            try:
                return function(*arguments, **keywords)
            except self._module.Failure as failure:
                error = compile_error(failure.args[0])
            finally:
                self._count(-1)
            raise error

        setattr(self, name, call)
        return call


def compile_error(diagnostics: list[dict]) -> CompileError:
    """One exception of the compiler's diagnostics: the first error leads, the
    others follow as notes."""
    # What is wrong with an encoding is wrong in the forward and in the backward.
    once = [d for i, d in enumerate(diagnostics) if d not in diagnostics[:i]]
    errors = [d for d in once if d["severity"] == "error"] or once
    if not errors:
        return CompileError("the compiler failed without saying why")
    first = errors[0]
    notes = [_note(n) for n in first["notes"]]
    for other in errors[1:]:
        notes.append(_note(other))
        notes += [_note(n) for n in other["notes"]]
    return CompileError(
        first["message"],
        file=first["file"],
        line=first["line"],
        column=first["column"],
        notes=notes,
    )


def _note(d: dict) -> Note:
    return Note(d["message"], d["file"], d["line"], d["column"])


@functools.cache
def compiler() -> _Compiler:
    """The compiler; an ImportError says how to get it."""
    try:
        from . import native
    except ImportError as error:
        raise ImportError(
            f"Sextant's compiler is not built for this Python: {error}; build with "
            "`make build`, or install with `pip install --no-build-isolation .`"
        ) from None
    return _Compiler(native.module)


@functools.cache
def surroundings() -> ModuleType:
    """The compiler's functions that read the environment and look for files: none of its locks
    is theirs, so that they are called as they are."""
    compiler()
    from . import native

    return native.module


@functools.cache
def operators():
    """Loads the runtime's operators into torch."""
    library = PACKAGE / "libsextant_torch.so"
    if not library.exists():
        raise ImportError(
            f"Sextant's runtime {library} is missing; build with `make build`"
        )
    import torch

    torch.ops.load_library(str(library))
    torch.library.register_fake("sextant::sample", _sample_shapes)
    return torch.ops.sextant


def _sample_shapes(_distribution, _first, _second, sizes, _name, _seed):
    import torch

    return torch.empty(sizes, dtype=torch.float32, device="cpu")


class Artifact:
    """A compiled program in the runtime, unloaded when this goes away."""

    def __init__(self, data: bytes):
        import torch

        image = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        try:
            self.handle = int(operators().load(image))
        except builtins.RuntimeError as error:
            raise RuntimeError(reason(error)) from None
        self._operators = operators()
        self._finalizer = weakref.finalize(
            self, self._operators.unload, self.handle
        )

    def _call(self, operator, *arguments):
        try:
            return operator(self.handle, *arguments)
        except builtins.RuntimeError as error:
            raise RuntimeError(reason(error)) from None

    def run(self, function: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Runs a function on tensors in the order of its arguments."""
        return self._call(self._operators.run.default, function, inputs)

    def profile(self, function: str, inputs: list[torch.Tensor]):
        """As `run`, and what each instruction took, as JSON."""
        results, text = self._call(self._operators.profile.default, function, inputs)
        return results, _decode(text)

    def manifest(self) -> str:
        """What the artifact says of itself, as JSON."""
        return _decode(self._call(self._operators.manifest.default))

    def changed(self, function: str, like: torch.Tensor) -> list[int]:
        """Which arguments of a function it changes in place, on the device of ``like``."""
        return self._call(self._operators.changed.default, function, like).tolist()

    def initialize(self, name: str, seed: int) -> torch.Tensor:
        """The initial value of a parameter."""
        return self._call(self._operators.initialize.default, name, seed)


def _decode(text: torch.Tensor) -> str:
    """A text that the runtime gives as its bytes."""
    return bytes(text.tolist()).decode("utf-8", "replace")


def reason(error: Exception) -> str:
    """The first line of a failure inside torch, without C++ stack."""
    return str(error).split("\nException raised from", 1)[0].strip()
