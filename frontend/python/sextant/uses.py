"""Uses of encodings as users type them: ``"near=window(size=64)"``.

A use names an encoding, may name its instance (``near=``; by default the
encoding's own name), and takes in parentheses options (``key=value``) and hosts
(bare names, which may have parentheses of their own)::

    use   := [name "="] name ["(" [item ("," item)*] ")"]
    item  := name "=" value | name ["(" ... ")"]
    value := number | "true" | "false" | name | '"' text '"'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import NoReturn

from .errors import CompileError

Option = bool | int | float | str

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
      | (?P<string>"[^"]*"|'[^']*')
      | (?P<punctuation>[=(),])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Use:
    """One use of an encoding.

    ``encoding``: name of the definition. ``instance``: prefix of its
    parameters' public names. ``options``: values by name. ``hosts``: uses taken
    by reference.
    """

    encoding: str
    instance: str
    options: dict[str, Option] = field(default_factory=dict)
    hosts: tuple[Use, ...] = ()

    def __str__(self) -> str:
        head = self.encoding
        if self.instance != self.encoding:
            head = f"{self.instance}={head}"
        items = [str(host) for host in self.hosts]
        items += [f"{k}={spell_option(v)}" for k, v in self.options.items()]
        return f"{head}({', '.join(items)})" if items else head


def parse_use(text: str) -> Use:
    """The use that ``text`` spells; a `CompileError` points at the column of a
    mistake."""
    return _Parser(text).parse()


def parse_uses(texts: list[str] | tuple[str, ...]) -> list[Use]:
    """Several uses, whose instance names must differ."""
    uses = [parse_use(text) for text in texts]
    first: dict[str, str] = {}
    for use, text in zip(uses, texts):
        if use.instance in first:
            plain = replace(use, instance=use.encoding)
            raise CompileError(
                f'two encodings are called "{use.instance}": '
                f'"{first[use.instance]}" and "{text}"; give one another name, '
                f'as in "other={plain}"'
            )
        first[use.instance] = text
    return uses


def spell_option(value: Option) -> str:
    """An option's value as a use has it: `parse_use` reads it back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        is_name = value.isascii() and value.isidentifier() and value.lower() not in ("true", "false")
        quote = "'" if '"' in value else '"'
        return value if is_name else f"{quote}{value}{quote}"
    # A number of NumPy that is a float of Python, too, has a spelling of its own.
    return str(value) if isinstance(value, int) else repr(float(value))


@dataclass(frozen=True)
class Setting:
    """A new value of an option, ``expe.scaled=0.5``; a host's is named through its
    encoding, ``dape.fire.threshold=16``."""

    instances: tuple[str, ...]
    option: str
    value: Option

    def __str__(self) -> str:
        return f"{'.'.join((*self.instances, self.option))}={spell_option(self.value)}"


def parse_setting(text: str) -> Setting:
    """The setting that ``text`` spells."""
    names, equals, value = text.partition("=")
    *instances, option = (name.strip() for name in names.split("."))
    if not (equals and instances and all((*instances, option))):
        raise CompileError(
            f'"{text}" is no setting: write <encoding>.<option>=<value>, as in rope.base=500000.0'
        )
    return Setting(tuple(instances), option, _Parser(value).parse_value())


# Hosts in hosts: what no score of anybody needs is a mistake.
_MOST_NESTED = 16
# Characters of a use that an error shows.
_EXCERPT = 100


@dataclass(frozen=True)
class _Token:
    """A piece of a use's text, and the column where it begins."""

    kind: str
    text: str
    column: int


class _Parser:
    """Recursive descent over the tokens of one use."""

    def __init__(self, text: str):
        self.text = text
        self.at = 0
        self.depth = 0
        self.tokens = self._split()

    def _split(self) -> list[_Token]:
        tokens = []
        position = 0
        while self.text[position:].strip():
            match = _TOKEN.match(self.text, position)
            if match is None:
                blank = len(self.text[position:]) - len(self.text[position:].lstrip())
                self._fail(
                    f"unexpected character {self.text[position + blank]!r}",
                    position + blank + 1,
                )
            kind = match.lastgroup or ""
            tokens.append(_Token(kind, match[kind], match.start(kind) + 1))
            position = match.end()
        tokens.append(_Token("end", "", len(self.text) + 1))
        return tokens

    def parse(self) -> Use:
        use = self._use(may_be_named=True)
        if self._peek().kind != "end":
            self._fail(f'expected the end, got "{self._peek().text}"')
        return use

    def parse_value(self) -> Option:
        value = self._value()
        if self._peek().kind != "end":
            self._fail(f'expected the end, got "{self._peek().text}"')
        return value

    def _use(self, may_be_named: bool) -> Use:
        name = self._name("the name of an encoding")
        instance = name
        if may_be_named and self._take("="):
            name = self._name("the name of an encoding")
        options: dict[str, Option] = {}
        hosts: list[Use] = []
        if self._take("(") and not self._take(")"):
            self.depth += 1
            if self.depth > _MOST_NESTED:
                self._fail(f"hosts stand in hosts more than {_MOST_NESTED} deep")
            while True:
                self._item(options, hosts)
                if self._take(")"):
                    self.depth -= 1
                    break
                if not self._take(","):
                    self._fail('expected "," or ")"' + self._got())
        return Use(name, instance, options, tuple(hosts))

    def _item(self, options: dict[str, Option], hosts: list[Use]) -> None:
        token, after = self._peek(), self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if token.kind != "name" or after.text != "=":
            if token.kind in ("number", "string"):
                self._fail(f"an option is written name={token.text}")
            host = self._use(may_be_named=False)
            if any(host.instance == other.instance for other in hosts):
                self._fail(f'two hosts are called "{host.instance}"', token.column)
            hosts.append(host)
            return
        if token.text in options:
            self._fail(f'option "{token.text}" is given twice')
        self.at += 2
        options[token.text] = self._value()

    def _value(self) -> Option:
        token = self._peek()
        if token.kind not in ("number", "name", "string"):
            self._fail("expected a value" + self._got())
        self.at += 1
        if token.kind == "string":
            return token.text[1:-1]
        if token.kind == "name":
            lowered = token.text.lower()
            return lowered == "true" if lowered in ("true", "false") else token.text
        try:
            return int(token.text)
        except ValueError:
            return float(token.text)

    def _name(self, what: str) -> str:
        token = self._peek()
        if token.kind != "name":
            self._fail(f"expected {what}" + self._got())
        self.at += 1
        return token.text

    def _peek(self) -> _Token:
        return self.tokens[self.at]

    def _take(self, text: str) -> bool:
        token = self._peek()
        if token.kind != "punctuation" or token.text != text:
            return False
        self.at += 1
        return True

    def _got(self) -> str:
        text = self._peek().text
        return f', got "{text}"' if text else ", got the end"

    def _fail(self, message: str, column: int | None = None) -> NoReturn:
        column = self._peek().column if column is None else column
        first = max(0, column - 1 - _EXCERPT // 2)
        shown = self.text[first : first + _EXCERPT]
        raise CompileError(
            f"in a use of an encoding: {message}",
            file="<encodings>",
            line=1,
            column=column,
            excerpt=f"  {shown}\n  {' ' * (column - 1 - first)}^",
        )
