"""Definitions of encodings: where they are found, and what they declare.

The compiler reads them; this module gives what it found (`declared`) and remembers it,
since one list of encodings is asked about many times.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import math
import os
import struct
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from . import backend
from .declared import EncodingInfo, Extended, OptionInfo, ParamInfo, Signature
from .errors import CompileError
from .trace.tracer import Encoding
from .uses import Option, Use, parse_use, parse_uses

# What draws an encoding's inputs, beside a definition that has a folder of its own.
SAMPLER = "sampler.py"


EncodingLike = str | Encoding | Use


def listed(encodings: Iterable[EncodingLike]) -> list[str | Encoding]:
    """The encodings of a list, parsed uses as they are spelled; what is none is an error."""
    if isinstance(encodings, (list, tuple)):
        return _spelled(encodings)
    if isinstance(encodings, (str, Encoding, Use)):
        raise TypeError(
            f"encodings is a list, got {type(encodings).__name__}: write [{encodings!s}]"
        )
    if not isinstance(encodings, Iterable):
        raise TypeError(f"encodings is a list, got {type(encodings).__name__}")
    if isinstance(encodings, (Set, Mapping)):
        raise TypeError(
            f"encodings is a list, for its order counts, got {type(encodings).__name__}"
        )
    return _spelled(encodings)


def _spelled(encodings: Iterable[EncodingLike]) -> list[str | Encoding]:
    return [str(each) if isinstance(each, Use) else each for each in encodings]


def split(encodings: Iterable[EncodingLike]) -> tuple[tuple[str, ...], str]:
    """The spellings of a list of encodings, and the definitions that come with
    traced ones."""
    spelled: list[str] = []
    by_name: list[str] = []
    definitions: dict[str, str] = {}
    for encoding in listed(encodings):
        if isinstance(encoding, Encoding):
            spelled.append(encoding.spelling)
            by_name += encoding.hosts
            known = definitions.setdefault(encoding.name, encoding.located)
            if known != encoding.located:
                raise ValueError(
                    f'two traced encodings are called "{encoding.name}"; rename one'
                )
        elif isinstance(encoding, str):
            if not encoding.strip():
                raise ValueError(f"an encoding has a name, got {encoding!r}")
            # One use is one line: calls pass lists of them as lines.
            spelled.append(" ".join(encoding.splitlines()))
            by_name.append(spelled[-1])
        else:
            cure = ""
            if isinstance(encoding, (list, tuple)):
                cure = "; a list of uses holds no lists"
            elif inspect.isfunction(encoding):
                cure = f"; put @sextant.encoding (or mask, rows, ...) before {encoding.__name__}"
            raise TypeError(
                "an encoding is a name or what @sextant.encoding returns, got "
                f"{type(encoding).__name__}{cure}"
            )
    if definitions:
        _check_apart(tuple(definitions), tuple(by_name))
    return tuple(spelled), "".join(definitions.values())


def split_once(encodings: Iterable[EncodingLike]) -> tuple[tuple[str, ...], str]:
    """As `split`, which is asked once about the same names. Not for `torch.compile`, which
    warns of what is remembered."""
    if isinstance(encodings, (list, tuple)) and set(map(type, encodings)) == _NAMES_ALONE:
        return _split_names(tuple(encodings))
    return split(encodings)


_NAMES_ALONE = {str}


@functools.lru_cache(maxsize=1024)
def _split_names(encodings: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    return split(encodings)


def _check_apart(traced: tuple[str, ...], by_name: tuple[str, ...]) -> None:
    """A name means one encoding: where a traced function has the name of an installed
    one, no text of a list (``by_name``) may name that."""
    named = {name for text in by_name for name in _names(parse_use(text))}
    installed = backend.compiler().list_encodings(first_folders()) if named else []
    for name in traced:
        if name in named and name in installed:
            raise CompileError(
                f'"{name}" names a traced function of this list and an installed encoding; '
                "rename the function"
            )


# What `torch.compiler.assume_constant_result` does, which imports PyTorch's compiler.
_check_apart._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _names(use: Use) -> Iterable[str]:
    """The encodings that a use and its hosts name."""
    yield use.encoding
    for host in use.hosts:
        yield from _names(host)


def use_attribute(use: Use) -> str:
    """A use as the ``#pos.use`` attribute."""
    text = f'#pos.use<@{use.encoding}, "{use.instance}"'
    if use.options or use.hosts:
        options = ", ".join(f"{k} = {_attribute(v)}" for k, v in use.options.items())
        text += f", {{{options}}}"
    if use.hosts:
        text += f", [{', '.join(map(use_attribute, use.hosts))}]"
    return text + ">"


def _attribute(value: Option) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i32" if -(2**31) <= value < 2**31 else f"{value} : i64"
    if isinstance(value, float):
        # In f64: what f32 cannot hold is told as it was given.
        bits = struct.pack(">d", value).hex()
        return f"{value:.17e} : f64" if math.isfinite(value) else f"0x{bits} : f64"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


# Folders of definitions that go before all others (`defined`).
_own_folders: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar(
    "_own_folders", default=()
)


class _SearchPath(NamedTuple):
    """Where definitions are looked for: ``first``, separated by colons, is told to the
    compiler, which knows the others; ``folders`` are all of them."""

    first: str
    folders: tuple[str, ...]


def first_folders() -> str:
    """The folders that are searched first, separated by colons: the user's own
    encodings, ``$XDG_DATA_HOME/sextant/encodings``, inside `defined` behind its texts.
    Then come those of ``SEXTANT_PATH``, then the package's own."""
    return _search_path().first


def _search_path() -> _SearchPath:
    """The folders as the environment names them now: asked in every call of an
    attention, so what follows from the same environment is remembered."""
    data, home, listed = backend.surroundings().read_environment(_OF_FOLDERS)
    user = _user_folder(data, home)
    # The compiler speaks of what it is told and finds no folder; this one need not be there.
    first = (*_own_folders.get(), user) if user and os.path.isdir(user) else _own_folders.get()
    return _path_of(first, listed)


_OF_FOLDERS = ("XDG_DATA_HOME", "HOME", "SEXTANT_PATH")


@functools.lru_cache(maxsize=64)
def _user_folder(data: str | None, _home: str | None) -> str | None:
    try:
        return str(Path(data or "~/.local/share").expanduser() / "sextant" / "encodings")
    except RuntimeError:  # a user of a container, who has no home
        return None


@functools.lru_cache(maxsize=64)
def _path_of(first: tuple[str, ...], listed: str | None) -> _SearchPath:
    others = filter(None, (listed or "").split(":"))
    return _SearchPath(":".join(first), (*first, *others, str(backend.PACKAGE / "encodings")))


@contextlib.contextmanager
def defined(
    texts: Mapping[str, str], samplers: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Inside, the names of ``texts`` mean these definitions, beside these ``samplers``, or
    none."""
    with tempfile.TemporaryDirectory(prefix="sextant-definitions-") as folder:
        for name, text in texts.items():
            own = Path(folder) / name
            own.mkdir()
            (own / f"{name}.mlir").write_text(text)
            if samplers and name in samplers:
                (own / SAMPLER).write_text(samplers[name])
        token = _own_folders.set((folder, *_own_folders.get()))
        try:
            yield
        finally:
            _own_folders.reset(token)


def texts(encodings: Iterable[str]) -> dict[str, str]:
    """The definitions that uses name, hosts and what functions use among them, by
    name."""
    found: dict[str, str] = {}
    names = list(_used_names(tuple(encodings)))
    while names:
        if (name := names.pop()) not in found:
            info = describe(name)
            found[name] = info.text
            names += info.uses
    return dict(sorted(found.items()))


def sampler_texts(names: Iterable[str]) -> dict[str, str]:
    """The samplers that lie beside definitions, by name."""
    found = {name: sampler(name) for name in names}
    return {name: path.read_text() for name, path in found.items() if path}


def text_of(name: str) -> str | None:
    """The definition that a name has; None if it has none that can be read."""
    try:
        return describe(name).text
    except CompileError:
        return None


@functools.lru_cache(maxsize=1024)
def _used_names(spelled: tuple[str, ...]) -> tuple[str, ...]:
    """The encodings that uses and their hosts name, each once."""
    names: dict[str, None] = {}

    def add(uses: Iterable[Use]) -> None:
        for use in uses:
            names[use.encoding] = None
            add(use.hosts)

    add(parse_uses(spelled))
    return tuple(names)


class Located(NamedTuple):
    """Uses, the folders that are searched first, and the files that the uses name as they
    are now (path, time, size, number): what the compiler answers for the same is the same."""

    spelled: tuple[str, ...]
    first: str
    files: tuple[tuple, ...]


def locate(spelled: tuple[str, ...]) -> Located:
    """Where uses are defined now. A definition may be edited, or another may come before it
    on the path, at any time."""
    path = _search_path()
    names = _used_names(spelled)
    files = backend.surroundings().find_definitions(path.folders, names) if names else ()
    return Located(spelled, path.first, files)


def sampler(name: str) -> Path | None:
    """The file that draws the inputs of an encoding; None without one. Beside a definition
    that shares its folder with others it would be theirs, too."""
    for version in locate((name,)).files:
        beside = Path(version[0]).with_name(SAMPLER)
        if beside.parent.name == name and beside.is_file():
            return beside.resolve()
    return None


def environment() -> tuple[str | None, ...]:
    """What of the environment compiled programs depend on. ``SEXTANT_CHECK``, what they
    look after besides: with "reads" every read of a definition outside of a parameter is
    an error that names it, with "launches" launches stay apart that are one otherwise.
    ``SEXTANT_CODE``: with "quick" machine code is made in half the time, and runs
    slowly. ``SEXTANT_TARGET``: which target "cpu" is."""
    return backend.surroundings().read_environment(_OF_PROGRAMS)


_OF_PROGRAMS = ("SEXTANT_CHECK", "SEXTANT_CODE", "SEXTANT_TARGET")


def signature(encodings: Iterable[EncodingLike]) -> Signature:
    """Resolves a list of encodings; a `CompileError` names what is wrong."""
    return resolve(*split(encodings))


def of_lines(uses: str) -> tuple[str, ...]:
    """The spellings that an operator is given as one text, a line each."""
    return tuple(uses.split("\n")) if uses else ()


def resolve(spelled: tuple[str, ...], definitions: str) -> Signature:
    """As `signature`, of spellings and definitions; remembered."""
    return resolve_located(locate(spelled), definitions)


@functools.lru_cache(maxsize=1024)
def resolve_located(located: Located, definitions: str) -> Signature:
    """As `resolve`, of uses whose files are known."""
    spelled, first, files = located
    uses = tuple(use_attribute(use) for use in parse_uses(spelled))
    found = backend.compiler().signature(definitions, list(uses), first)
    params = tuple(ParamInfo(**p) for p in found["params"])
    model_params = tuple(ParamInfo(**p) for p in found["model_params"])
    inputs = tuple(
        (name, tuple(None if n < 0 else n for n in dims)) for name, dims in found["inputs"]
    )
    return Signature(
        uses, definitions, params, model_params, frozenset(found["filled"]), inputs,
        tuple(found["input_ranges"].items()), frozenset(found["operands"]), found["turns_rows"],
        found["all_heads"], found["requires_past"], tuple(found["count_heads"]),
        found["computes_with_call"], spelled, files,
    )


def axes(encodings: Iterable[EncodingLike]) -> int:
    """How many axes of positions a list of encodings reads, at least 1."""
    return max(_count_axes(encodings), 1)


def reads_positions(encodings: Iterable[EncodingLike]) -> bool:
    """Whether an encoding of a list reads positions, not indices alone."""
    return _count_axes(encodings) > 0


def _count_axes(encodings: Iterable[EncodingLike]) -> int:
    found = signature(encodings)
    return backend.compiler().count_axes(
        found.definitions, list(found.uses), first_folders()
    )


@functools.lru_cache(maxsize=4096)
def _shapes(signature: Signature, folder: str, extents: tuple[tuple[str, int], ...]):
    return backend.compiler().shapes(
        signature.definitions, list(signature.uses), folder, dict(extents)
    )


_OF_THE_CALL = ("batch", "query", "key")


def shapes(signature: Signature, extents: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Shape of every parameter for given extents (heads, head_dim, batch, ...)."""
    if not signature.params:
        return {}
    asked = extents
    if not signature.computes_with_call:
        # A text that is decoded has another length of keys at each token: what is the same
        # at all of them is asked once.
        asked = extents | dict.fromkeys(_OF_THE_CALL, 1)
    found = _shapes(signature, first_folders(), tuple(sorted(asked.items())))
    return {
        p.name: tuple(
            extents[dim] if dim in _OF_THE_CALL else size
            for size, dim in zip(found[p.name], p.dims)
        )
        for p in signature.params
    }


class InitialValue(NamedTuple):
    """How a parameter starts: ``kind`` is "constant", "normal" or "uniform", of one or two
    ``numbers``, or "values", which are all of its elements."""

    kind: str
    numbers: list[float]
    shape: tuple[int, ...]


def initial_values(
    signature: Signature, names: Sequence[str], extents: dict[str, int]
) -> dict[str, InitialValue]:
    """How parameters start, by name; one that is given at every call is an error."""
    found = backend.compiler().initial_values(
        signature.definitions, list(signature.uses), first_folders(), list(names), extents
    )
    return {
        name: InitialValue(kind, numbers, tuple(shape))
        for name, (kind, numbers, shape) in zip(names, found, strict=True)
    }


def describe(name: str | Encoding) -> EncodingInfo:
    """An encoding by name, or a traced one."""
    if isinstance(name, Encoding):
        return _describe(name.text, name.name, first_folders(), ())
    located = locate((name,))
    return _describe("", name, located.first, located.files)


# A model asks in each layer. The files are what an answer holds for.
@functools.lru_cache(maxsize=256)
def _describe(
    definitions: str, label: str, folders: str, files: tuple[tuple, ...]
) -> EncodingInfo:
    found = backend.compiler().describe(definitions, label, folders)
    options = tuple(
        OptionInfo(
            o["name"], o["type"], _decimal(o["default"]), tuple(o["choices"]), o["range"]
        )
        for o in found.pop("options")
    )
    parameters = tuple(ParamInfo(**p) for p in found.pop("params"))
    for name in ("places", "functions", "states", "inputs", "uses"):
        found[name] = tuple(found[name])
    if found["extends"]:
        found["extends"] = Extended(**found["extends"])
    return EncodingInfo(options=options, parameters=parameters, **found)


def option_values(use: Use) -> dict[str, Option]:
    """The value of every option of a use's encoding; one of f32 is a float however the use
    spells it."""
    found = {}
    for option in describe(use.encoding).options:
        value = use.options.get(option.name, option.default)
        found[option.name] = float(value) if option.type == "f32" else value
    return found


def started(extended: Extended, use: Use) -> Use:
    """The use as which ``use`` starts, whose encoding says what it extends."""
    own = option_values(use)
    handed = {name: own[option] for name, option in extended.handed_on.items()}
    return Use(extended.encoding, extended.encoding, {**extended.options, **handed})


def _decimal(value: Option) -> Option:
    """A number of f32 as the shortest decimal that stands for it: 0.01."""
    if not isinstance(value, float):
        return value
    stored = struct.pack("f", value)
    decimals = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    return next((d for d in decimals if struct.pack("f", d) == stored), value)


def encodings() -> list[EncodingInfo]:
    """All encodings that are installed: the user's, those of ``SEXTANT_PATH``, the
    package's own, sorted by name. One whose file is wrong is left out, with a warning;
    where it is used, that is an error. Models may lie beside encodings."""
    found = []
    for name in backend.compiler().list_encodings(first_folders()):
        try:
            found.append(describe(name))
        except CompileError as error:
            if _may_define(name):
                first = str(error).splitlines()[0]
                warnings.warn(f'encoding "{name}" is left out: {first}', stacklevel=2)
    return found


def _may_define(name: str) -> bool:
    """Whether the file of a name has a definition of any name in it."""
    for folder in _search_path().folders:
        for path in (f"{folder}/{name}.mlir", f"{folder}/{name}/{name}.mlir"):
            try:
                return "pos.encoding" in Path(path).read_text(errors="replace")
            except OSError:
                continue
    return True
