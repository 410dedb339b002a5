"""Inputs of encodings in a training: what their samplers draw.

An encoding that is a folder may hold a ``sampler.py`` beside its definition, with the
function::

    def sample(inputs, options, extents, seed, step):

``inputs`` has the shape of each input that is asked for by name (None where any size will
do); what no loss reads, because an option switches it off, is not asked for. ``options``
has the value of every option of the encoding, choices by their names, and ``extents`` how
long the texts of a step are and how many ("query", "batch"). The function gives an int32
tensor for each input, within the range that its definition states, and depends on what it
is given alone, so that a training that was stopped goes on as it would have. Steps count
from 1; 0 stands for an evaluation. A ``ValueError`` says what cannot be drawn. The file may
have another function (`given`).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Container, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import torch

from .. import definitions
from ..errors import RunError
from ..uses import Use, parse_use

FUNCTION = "sample"


class SamplerError(RunError):
    """A sampler is missing, or gives what its encoding does not take."""


class Sampler:
    """What feeds the inputs of one use. Its file is read at once, so that it is the one of
    the definition as it is now."""

    def __init__(self, use: str, extents: Mapping[str, int]):
        self.use: Use = parse_use(use)
        signature = definitions.signature([use])
        self.shapes, self.ranges = dict(signature.inputs), dict(signature.input_ranges)
        self.options = definitions.option_values(self.use)
        self.extents = dict(extents)
        self.path = definitions.sampler(self.use.encoding)
        self.sample = load(self.path, FUNCTION) if self.path else None

    def draw(self, asked: Container[str], seed: int, step: int) -> dict[str, torch.Tensor]:
        """Those inputs of a step, by public name, that are ``asked`` for."""
        prefix = f"{self.use.instance}."
        shapes = {n.removeprefix(prefix): s for n, s in self.shapes.items() if n in asked}
        if not shapes:
            return {}
        if self.path and not self.sample:
            raise SamplerError(f"{self.path} has no function {FUNCTION}")
        if self.sample is None:
            name = self.use.encoding
            raise SamplerError(
                f'"{self.use}" has the input "{prefix}{next(iter(shapes))}", but no sampler: put '
                f"{definitions.SAMPLER} into a folder {name} beside {name}.mlir"
            )
        try:
            found = self.sample(dict(shapes), dict(self.options), dict(self.extents), seed, step)
        except ValueError as error:
            raise self._error(f'cannot draw for "{self.use}": {error}') from error
        except Exception as error:
            raise self._error(f'fails for "{self.use}": {type(error).__name__}: {error}') from error
        if not isinstance(found, Mapping):
            raise self._error(f"gives {type(found).__name__}, expected a dict of tensors")
        if set(found) != set(shapes):
            raise self._error(
                f"gives {', '.join(sorted(found)) or 'nothing'}, expected "
                f"{', '.join(sorted(shapes))}"
            )
        for name, want in shapes.items():
            self._check(name, found[name], want)
        return {f"{prefix}{name}": found[name].contiguous() for name in shapes}

    def _check(self, name: str, tensor: object, want: tuple[int | None, ...]) -> None:
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.int32:
            got = getattr(tensor, "dtype", type(tensor).__name__)
            raise self._error(f'gives {got} for "{name}", expected a tensor of torch.int32')
        if len(want) != tensor.dim() or any(
            w not in (None, n) for w, n in zip(want, tensor.shape)
        ):
            raise self._error(f'gives shape {tuple(tensor.shape)} for "{name}", expected {want}')
        limits = self.ranges.get(f"{self.use.instance}.{name}")
        if limits and tensor.numel():
            least, greatest = (int(limit) for limit in tensor.aminmax())
            if least < limits[0] or greatest > limits[1]:
                raise self._error(
                    f'gives values from {least} to {greatest} for "{name}", expected '
                    f"{limits[0]} to {limits[1]}"
                )

    def _error(self, what: str) -> SamplerError:
        return SamplerError(f"{self.path}: {FUNCTION} {what}")


def samplers(uses: tuple[str, ...], extents: Mapping[str, int]) -> list[Sampler]:
    """The samplers of all uses that have inputs."""
    return [Sampler(use, extents) for use in uses if definitions.signature([use]).inputs]


def load(path: Path, function: str) -> Callable | None:
    """A function of a file; None without it."""
    found = getattr(_module(path, path.stat().st_mtime_ns), function, None)
    return found if callable(found) else None


@lru_cache(maxsize=64)
def _module(path: Path, version: int) -> ModuleType:
    """What a file defines; ``version`` tells it from what it was before."""
    spec = importlib.util.spec_from_file_location(f"sextant_sampler_{path.parent.name}", path)
    assert spec and spec.loader  # of a file named *.py
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the names of a module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SamplerError(f"{path}: {type(error).__name__}: {error}") from error
    return module
