"""Tensors that encodings ask of the caller of attention, such as the documents that tokens
belong to, made of the tokens.

The ``sampler.py`` beside a definition (`samplers`) may have a function for them::

    def given(tokens, options, seed, step, *, separator=";"):

``tokens`` is i64 [batch, length], of a training step or, with step 0, of an evaluation.
The function gives a tensor for each parameter of the definition that has no initial value,
and that no function of the encoding makes, by its name. Arguments behind the star are
settings of the training, ``--given NAME.separator=#``; their defaults say of which type
they are. It may give one tensor more, ``counted``, bool [batch, length]: the tokens whose
predictions count in losses; without it all do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path

import torch

from .. import definitions
from ..declared import ParamInfo
from ..errors import nearest
from ..uses import Option, Setting, parse_setting, parse_use
from .samplers import SamplerError, load

FUNCTION = "given"
COUNTED = "counted"
_DTYPES = {"i32": torch.int32, "f32": torch.float32}
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


class GivenTensors:
    """What makes the tensors of one use: ``params``, by the function of a file."""

    def __init__(self, use: str, params: Iterable[ParamInfo], path: Path, function: Callable):
        self.use = parse_use(use)
        self.params = {p.name.removeprefix(f"{self.use.instance}."): p for p in params}
        self.options = definitions.option_values(self.use)
        self.path = path
        self.function = function
        found = inspect.signature(function).parameters.values()
        self.defaults = {p.name: p.default for p in found if p.kind is p.KEYWORD_ONLY}
        self.settings: dict[str, Option] = {}

    def set(self, setting: Setting) -> None:
        """Another value of a setting than its default."""
        name, value = setting.option, setting.value
        if name not in self.defaults or len(setting.instances) > 1:
            known = nearest(name, self.defaults) or "; it has none"
            raise SamplerError(f'given {setting}: {self.path} has no setting "{name}"{known}')
        kind = type(self.defaults[name])
        if kind is float and type(value) is int:
            value = float(value)
        if kind in _KINDS and type(value) is not kind:
            raise SamplerError(f"given {setting}: it must be {_KINDS[kind]}")
        self.settings[name] = value

    def make(
        self, asked: Container[str], tokens: torch.Tensor, seed: int, step: int
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor | None]:
        """Those tensors, by public name, that are ``asked`` for; and which predictions
        count, None for all."""
        if not any(p.name in asked for p in self.params.values()):
            return {}, None
        try:
            found = self.function(tokens, dict(self.options), seed, step, **self.settings)
        except ValueError as error:
            raise self._error(f'cannot make what "{self.use}" needs: {error}') from error
        except Exception as error:
            raise self._error(f'fails for "{self.use}": {type(error).__name__}: {error}') from error
        if not isinstance(found, Mapping):
            raise self._error(f"gives {type(found).__name__}, expected a dict of tensors")
        if set(found) - {COUNTED} != set(self.params):
            raise self._error(
                f"gives {', '.join(sorted(found)) or 'nothing'}, expected "
                f"{', '.join(sorted(self.params))}"
            )
        batch, length = tokens.shape
        extents = {"batch": batch, "query": length, "key": length}
        for name, param in self.params.items():
            want = tuple(extents.get(dim) for dim in param.dims)
            self._check(name, found[name], _DTYPES[param.element], want)
        counted = found.get(COUNTED)
        if counted is not None:
            self._check(COUNTED, counted, torch.bool, (batch, length))
            if not counted.any():
                raise self._error(f'gives "{COUNTED}" without a token that counts')
        named = {p.name: found[name].contiguous() for name, p in self.params.items()}
        return {n: t for n, t in named.items() if n in asked}, counted

    def _check(
        self, name: str, tensor: object, dtype: torch.dtype, want: tuple[int | None, ...]
    ) -> None:
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != dtype:
            got = getattr(tensor, "dtype", type(tensor).__name__)
            raise self._error(f'gives {got} for "{name}", expected a tensor of {dtype}')
        if len(want) != tensor.dim() or any(
            w not in (None, n) for w, n in zip(want, tensor.shape)
        ):
            raise self._error(f'gives shape {tuple(tensor.shape)} for "{name}", expected {want}')

    def _error(self, what: str) -> SamplerError:
        return SamplerError(f"{self.path}: {FUNCTION} {what}")


def asked_of_callers(use: str) -> list[ParamInfo]:
    """The parameters of a use that somebody has to give at every call of a model."""
    found = definitions.signature([use])
    return [p for p in found.params if p.given and p.name not in found.filled]


def hides_given(use: str) -> bool:
    """Whether a use is a mask that depends on given tensors: it adds nothing to scores, and
    where it stands differs from text to text."""
    places = definitions.describe(parse_use(use).encoding).places
    return places == ("mask",) and bool(asked_of_callers(use))


def given_tensors(uses: Iterable[str], settings: Iterable[str]) -> list[GivenTensors]:
    """What makes the tensors of all uses that ask for some, with settings of a training."""
    found = {}
    for use in uses:
        if params := asked_of_callers(use):
            maker = _maker(use, params)
            found[maker.use.instance] = maker
    for setting in map(parse_setting, settings):
        name = setting.instances[0]
        if name not in found:
            known = nearest(name, found) or "; none of the encodings is given tensors"
            raise SamplerError(f'given {setting}: no encoding "{name}" is given tensors{known}')
        found[name].set(setting)
    return list(found.values())


def _maker(use: str, params: list[ParamInfo]) -> GivenTensors:
    name = parse_use(use).encoding
    path = definitions.sampler(name)
    function = load(path, FUNCTION) if path else None
    if path is None or function is None:
        param = params[0]
        raise SamplerError(
            f'"{use}" needs the tensor "{param.name}" [{", ".join(param.dims)}] of '
            f"{param.element} at every call, which a training on text does not have. To make it "
            f"of the tokens, write a function {FUNCTION} in {definitions.SAMPLER} of a folder "
            f"{name} beside {name}.mlir; or compile sextant.models.gpt(encodings=[...]) and "
            f'give "{param.name}" to Program.run("train_step", ...)'
        )
    return GivenTensors(use, params, path, function)
