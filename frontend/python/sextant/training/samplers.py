"""Inputs of encodings in a training: what their samplers draw.

An encoding that is a folder may hold a ``sampler.py`` beside its definition, with one
function::

    def sample(inputs, options, seed, step):

``inputs`` has the shape of each input by name (None where any size will do), ``options``
the values that the use gives to options. The function gives an int32 tensor for each input
and depends on the seed and the step alone, so that a training that was stopped goes on as
it would have.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import torch

from .. import definitions
from ..errors import RunError
from ..uses import Use, parse_use

FILE = "sampler.py"
FUNCTION = "sample"


class SamplerError(RunError):
    """A sampler is missing, or gives what its encoding does not take."""


class Sampler:
    """What feeds the inputs of one use; ``inputs`` has their shapes by public name."""

    def __init__(self, use: str, inputs: Mapping[str, tuple[int | None, ...]]):
        self.use: Use = parse_use(use)
        prefix = f"{self.use.instance}."
        self.shapes = {name.removeprefix(prefix): shape for name, shape in inputs.items()}
        self.path = Path(definitions.describe(self.use.encoding).file).parent / FILE
        # Beside a definition that shares its folder with others it would be theirs, too.
        if self.path.parent.name != self.use.encoding or not self.path.is_file():
            raise SamplerError(
                f'"{use}" has the input "{next(iter(inputs))}", but no sampler: put {FILE} into '
                f"a folder {self.use.encoding} beside {self.use.encoding}.mlir"
            )
        self.sample = _load(self.path, self.path.stat().st_mtime_ns)

    def draw(self, seed: int, step: int) -> dict[str, torch.Tensor]:
        """The inputs of a step by public name."""
        found = self.sample(dict(self.shapes), dict(self.use.options), seed, step)
        if not isinstance(found, Mapping):
            raise self._error(f"gives {type(found).__name__}, expected a dict of tensors")
        if set(found) != set(self.shapes):
            raise self._error(
                f"gives {', '.join(sorted(found)) or 'nothing'}, expected "
                f"{', '.join(sorted(self.shapes))}"
            )
        for name, tensor in found.items():
            self._check(name, tensor)
        return {f"{self.use.instance}.{name}": found[name].contiguous() for name in self.shapes}

    def _check(self, name: str, tensor: object) -> None:
        want = self.shapes[name]
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.int32:
            got = getattr(tensor, "dtype", type(tensor).__name__)
            raise self._error(f'gives {got} for "{name}", expected a tensor of torch.int32')
        if len(want) != tensor.dim() or any(
            w not in (None, n) for w, n in zip(want, tensor.shape)
        ):
            raise self._error(f'gives shape {tuple(tensor.shape)} for "{name}", expected {want}')

    def _error(self, what: str) -> SamplerError:
        return SamplerError(f"{self.path}: {FUNCTION} {what}")


def samplers(uses: tuple[str, ...]) -> list[Sampler]:
    """The samplers of all uses that have inputs."""
    found = []
    for use in uses:
        if inputs := dict(definitions.signature([use]).inputs):
            found.append(Sampler(use, inputs))
    return found


@lru_cache(maxsize=64)
def _load(path: Path, version: int) -> Callable:
    """The function of a file, which ``version`` tells from what it was before."""
    spec = importlib.util.spec_from_file_location(f"sextant_sampler_{path.parent.name}", path)
    assert spec and spec.loader  # of a file named *.py
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SamplerError(f"{path}: {type(error).__name__}: {error}") from error
    function = getattr(module, FUNCTION, None)
    if not callable(function):
        raise SamplerError(f"{path} has no function {FUNCTION}")
    return function
