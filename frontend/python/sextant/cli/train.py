"""`sextant train` trains a model."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path

from ..training.config import TrainConfig
from .data import add_data
from .flags import flag

_HELP = {
    "model": "gpt on text, or vit on images",
    "style": "block of the model: gpt2 or llama",
    "gelu": "gelu of a gpt2 block: tanh, GPT-2's approximation, or erf, which is faster on a CPU",
    "dtype": "of what is multiplied, f32 or bf16, for devices that are faster at it; the rest is f32",
    "layers": "number of layers",
    "width": "width of the model",
    "heads": "attention heads",
    "kv_heads": "heads of keys and values (0: as many as heads)",
    "length": "tokens of a training block",
    "batch": "blocks of a step",
    "steps": "training steps",
    "lr": "peak learning rate",
    "warmup": "steps of linear warm-up",
    "final": "learning rate at the end, as a fraction of the peak",
    "residual": "initial weights into the residual stream: scaled or plain",
    "clip": "bound on the global norm of the gradients (0: none)",
    "weight_decay": "decoupled weight decay of matrices: not of biases, norms, and what encodings learn",
    "beta1": "AdamW's decay of the first moment",
    "beta2": "AdamW's decay of the second moment",
    "max_position": "random positions below this (of images rows and columns), in training and evaluation (0: none)",
    "positions_per": "what random positions are drawn for: layer or model",
    "positions_beyond": "what longer sequences of an evaluation have: error, they are refused, or index, "
    "their indices",
    "shift": "probability that a training step has shifted positions",
    "shift_per": "what a shifted step draws a window of positions for: batch or sample",
    "shift_range": "windows have positions below this",
    "shift_windows": "windows that are drawn at the start (0: others at every step)",
    "mask": "what hides later tokens, none where encodings do; prefix has blocks with a prefix "
    "that all see",
    "shared": "layers share the parameters of encodings, as in the papers of T5 and Kerple",
    "validation": "bytes that are held out, and kept in the run (0: the first 64 KiB of the last "
    "5 %% of the text, or of --validation-data); 64 blocks of 16 lengths of 128 are 131073",
    "validate_every": "steps after which the loss on 64 held-out blocks (256 held-out images) is "
    "logged; the step where it is least is kept as best.safetensors (0: never)",
    "seed": "seed of weights and data",
    "size": "side of training images, to which others are resized (0: that of the data)",
    "patch": "side of the patches that are tokens of an image",
    "head": "what the classes are read from: class, a token of its own, or mean, of all tokens",
    "class_position": "position of the class token: origin, (0, 0), or outside, where no patch is; "
    'encodings that would turn it as one then need their option outside, as in "rope_2d(outside=true)"',
    "positions": "positions of patches: grid, row and column, or index, row by row",
    "flip": "probability that left and right of a training image are exchanged",
    "crop": "black margin of training images, of which each is cut out anew",
    "label_smoothing": "share of a target that all classes have",
    "mixup": "training images are mixed in ratios of the beta distribution of this (0: not)",
    "target": "what kernels are compiled for: cpu, cpu:avx2, cpu:avx512, cuda, cuda:sm_80, ...",
}


def add(commands) -> None:
    parser = commands.add_parser(
        "train",
        help="train a GPT on byte text, or a ViT on images",
        description="Trains a GPT on bytes, or a ViT on images (--model vit). A folder that holds "
        "a run goes on with it: settings come from the run, and need not be given again; --steps "
        "may be raised, which extends it. Ctrl-C, SIGTERM and the end of a terminal (unless under "
        "nohup) end after the step at hand and save it.",
    )
    parser.add_argument("folder", help="where the run's files go")
    parser.add_argument(
        "--encodings",
        nargs="*",
        action="extend",
        default=argparse.SUPPRESS,
        metavar="USE",
        help='encodings besides the mask, such as rope or "window(size=64)"; none for NoPE '
        "(default none)",
    )
    add_data(parser, argparse.SUPPRESS, or_images=True)
    parser.add_argument(
        "--validation-data",
        nargs="+",
        action="extend",
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="another text to hold out; the whole of --data is trained on",
    )
    parser.add_argument(
        "--train",
        default=argparse.SUPPRESS,
        metavar="PATTERN,...",
        type=_patterns,
        help="parameters that are trained, the others are frozen: an encoding, or parts of "
        'names such as "fire,embedding,norm,layers.0" (default: all)',
    )
    parser.add_argument(
        "--init",
        default=argparse.SUPPRESS,
        metavar="RUN",
        help="a run whose parameters this one begins with; those of new encodings begin as ever",
    )
    parser.add_argument(
        "--group",
        dest="groups",
        action="append",
        default=argparse.SUPPRESS,
        metavar="PATTERN: SETTING",
        help='settings of the optimizer for some parameters, such as "fire: rate=0.5, decay=0, '
        'clip=5": rate is a factor, decay is that of its matrices, clip bounds their gradients alone; '
        "may be given again, and of several that name a parameter the first counts",
    )
    parser.add_argument(
        "--given",
        action="append",
        default=argparse.SUPPRESS,
        metavar="ENCODING.SETTING=VALUE",
        help="a setting of what makes the tensors that an encoding is given, such as "
        "document.separator=\"#\" or prefix.length=16; may be given several times",
    )
    where = parser.add_mutually_exclusive_group()
    for field in fields(TrainConfig):
        if field.name in _HELP:
            name = flag(field.name)
            if isinstance(field.default, bool):
                parser.add_argument(
                    name, action="store_true", default=argparse.SUPPRESS, help=_HELP[field.name]
                )
                continue
            (where if field.name == "target" else parser).add_argument(
                name,
                type=type(field.default),
                default=argparse.SUPPRESS,
                help=f"{_HELP[field.name]} (default {field.default})",
            )
    where.add_argument(
        "--device",
        dest="target",
        choices=("cpu", "cuda"),
        default=argparse.SUPPRESS,
        help="where the model is trained, by the best target for it; --target names another",
    )
    parser.add_argument(
        "--save-every", type=int, default=100, help="steps between checkpoints (default 100)"
    )
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="write losses, rates and times into event files, RUN/tensorboard, too; needs the "
        "package tensorboard",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="begin anew, in place of the run that the folder holds, with the settings that are "
        "given now: nothing is taken from that run",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check settings, data and encodings, say what would be trained, and stop",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=_train)


def _patterns(text: str) -> list[str]:
    """Of a list with commas; without one, as of a variable that is empty, all would be trained."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise argparse.ArgumentTypeError("it names no parameter; leave it out to train all")
    return found


# Settings that change nothing without another one.
_NEEDS = {
    "shift_per": "shift", "shift_range": "shift", "shift_windows": "shift",
    "positions_per": "max_position", "positions_beyond": "max_position",
}  # fmt: skip


def _check_needs(config: TrainConfig, given: Iterable[str]) -> None:
    """What is given in vain is an error."""
    for name in given:
        needed = _NEEDS.get(name)
        if needed and not getattr(config, needed):
            raise ValueError(f"{flag(name)} changes nothing without {flag(needed)}")
    if "class_position" in given and config.head == "mean":
        raise ValueError("--class-position changes nothing with --head mean: there is no class token")


def _train(options) -> None:
    from ..report.results import CHECKPOINT
    from ..training.log import event_writer
    from ..training.loop import plan, train
    from ..training.state import read_state

    if not options.folder:
        raise ValueError("the folder of the run has an empty name")
    if options.save_every < 1:
        raise ValueError(f"--save-every must be at least 1, got {options.save_every}")
    given = {f.name: getattr(options, f.name) for f in fields(TrainConfig) if f.name in options}
    # A run goes on from anywhere.
    for name in given.keys() & {"data", "validation_data"}:
        given[name] = [os.path.abspath(path) for path in given[name]]
    if "init" in given:
        given["init"] = os.path.abspath(given["init"])
    path = Path(options.folder) / CHECKPOINT
    if options.fresh and not given and path.exists():
        raise ValueError(
            f"--fresh takes nothing from the run in {options.folder}, which it replaces: give the "
            "settings of the new one, such as --encodings and --data"
        )
    resume = not options.fresh and path.exists()
    if resume:
        config = replace(read_state(path).config, **given)
    else:
        config = TrainConfig(**given)
    _check_needs(config, given)
    if options.dry_run:
        if options.tensorboard:
            event_writer()
        print("\n".join(plan(config, options.folder, resume=resume)))
        return
    model = train(
        config,
        options.folder,
        save_every=options.save_every,
        tensorboard=options.tensorboard,
        resume=resume,
        progress=not options.quiet,
    )
    counts = f" {model.size:,} parameters, {model.frozen_size:,} are frozen" if config.train else ""
    print(f"trained{counts}; evaluate with: sextant eval {shlex.quote(options.folder)}")
