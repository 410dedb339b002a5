"""`sextant.compile`: a module's text to a program that runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import torch

from . import backend, definitions, targets
from .checks import check_seed
from .errors import nearest
from .files import read_file, replace_file
from .tensor_checks import check_tensor


class Program:
    """A compiled program.

    Attributes: ``manifest`` (what the artifact says of itself: functions with
    their arguments and results, parameters with their initial values),
    ``functions`` (names), ``parameters`` (those of the manifest, by name), ``artifact``
    (bytes of the .sxt file).
    """

    def __init__(self, artifact: bytes):
        self.artifact = artifact
        self._loaded = backend.Artifact(artifact)
        self.manifest = json.loads(self._loaded.manifest())
        self._functions = {f["name"]: f for f in self.manifest["functions"]}
        self._changed: dict[str, list[int]] = {}
        self.parameters = {p["name"]: p for p in self.manifest["parameters"]}

    def __reduce__(self):
        # Copies and other processes load the code anew.
        return Program, (self.artifact,)

    @property
    def functions(self) -> list[str]:
        """Names of the functions that `run` takes."""
        return list(self._functions)

    def arguments(self, function: str) -> list[str]:
        """Names of a function's arguments, in order."""
        return [a["name"] for a in self._find(function)["arguments"]]

    def results(self, function: str) -> list[str]:
        """Names of a function's results, in order."""
        return [r["name"] for r in self._find(function)["results"]]

    def _find(self, function: str) -> dict:
        if function not in self._functions:
            raise ValueError(
                f'the program has no function "{function}"'
                f"{nearest(function, self._functions)}"
            )
        return self._functions[function]

    def run(
        self,
        function: str,
        inputs: Sequence[torch.Tensor] | Mapping[str, torch.Tensor],
    ) -> list[torch.Tensor]:
        """Runs a function on tensors in the order of its arguments, or by name. PyTorch has
        no derivative of it, and a ``backward`` through its results is an error: gradients are
        results of the function ``gradients``. Arguments that the function changes in place
        count as changed for PyTorch's autograd."""
        ordered = self._order(function, inputs)
        results = self._run(self._loaded.run, function, ordered)
        if torch.is_grad_enabled() and any(t.requires_grad for t in ordered):
            return [_Underivable.apply(function, result, *ordered) for result in results]
        return results

    def _run(self, call, function: str, tensors: list[torch.Tensor]):
        """Calls the runtime's ``run`` or ``profile``. Autograd does not see what is changed in
        place there, so it is told: otherwise a backward through what was changed since its
        forward is wrong in silence, not an error."""
        if function not in self._changed:
            numbers = self._loaded.changed(function, tensors[0]) if tensors else []
            self._changed[function] = numbers
        try:
            with torch.no_grad():
                return call(function, tensors)
        finally:  # a step that fails may have changed some
            changed = [tensors[i] for i in self._changed[function]]
            # A tensor of inference mode has no version, and no graph can have saved it.
            counted = [t for t in changed if not t.is_inference()]
            torch.autograd.graph.increment_version(counted)

    def train_step(
        self, inputs: Sequence[torch.Tensor] | Mapping[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        """Runs the function ``train_step``: gives its results, the loss first. Parameters
        and moments are changed in place, so they must be contiguous and share no
        memory."""
        with torch.no_grad():
            return self.run("train_step", inputs)

    def profile(
        self,
        function: str,
        inputs: Sequence[torch.Tensor] | Mapping[str, torch.Tensor],
    ) -> tuple[list[torch.Tensor], list[dict]]:
        """As `run`, with what each instruction took: ``kind``, ``name``, ``label``,
        ``ns``, and ``flops`` and ``bytes`` where they are known."""
        results, text = self._run(self._loaded.profile, function, self._order(function, inputs))
        return results, json.loads(text)

    def _order(self, function: str, inputs) -> list[torch.Tensor]:
        names = self.arguments(function)
        if not isinstance(inputs, Mapping):
            # A tensor is a sequence, too.
            if isinstance(inputs, torch.Tensor) or not isinstance(inputs, Iterable):
                raise TypeError(
                    "inputs must be a list of tensors or map names to tensors, got "
                    f"{type(inputs).__name__}"
                )
            inputs = list(inputs)
            if len(inputs) != len(names):
                raise ValueError(
                    f'function "{function}" takes {len(names)} arguments '
                    f"({', '.join(names)}), got {len(inputs)}"
                )
            for name, tensor in zip(names, inputs):
                check_tensor(name, tensor)
            return inputs
        for name in inputs:
            if name not in names:
                raise ValueError(
                    f'function "{function}" has no argument "{name}"'
                    f"{nearest(name, names)}"
                )
        missing = [name for name in names if name not in inputs]
        if missing:
            raise ValueError(
                f'function "{function}" needs {", ".join(missing[:4])}'
                + (" ..." if len(missing) > 4 else "")
            )
        for name in names:
            check_tensor(name, inputs[name])
        return [inputs[name] for name in names]

    def init_params(self, seed: int = 0) -> dict[str, torch.Tensor]:
        """Initial values of all parameters that have one, by name."""
        check_seed(seed)
        return {
            name: self._loaded.initialize(name, seed)
            for name, p in self.parameters.items()
            if p["init"] != "given" or p["has_values"]
        }

    def save(self, path) -> None:
        """Writes the artifact to a file, whole or not at all."""
        replace_file(path, self.artifact)


class _Underivable(torch.autograd.Function):
    """A result of ``function`` of some tensors, whose gradients are asked for by mistake:
    PyTorch's own answer is a warning, and none."""

    @staticmethod
    def forward(ctx, function: str, result: torch.Tensor, *_tensors: torch.Tensor):
        ctx.function = function
        return result.view_as(result)

    @staticmethod
    def backward(ctx, *_gradients):
        raise NotImplementedError(
            f'PyTorch has no derivative of the program\'s function "{ctx.function}": run its '
            'function "gradients", whose results are those of the loss, or "train_step"'
        )


def compile(text: str, *, target: str = "cpu", file: str = "<text>") -> Program:
    """Compiles a module of `nn` and `pos` ops to a program.

    ``text``: MLIR, as the builders of `sextant.models` print it. ``target``: as in
    `sextant.attention`; the program runs on tensors of its device. Several with commas
    between them, as in ``"cpu:avx2,cuda:sm_80"``, make a program that runs on tensors of
    each device, by the first that fits. ``file``: its name in errors. Raises
    `CompileError` with the place of the mistake.
    """
    _check_text(text)
    return Program(
        backend.compiler().compile(
            text, _resolve(target), definitions.first_folders(), "artifact", file
        )
    )


def _check_text(text) -> None:
    is_text = isinstance(text, str)
    if is_text and ("\n" in text or not text.endswith(".mlir")):
        return
    what = f'"{text}", the name of a file' if is_text else type(text).__name__
    raise TypeError(f"a module is given as its text, got {what}: pathlib.Path(...).read_text() reads one")


def _resolve(target: str) -> str:
    """A program has no tensors to follow: "cuda" is the best target for the current GPU."""
    return ",".join(
        targets.resolve(name, torch.device("cuda" if name == "cuda" else "cpu"))
        for name in target.split(",")
    )


def emit(text: str, stage: str, *, target: str = "cpu", file: str = "<text>") -> str:
    """The text of a stage of compilation: "pos", "exec", "kernel", "llvm" or
    "asm"."""
    _check_text(text)
    return backend.compiler().compile(
        text, _resolve(target), definitions.first_folders(), stage, file
    )


def load(path) -> Program:
    """A program from a .sxt file, which runs the file's machine code: load what you
    would run."""
    return Program(read_file(path))
