"""SeqPE: sequential position encoding (Li et al. 2025), on images."""

from ..claims import Ordering, below, flatter
from ..paper import Method, Paper, Published
from ..scales import IMAGES

# The code of images: two coordinates of two digits, one projection for each layer. A quarter
# of the paper's windows, of half as many positions each.
_PLACED = "axes=2, digits=2, projection=multi, deviation={deviation_of_384}"
_BELOW = "max_position=100, sampling=image"
_DELTA = "pivots=8, candidates=16"
_OOD = "windows=8, offsets=16"
# Attention begins nearly even where rows multiply scores, and moves with the encoder: with the
# rate of the other weights 400 steps leave it there (`docs/reproductions`).
_ENCODER = {"groups": ("seqpe: clip=5, decay=0, rate=4",)}


def _seqpe(form: str, alpha: float = 0.1, beta: float = 0.1) -> tuple[str, ...]:
    """With the samples of the losses that it has."""
    options = [f"form={form}", _PLACED, f"alpha={alpha}", f"beta={beta}"]
    options += [_BELOW] if alpha or beta else []
    options += [_DELTA] if alpha else []
    options += [_OOD] if beta else []
    return (f"seqpe({', '.join(options)})",)


def _errors(*accuracies: float) -> tuple[float, ...]:
    """In %, of top-1 accuracies."""
    return tuple(round(100 - accuracy, 1) for accuracy in accuracies)


_GRID = "rows={cells}, grid_rows={side}, grid_columns={side}"

PAPER = Paper(
    name="seqpe_images",
    title="SeqPE: Sequential Position Encoding, on images",
    source="Li et al. 2025, arXiv 2506.13277; numbers: Table III, integrations and the ablation on "
    "ImageNet, as errors",
    about="vision transformers with a class token at the origin of the grid, weight decay 0.05 but "
    "for the encoder, whose gradients are clipped by themselves and whose rate is four times that "
    "of the rest; seqpe with a projection for each layer, initial weights with which its rows "
    "begin as large as the paper's, and the image code's samples, a quarter of its windows of half "
    "as many positions. Small images in place of ImageNet at 224, evaluated at the same multiples "
    "of the training size up to two; no augmentation but what the data has, no dropout in the "
    "model.",
    settings={"weight_decay": 0.05, "lr": 1e-3},
    methods=(
        Method("none", "NoPE"),
        Method(
            "sinusoidal",
            "sinusoidal",
            ("sinusoidal",),
            {"positions": "index"},
            about="of the index of a patch, row by row",
        ),
        Method("learned", "learned, interpolated", (f"learned({_GRID})",)),
        Method("rope_2d", "RoPE 2D", ("rope_2d",)),
        Method("rope_2d_mixed", "RoPE mixed", ("rope_2d_mixed",), cost=1.1),
        Method("mul", "SeqPE, mul", _seqpe("mul"), _ENCODER, cost=1.6),
        Method("bias", "SeqPE, bias", _seqpe("bias"), _ENCODER, cost=1.6),
        Method("sum", "SeqPE, sum", _seqpe("sum"), _ENCODER, cost=1.6),
        Method("mul_delta", "SeqPE, mul (0.1, 0)", _seqpe("mul", beta=0.0), _ENCODER, cost=1.5),
        Method("mul_ood", "SeqPE, mul (0, 0.1)", _seqpe("mul", alpha=0.0), _ENCODER, cost=1.5),
        Method("mul_none", "SeqPE, mul (0, 0)", _seqpe("mul", 0.0, 0.0), _ENCODER, cost=1.4),
    ),
    tables=(
        Published(
            "Table III, ImageNet, ViT-S/16 trained at 224",
            "top-1 error in %",
            ("224", "320", "384", "448"),
            {
                "none": _errors(78.8, 79.2, 78.5, 77.3),
                "sinusoidal": _errors(80.9, 50.3, 33.3, 32.4),
                "learned": _errors(80.4, 80.6, 79.4, 77.6),
                "rope_2d": _errors(80.9, 81.5, 80.0, 78.2),
                "rope_2d_mixed": _errors(80.9, 82.2, 81.8, 80.9),
                "mul": _errors(81.2, 81.8, 81.7, 81.2),
            },
        ),
        Published(
            "Forms",
            "top-1 error in %",
            ("224", "320", "384", "448"),
            {
                "sum": _errors(80.9, 80.8, 79.8, 78.5),
                "bias": _errors(80.8, 80.9, 80.1, 79.2),
                "mul": _errors(81.2, 81.8, 81.7, 81.2),
            },
        ),
        Published(
            "Ablation of (alpha, beta)",
            "top-1 error in %",
            ("224", "320", "384", "448"),
            {
                "mul_none": _errors(81.1, 81.2, 79.7, 77.1),
                "mul_delta": _errors(81.0, 81.2, 80.7, 80.0),
                "mul_ood": _errors(81.3, 81.3, 79.3, 76.1),
                "mul": _errors(81.2, 81.8, 81.7, 80.5),
            },
        ),
    ),
    orderings=(
        Ordering(
            "forms",
            "At twice the training size mul is above bias, and that above sum.",
            (*below("mul", "bias", 56), *below("bias", "sum", 56)),
        ),
        Ordering(
            "best",
            "At twice the training size SeqPE is above all others.",
            tuple(
                c
                for other in ("none", "sinusoidal", "learned", "rope_2d", "rope_2d_mixed")
                for c in below("mul", other, 56)
            ),
        ),
        Ordering(
            "sinusoidal_breaks",
            "Sinusoids lose more than all others beyond the training size.",
            tuple(
                c
                for other in ("none", "learned", "rope_2d", "mul")
                for c in flatter(other, "sinusoidal", 40, 48, 56, since=28)
            ),
        ),
        Ordering(
            "mixed",
            "Learned frequencies are above fixed ones at twice the training size.",
            below("rope_2d_mixed", "rope_2d", 56),
        ),
        Ordering(
            "losses",
            "At twice the training size both losses are above either alone; the first alone is "
            "above none, the second is not.",
            (
                *below("mul", "mul_delta", 56),
                *below("mul", "mul_ood", 56),
                *below("mul_delta", "mul_none", 56),
                *below("mul_none", "mul_ood", 56),
            ),
        ),
    ),
    scales=IMAGES,
)
