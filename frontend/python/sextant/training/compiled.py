"""What models of every kind have: a compiled program, parameters, optimizer state."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .. import targets
from ..drawn_positions import random_positions
from ..errors import RunError, RuntimeError
from ..program import Program, compile
from .config import TrainConfig
from .samplers import samplers
from .shift import Shift


class ModelError(RunError):
    """Settings of which no model can be trained here."""


class CompiledModel:
    """A model that is trained by its program's ``train_step``.

    ``params``: all parameters by name, frozen ones included. ``state``: the
    optimizer's moments, and ``step`` (counted from 1). Both are on ``device``, that of the
    target, and are updated in place; but ``step`` is on the host, which asks for it in each
    step and would wait for a GPU. ``is_whole``: no step's program failed halfway.
    ``text`` is the model's program, ``file`` what errors call it; ``extents`` are what
    samplers of the encodings ``uses`` are told of a step.
    """

    def __init__(
        self,
        config: TrainConfig,
        text: str,
        file: str,
        uses: tuple[str, ...],
        extents: Mapping[str, int],
    ):
        self.config = config
        _check_device(config.target)
        self.program = compile(text, target=config.target, file=file)
        self.samplers = samplers(uses, extents)
        self.device = torch.device(targets.describe(self.program.manifest["target"])[0])
        drawn = self.program.init_params(config.seed)
        self.params = {name: tensor.to(self.device) for name, tensor in drawn.items()}
        self.state = {}
        for name in self.program.arguments("train_step"):
            if name.endswith((":first_moment", ":second_moment")):
                self.state[name] = torch.zeros_like(self.params[name.rsplit(":", 1)[0]])
        self.state["step"] = torch.tensor(1.0)
        self.is_whole = True
        self.evaluation = torch.Generator().manual_seed(config.seed)
        self.shift: Shift | None = None

    @property
    def size(self) -> int:
        """Number of trained parameters' elements."""
        return sum(
            self.params[name].numel()
            for name, p in self.program.parameters.items()
            if not p["frozen"]
        )

    @property
    def frozen_size(self) -> int:
        """Number of the other parameters' elements."""
        return sum(tensor.numel() for tensor in self.params.values()) - self.size

    def step(self, inputs: torch.Tensor, labels: torch.Tensor, rate: float) -> float:
        """One step of training on a batch; gives its loss, for which it waits."""
        return float(self.start_step(inputs, labels, rate))

    def start_step(self, inputs: torch.Tensor, labels: torch.Tensor, rate: float) -> torch.Tensor:
        """As `step`, but the loss is a tensor on ``device``: a GPU may be computing it."""
        raise NotImplementedError

    def first_positions(self, step: int) -> list | None:
        """Where the positions of a training step begin, if steps differ in it."""
        return None

    def check_farthest(self) -> None:
        """Steps whose positions do not begin at 0 must be possible at the farthest that there
        may be: what fails there is a `ModelError` now, and not after some steps."""
        config = self.config
        if config.max_position:
            first, setting = config.max_position - config.reach, f"max_position {config.max_position}"
        elif self.shift:
            first, setting = self.shift.farthest, f"shift_range {config.shift_range}"
        else:
            return
        reached = f"positions of this training reach {first + config.reach - 1} ({setting})"
        try:
            found = self.run_from(first)
        except RuntimeError as error:
            raise ModelError(f"{reached}: {error}") from None
        if not found.isfinite().all():
            raise ModelError(
                f"{reached}, where losses or logits are {found[~found.isfinite()][0]:g}: a read "
                "outside of a table, say, which SEXTANT_CHECK=reads names"
            )

    def run_from(self, first: int) -> torch.Tensor:
        """Losses or logits of an evaluation of one sample, whose positions begin elsewhere."""
        raise NotImplementedError

    def _train(self, known: Mapping[str, torch.Tensor], rate: float) -> torch.Tensor:
        """One step of training with the tensors of its batch."""
        step = int(self.state["step"])
        inputs = {
            **known,
            "learning_rate": torch.tensor(rate),
            **self.state,
            **self.inputs(self.program, "train_step", step),
            "random.seed": torch.tensor(self.config.seed),
            "random.step": torch.tensor(step),
        }
        self.is_whole = False
        loss = self._start(self.program, "train_step", inputs)[0]
        if self.device.type != "cpu":  # the program counted in a copy
            self.state["step"] += 1
        self.is_whole = True
        return loss

    def _draw(self, step: int) -> torch.Generator:
        """Of the step alone, so that a run that goes on draws what it would have."""
        return torch.Generator().manual_seed((self.config.seed << 32) + step)

    def _random(self, length: int, draw: torch.Generator) -> torch.Tensor:
        """Random positions along an axis; of one that they do not reach what the settings say."""
        most = self.config.max_position
        if length > most and self.config.positions_beyond == "index":
            return torch.arange(length, dtype=torch.int32)
        return random_positions(length, most, draw)

    def inputs(self, program: Program, function: str, step: int) -> dict[str, torch.Tensor]:
        """Inputs of encodings that a function takes, for a step; 0 stands for an evaluation."""
        asked = frozenset(program.arguments(function))
        drawn = [s.draw(asked, self.config.seed, step) for s in self.samplers]
        return {name: tensor for found in drawn for name, tensor in found.items()}

    def run(
        self, program: Program, function: str, known: Mapping[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        """Runs a function where the model is; gives its results on the CPU."""
        return [result.cpu() for result in self._start(program, function, known)]

    def _start(
        self, program: Program, function: str, known: Mapping[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        """As `run`, but results stay where the model is, and nobody waits for them."""
        inputs = [
            self._there(known[name] if name in known else self.params[name])
            for name in program.arguments(function)
        ]
        return program.run(function, inputs)

    def _there(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor where the model is."""
        if self.device.type != "cuda" or tensor.device.type == "cuda":
            return tensor.to(self.device)
        # From other memory of the host CUDA copies while the caller waits.
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def _position_names(self, program: Program, function: str) -> list[str]:
        """Those of the arguments of a function that are positions."""
        layers = (f"layers.{layer}.positions" for layer in range(self.config.layers))
        known = {"positions", "embedding.positions", *layers}
        return [n for n in program.arguments(function) if n in known]

    def encoding_params(self, layer: int) -> dict[str, torch.Tensor]:
        """Parameters of a layer's encodings by public name, on the CPU, as
        `sextant.attention` takes them."""
        found = {}
        for prefix in ("attention.", f"layers.{layer}.attention."):
            for name, tensor in self.params.items():
                if name.startswith(prefix):
                    found[name[len(prefix) :]] = tensor.cpu()
        return found


def _check_device(target: str) -> None:
    """A run that was trained on a GPU can be read where there is none, and evaluated with
    another target: what PyTorch says of its device names no cure."""
    device = "cuda" if target == "cuda" else targets.describe(target)[0]
    if device == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            f'target "{target}" runs on a GPU, and PyTorch finds none here: take another one, as '
            "with --target cpu"
        )
