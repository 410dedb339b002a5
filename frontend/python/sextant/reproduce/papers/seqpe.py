"""SeqPE: sequential position encoding (Li et al. 2025), on text."""

from functools import partial

from ..claims import Ordering, below, flatter, grows, stays, within
from ..gram import gram_matrices
from ..paper import Drawing, Method, Paper, Published

# A quarter of the paper's pivots and windows, of half as many positions each.
_PLACED = "digits={digits}, deviation={deviation_of_768}"
_BELOW = "max_position={beyond}"
_DELTA = "pivots=8, candidates=16"
_OOD = "windows=8, offsets=16"
_SHIFT = {"shift": 0.1, "shift_range": "{beyond}"}
# As the paper's script: gradients of the encoder are clipped apart from those of the model.
_ENCODER = {"groups": ("seqpe: clip=5, decay=0",)}


def _seqpe(alpha: float, beta: float) -> tuple[str, ...]:
    """With the samples of the losses that it has."""
    options = [_PLACED, f"alpha={alpha}", f"beta={beta}"]
    options += [_BELOW] if alpha or beta else []
    options += [_DELTA] if alpha else []
    options += [_OOD] if beta else []
    return (f"seqpe({', '.join(options)})",)


def _gram(method: str, what: str) -> Drawing:
    return Drawing(
        f"gram_{method}",
        f"Figures 2 and 3: products of rows, {what}",
        "Products of the embeddings that the encoder makes of positions, which its losses are of; "
        "and of the rows that attention takes, eq of the row's and ek of the column's position, "
        "summed over the heads and of each. Dashed: the training length. Stripes: the height of "
        "waves of 10 or 100 over the distance of two positions, in deviations of all products.",
        method,
        partial(gram_matrices, embedded=("seqpe.projection=none",)),
    )


PAPER = Paper(
    name="seqpe",
    title="SeqPE: Sequential Position Encoding",
    source="Li et al. 2025, arXiv 2506.13277; numbers: Table I and its ablation",
    about="the methods of the paper with its settings: alibi times the scale of attention, learned "
    "rows stretched linearly beyond the training length, seqpe as columns of queries and keys "
    "(bias) with both losses, shifted windows in a tenth of the steps, gradients of the encoder "
    "clipped by themselves. The encoder has the width of the model, initial weights with which its "
    "rows begin as large as the paper's, and a quarter of the paper's pivots and windows of half "
    "as many positions, below twice the longest length. Bytes of a text in place of tokens of "
    "WikiText-103; no dropout in the model.",
    settings={"weight_decay": 0.0, "beta2": 0.999},
    methods=(
        Method("none", "NoPE"),
        Method("sinusoidal", "sinusoidal", ("sinusoidal",)),
        Method(
            "learned", "learned, interpolated", ("learned(rows={length}, train_length={length})",)
        ),
        Method("rope_1e4", "RoPE, base 1e4", ("rope",)),
        Method("rope_1e6", "RoPE, base 1e6", ("rope(base=1000000.0)",)),
        Method("rope_1e8", "RoPE, base 1e8", ("rope(base=100000000.0)",)),
        Method("alibi", "ALiBi", ("alibi(scaled=true)",), cost=1.1),
        Method("seqpe", "SeqPE", _seqpe(0.1, 0.1), {**_SHIFT, **_ENCODER}, cost=1.6),
        Method("seqpe_delta", "SeqPE (0.1, 0)", _seqpe(0.1, 0.0), {**_SHIFT, **_ENCODER}, cost=1.5),
        Method("seqpe_ood", "SeqPE (0, 0.1)", _seqpe(0.0, 0.1), {**_SHIFT, **_ENCODER}, cost=1.5),
        Method("seqpe_none", "SeqPE (0, 0)", _seqpe(0.0, 0.0), {**_SHIFT, **_ENCODER}, cost=1.4),
        Method(
            "seqpe_unshifted",
            "SeqPE without shifts",
            _seqpe(0.1, 0.1),
            _ENCODER,
            cost=1.5,
            about="positions of every step begin with 0",
        ),
    ),
    tables=(
        Published(
            "Table I, WikiText-103, train length 512",
            "perplexity of tokens at that length",
            ("512", "1K", "2K", "4K", "8K"),
            {
                "none": (20.40, 34.98, 116, 290, 536),
                "sinusoidal": (23.37, 77.9, 629, 2.3e3, 5.0e3),
                "learned": (20.30, 21.36, 37.7, 86.9, 152.5),
                "rope_1e4": (19.44, 35.25, 113, 252, 478),
                "rope_1e6": (19.46, 30.18, 92.0, 201.6, 332),
                "rope_1e8": (19.42, 42.92, 144.7, 341, 541),
                "alibi": (20.06, 19.06, 18.65, 18.72, 19.36),
                "seqpe": (19.65, 18.74, 18.51, 18.58, 18.86),
            },
        ),
        Published(
            "Ablation of (alpha, beta)",
            "perplexity of tokens at that length",
            ("512", "1K", "2K", "4K"),
            {
                "seqpe_none": (19.57, 23.57, 60.5, 125),
                "seqpe_delta": (19.62, 18.78, 18.56, 18.62),
                "seqpe_ood": (19.57, 33.8, 104, 205),
                "seqpe": (19.65, 18.74, 18.51, 18.58),
            },
        ),
    ),
    orderings=(
        Ordering(
            "both_flatter",
            "SeqPE with both losses is flatter than with none, at 4x and beyond.",
            flatter("seqpe", "seqpe_none", 4, 8, 16),
        ),
        Ordering(
            "delta",
            "The first loss alone carries the extrapolation: it is flatter than none at 4x and "
            "beyond, and both are within 0.05 of it.",
            (
                *flatter("seqpe_delta", "seqpe_none", 4, 8, 16),
                *below("seqpe", "seqpe_delta", 4, 8, by=-0.05),
                *below("seqpe_delta", "seqpe", 4, 8, by=-0.05),
            ),
        ),
        Ordering(
            "ood",
            "The second loss alone is worse than none at 2x, 4x and 8x.",
            below("seqpe_none", "seqpe_ood", 2, 4, 8),
        ),
        Ordering(
            "improves",
            "SeqPE and ALiBi do not lose to 8x (within 0.03), where RoPE and sinusoidal break.",
            (
                *stays("seqpe", 2, 4, 8, within=0.03),
                *stays("alibi", 2, 4, 8, within=0.03),
                *grows("rope_1e4", 4, 0.1),
                *grows("sinusoidal", 4, 0.1),
            ),
        ),
        Ordering(
            "best",
            "SeqPE is below ALiBi at every length.",
            below("seqpe", "alibi", 1, 2, 4, 8, 16),
        ),
        Ordering(
            "at_1x",
            "At 1x RoPE is best, SeqPE next, then ALiBi, and sinusoidal is worst.",
            (
                *below("rope_1e4", "seqpe", 1),
                *below("seqpe", "alibi", 1),
                *below("alibi", "sinusoidal", 1),
                *below("none", "sinusoidal", 1),
                *below("learned", "sinusoidal", 1),
            ),
        ),
        Ordering(
            "damage",
            "From 1x to 2x the damage is greatest for sinusoidal, then RoPE with base 1e8, 1e4, 1e6.",
            (
                *flatter("rope_1e8", "sinusoidal", 2),
                *flatter("rope_1e4", "rope_1e8", 2),
                *flatter("rope_1e6", "rope_1e4", 2),
            ),
        ),
        Ordering(
            "damage_none",
            "From 1x to 2x the damage of NoPE is that of RoPE with base 1e4 (within 0.1), less than "
            "with 1e8, more than with 1e6.",
            (
                *within("none", "rope_1e4", 2, 0.1),
                *flatter("none", "rope_1e8", 2),
                *flatter("rope_1e6", "none", 2),
            ),
        ),
        Ordering(
            "learned",
            "Interpolated learned rows lose little at 2x: less than RoPE, and at most 0.1.",
            (*flatter("learned", "rope_1e4", 2), *stays("learned", 2, within=0.1)),
        ),
        Ordering(
            "shift",
            "With shifted windows SeqPE is flatter than without, at 4x and beyond (not in the paper's tables).",
            flatter("seqpe", "seqpe_unshifted", 4, 8, 16),
        ),
    ),
    drawings=(
        _gram("seqpe", "with both losses"),
        _gram("seqpe_delta", "with the first loss"),
        _gram("seqpe_ood", "with the second loss"),
        _gram("seqpe_none", "without losses"),
    ),
)
