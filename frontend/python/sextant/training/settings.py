"""Other values of encodings' options than those that a run was trained with.

A setting, ``expe.scaled=0.5``, names an encoding of the run by its instance, a host
through its encoding. It must leave the parameters as they are: those of the run are
evaluated. Frozen ones are made from the definition again, as options may enter them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .. import definitions
from ..errors import RunError, nearest
from ..uses import Option, Setting, Use, parse_setting, parse_uses, spell_option


class SettingError(RunError):
    """A setting does not fit the encodings of a run."""


@dataclass(frozen=True)
class Settings:
    """The encodings as they are set, by which instances, and a note for each setting."""

    encodings: tuple[str, ...] = ()
    instances: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def with_given(self, texts: Sequence[str], trained: Sequence[str]) -> Settings:
        """With notes on other settings of what makes tensors of the text."""
        before = {_name(s): spell_option(s.value) for s in map(parse_setting, trained)}
        notes = [
            f"evaluated with given {s}, trained with {before.get(_name(s), 'the default')}"
            for s in map(parse_setting, texts)
        ]
        return replace(self, notes=(*self.notes, *notes))

    def concern(self, parameter: str) -> bool:
        """Whether a model's parameter belongs to an encoding that is set."""
        parts = parameter.split(".")
        return parts[3 if parts[0] == "layers" else 1] in self.instances


def with_settings(encodings: Sequence[str], texts: Iterable[str], run: object) -> Settings:
    """The encodings with the settings that ``texts`` spell. ``run`` is what errors call
    the run."""
    uses = {use.instance: use for use in parse_uses(tuple(encodings))}
    notes, named = [], set()
    for setting in map(parse_setting, texts):
        name = setting.instances[0]
        named.add(name)
        if name not in uses:
            raise SettingError(
                f'{setting}: the run {run} has no encoding "{name}"{_known(name, uses)}'
            )
        uses[name], before = _changed(uses[name], setting, setting.instances[1:])
        notes.append(f"evaluated with {setting}, trained with {spell_option(before)}")
    changed = tuple(map(str, uses.values()))
    definitions.signature(changed)  # what is wrong with a value
    return Settings(changed, frozenset(named), tuple(notes))


def _changed(use: Use, setting: Setting, inner: Sequence[str]) -> tuple[Use, Option]:
    """The use with an option of it, or of its host ``inner``, at another value, and the
    value before."""
    if inner:
        hosts = {host.instance: host for host in use.hosts}
        if inner[0] not in hosts:
            raise SettingError(
                f'{setting}: "{use}" has no host "{inner[0]}"{_known(inner[0], hosts)}'
            )
        hosts[inner[0]], before = _changed(hosts[inner[0]], setting, inner[1:])
        return replace(use, hosts=tuple(hosts.values())), before
    options = {option.name: option for option in definitions.describe(use.encoding).options}
    if setting.option not in options:
        raise SettingError(
            f'{setting}: encoding "{use.encoding}" has no option "{setting.option}"'
            f"{_known(setting.option, options)}"
        )
    before = use.options.get(setting.option, options[setting.option].default)
    return replace(use, options={**use.options, setting.option: setting.value}), before


def _name(setting: Setting) -> tuple[str, ...]:
    return (*setting.instances, setting.option)


def _known(name: str, known: Iterable[str]) -> str:
    return nearest(name, known) or "; it has none"
