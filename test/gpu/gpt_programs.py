"""The models whose training steps a kit checks and times: what it compiles of them."""

import dataclasses

import torch

import sextant
from sextant.models import gpt
from sextant.training.samplers import samplers

# Longer than a tile. An epsilon well above the rounding of gradients that are zero in exact
# arithmetic, which AdamW would else make steps of.
SHAPE = dict(batch=2, length=70, vocabulary=256)
# Of a GPU more than 3072 tokens, whose gradients ATen adds up in another way than fewer.
BATCH_OF_GPU = 45
SMALL = dict(layers=2, width=64, heads=2, vocabulary=SHAPE["vocabulary"], adam_epsilon=1e-4)
# Rows of embeddings and a table; turned rows and positions that a transformer reads, each apart
# or what they share once.
PROGRAMS = {
    "gpt-learned": ("causal", "learned(rows=64)", "t5_bias"),
    "gpt-seqpe-apart": ("causal", "rope", "seqpe(tree=false, dropout=0.0, pivots=8, candidates=4)"),
    "gpt-seqpe": ("causal", "rope", "seqpe(dropout=0.0, pivots=8, candidates=4)"),
}
# The operator of a step that waits for a GPU, since sizes of its results depend on data.
WAITING = {"gpt-seqpe": "aten::_unique2"}
STEPS = 2
# Whose training step is timed, on bytes, in each of these types.
TRAININGS = {
    f"gpt-{encoding}-{dtype}": (encoding, dtype)
    for dtype in ("bf16", "f32")
    for encoding in ("alibi", "kerple_log")
}
LARGE = dict(layers=12, width=768, heads=12)


def image_of(text: str, target: str) -> torch.Tensor:
    """A compiled program."""
    data = sextant.compile(text, target=target).artifact
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def text_of(uses: tuple[str, ...]) -> str:
    """A small model."""
    return gpt.build(gpt.Config(encodings=uses, **SMALL))


def make_program(name: str, host: str, target: str) -> dict:
    """A model for the CPU and for the GPU, and what its encodings draw for each step."""
    uses = PROGRAMS[name]
    text = text_of(uses)
    shape = SHAPE | ({"batch": BATCH_OF_GPU} if target.startswith("cuda:") else {})
    programs = {t: image_of(text, t) for t in (host, target)}
    asked = frozenset(sextant.compile(text, target=host).arguments("train_step"))
    drawing = samplers(uses, {"query": shape["length"], "batch": shape["batch"]})
    given = [
        {n: t for s in drawing for n, t in s.draw(asked, seed=1, step=step).items()}
        for step in range(1, STEPS + 1)
    ]
    return {
        "kind": "program",
        "host": host,
        "shape": shape,
        "programs": programs,
        "given": given,
        "waiting": WAITING.get(name),
    }


def config_of(encoding: str, dtype: str, sizes: dict[str, int]) -> gpt.Config:
    """A model to be trained."""
    return gpt.Config(encodings=("causal", encoding), dtype=dtype, **sizes)


def texts() -> list[str]:
    """All models of a kit."""
    large = (gpt.build(config_of(*training, LARGE)) for training in TRAININGS.values())
    return [*map(text_of, PROGRAMS.values()), *large]


def make_training(name: str, sizes: dict[str, int], target: str) -> dict:
    """A model to be trained, without its parameters, and its settings."""
    encoding, dtype = TRAININGS[name]
    config = config_of(encoding, dtype, sizes)
    settings = dataclasses.asdict(config)
    del settings["encodings"]  # whose own types no machine with a kit has
    return {
        "kind": "training",
        "encoding": encoding,
        "settings": settings,
        "program": image_of(gpt.build(config), target),
    }
