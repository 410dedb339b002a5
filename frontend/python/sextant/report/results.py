"""What a run leaves behind, as the report reads it.

A run's folder holds ``checkpoint.safetensors``, ``log.jsonl`` (one object per
logged step) and ``evaluation.json`` (written by `sextant eval`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import RunError
from ..files import replace_file
from ..training.checkpoint import read_metadata

EVALUATION = "evaluation.json"
LOG = "log.jsonl"
CHECKPOINT = "checkpoint.safetensors"
# What a run's provenance names.
_ORIGIN = ("source", "saved", "revision", "extended")


# A length in training lengths: an int where it is whole, else a float. Mappings of one serve
# where those of the other are expected, which no type of both allows.
Multiple: TypeAlias = Any


def multiple_of(length: int, trained: int) -> Multiple:
    return length / trained if length % trained else length // trained


def multiple_name(multiple: Multiple) -> str:
    """For a person: 2x, 2.34x."""
    return f"{multiple}x" if isinstance(multiple, int) else f"{multiple:.3g}x"


class ReportError(RunError):
    """A run's folder lacks what a report needs."""


class NotStoredError(ReportError):
    """A ``result`` that was measured cannot be written."""

    def __init__(self, message: str, result: RunResult | None = None):
        super().__init__(message)  # which is all that a copy in another process is made of first
        self.result = result


@dataclass
class RunResult:
    """One run.

    ``all_tokens`` and ``last_tokens``: loss in nats per byte by multiple of the
    training length, for the two protocols. Of classifiers of images instead ``accuracy``,
    the share of images that are classified rightly, and ``size_losses``, the mean loss in
    nats, by size of the images. ``steps``: (step, training loss), and
    ``seconds``: the time of all steps up to the end of each. ``validation``: (finished
    steps, loss on some of the held-out data) where a training took it.
    ``step_ms``: median time of a training step in milliseconds. ``biases``: by
    layer, an array [heads, distances] of what the encodings add to a score at
    distance 0, 1, ... ``grid_biases``, of patches: by layer, an array [heads, rows, columns] at
    -reach to reach rows and columns before the query. ``adaptive``: what encodings of all heads add to the scores of
    a text (`training.adaptive.adaptive_biases`). ``provenance``: of the training, its
    data (``source`` and, by what it is, the digest ``text`` or ``images``), when it was ``saved``, ``revision`` of
    Sextant, and how it was ``extended``. ``notes``: in what the evaluation differs
    from the training.
    """

    name: str
    config: dict
    all_tokens: dict[Multiple, float] = field(default_factory=dict)
    last_tokens: dict[Multiple, float] = field(default_factory=dict)
    last: int = 64
    accuracy: dict[int, float] = field(default_factory=dict)
    size_losses: dict[int, float] = field(default_factory=dict)
    steps: list[tuple[int, float]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)
    step_ms: float = 0.0
    parameters: int = 0
    biases: list[list[list[float]]] = field(default_factory=list)
    grid_biases: list[list[list[list[float]]]] = field(default_factory=list)
    adaptive: list[dict] = field(default_factory=list)
    provenance: dict = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def data(self) -> str:
        """What the run was trained on: "text" or "images"."""
        return "images" if self.config.get("model") == "vit" else "text"


def evaluation(result: RunResult) -> dict[str, Any]:
    """What is stored of an evaluation, for `from_evaluation`."""
    return {
        "name": result.name,
        "config": result.config,
        "all_tokens": result.all_tokens,
        "last_tokens": result.last_tokens,
        "last": result.last,
        "accuracy": result.accuracy,
        "size_losses": result.size_losses,
        "parameters": result.parameters,
        "biases": result.biases,
        "grid_biases": result.grid_biases,
        "adaptive": result.adaptive,
        "provenance": result.provenance,
        "notes": result.notes,
    }


def write_evaluation(folder: Path, result: RunResult, file: str = EVALUATION) -> None:
    """Writes what `read_run` reads, besides the log; raises `NotStoredError`."""
    text = json.dumps(evaluation(result), allow_nan=False)
    try:
        replace_file(folder / file, text.encode())
    except OSError as error:
        message = f"cannot write {folder / file}: {error.strerror}"
        raise NotStoredError(message, result) from None


def read_run(folder: str | Path, file: str = EVALUATION) -> RunResult:
    """Reads a run's folder, with the evaluation of ``file``; raises `ReportError`."""
    folder = Path(folder)
    path = folder / file
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "is not there"
        raise ReportError(f"{folder} {what}: name the folder of a run")
    try:
        stored = json.loads(path.read_text())
    except OSError as error:
        raise ReportError(
            f"{folder} holds no {file} ({error.strerror}); run "
            f"`sextant eval {folder}` first"
        ) from None
    except ValueError as error:
        raise ReportError(f"{path} is damaged: {error}") from None
    result = from_evaluation(stored, path)
    result.notes = [*result.notes, *_notes_on_age(result, folder)]
    read_log(result, folder)
    return result


def _notes_on_age(result: RunResult, folder: Path) -> list[str]:
    """A note where the run has gone on since its evaluation: its log is of what it is now. A
    folder without checkpoints says nothing, nor does an evaluation that is older than the
    name of what was evaluated."""
    then = result.provenance
    now = read_metadata(folder / then["checkpoint"]) if "checkpoint" in then else {}
    if not now or (now["saved"], int(now["step"])) == (then["saved"], then["step"]):
        return []
    return [
        f"evaluated after step {then['step']}, trained since, to step {now['step']}: the curve of "
        f"its training is of another model than its losses; run `sextant eval {folder}`"
    ]


def from_evaluation(stored: Any, where: Path) -> RunResult:
    """The evaluation that was stored; what it lacks is a `ReportError` that names ``where``."""
    try:
        result = RunResult(
            name=stored["name"],
            config=stored["config"],
            all_tokens=_by_multiple(stored["all_tokens"]),
            last_tokens=_by_multiple(stored["last_tokens"]),
            last=stored["last"],
            # Evaluations may be older than these.
            accuracy={int(k): v for k, v in stored.get("accuracy", {}).items()},
            size_losses={int(k): v for k, v in stored.get("size_losses", {}).items()},
            parameters=stored["parameters"],
            biases=stored["biases"],
            grid_biases=stored.get("grid_biases", []),
            adaptive=stored["adaptive"],
            provenance=stored["provenance"],
            notes=stored["notes"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"{where} lacks {error}") from None
    except ValueError as error:  # of a multiple or a size that is no number
        raise ReportError(f"{where} is damaged: {error}") from None
    for name, known in (
        ("seed", result.config), *((n, result.provenance) for n in (*_ORIGIN, result.data))
    ):  # fmt: skip
        if name not in known:
            raise ReportError(f"{where} lacks {name!r}")
    return result


def _by_multiple(stored: dict[str, float]) -> dict[Multiple, float]:
    return {float(k) if "." in k else int(k): loss for k, loss in stored.items()}


def read_log(result: RunResult, folder: Path) -> None:
    """Takes losses and times of a run from its log. A line cut short by a killed run is left
    out; a step that was run twice counts once."""
    entries: dict[int, dict] = {}
    times = []
    path = folder / LOG
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
            numbers = {name: float(entry[name]) for name in ("loss", "ms")}
            step = int(entry["step"])
        except (ValueError, KeyError, TypeError):
            continue
        entries[step] = {**entry, **numbers, "step": step}
        times.append(numbers["ms"])
    times.sort()
    result.step_ms = times[len(times) // 2] if times else 0.0
    in_order = [entries[step] for step in sorted(entries)]
    result.steps = [(e["step"], e["loss"]) for e in in_order]
    result.seconds = list(accumulate(e["ms"] / 1000 for e in in_order))
    result.validation = [(e["step"] + 1, e["validation"]) for e in in_order if "validation" in e]
