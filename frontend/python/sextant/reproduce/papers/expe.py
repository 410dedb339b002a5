"""ExPE: exact positional encodings (Datseris et al. 2025)."""

from ..claims import Claim, Loss, Ordering, below, grows, stays
from ..paper import Method, Paper, Published, Variation

_EXPE = "step={quarter}"

PAPER = Paper(
    name="expe",
    title="ExPE: Exact Positional Encodings",
    source="Datseris et al. 2025, arXiv 2509.19569; numbers: tables 2 and 7, and of the large models",
    about="the methods of the paper with an eighth of the width as channels, start 0, and a step "
    "with which positions run from 0 to 0.25 in the training length, as its 1/2048 for 512 "
    "tokens; AdamW with beta 0.9 and 0.95, weight decay 0.1. Bytes of a text in place of FineWeb, "
    "no dropout, a linear decay of the rate. The paper does not say how it cuts texts; here all "
    "tokens of blocks that do not overlap count.",
    settings={"beta2": 0.95, "weight_decay": 0.1},
    methods=(
        Method("sinusoidal", "sinusoidal", ("sinusoidal",)),
        Method("rope", "RoPE", ("rope",)),
        Method("expe", "ExPE", (f"expe({_EXPE})",)),
        Method("exqpe", "ExQPE", (f"exqpe({_EXPE})",)),
        Method(
            "equal",
            "equal values",
            (f"expe({_EXPE}, values=equal)",),
            about="all channels as the first",
        ),
        Method("one", "one channel", (f"expe({_EXPE}, channels=1)",)),
        Method(
            "learned_default",
            "learned, from the default",
            (f"expe({_EXPE}, values=learned)",),
            about="S and theta are parameters",
        ),
        Method(
            "learned",
            "learned, from a draw",
            ("expe(start=-0.013, step=0.017, values=learned)",),
            about="S and theta begin with a draw of N(0, 0.02), as other parameters do; the paper "
            "does not say how its were drawn",
        ),
        Method("once", "first layer only", (f"expe({_EXPE}, layers=first)",)),
    ),
    variations=(
        Variation("expe_half", "ExPE, times 0.5", "expe", ("expe.scaled=0.5",)),
        Variation("exqpe_half", "ExQPE, times 0.5", "exqpe", ("exqpe.scaled=0.5",)),
    ),
    tables=(
        Published(
            "Table 2, small models",
            "nats per token at multiples of the training length",
            ("1x", "2x", "4x"),
            {
                "sinusoidal": (4.0, 4.75, 5.64),
                "rope": (3.88, 4.37, 5.05),
                "expe": (3.93, 3.87, 3.88),
            },
        ),
        Published(
            "Table 7, ablations of small models",
            "nats per token at multiples of the training length",
            ("1x", "2x", "4x"),
            {
                "expe": (3.93, 3.87, 4.26),
                "equal": (4.26, 4.21, 4.24),
                "one": (4.48, 4.83, 6.01),
                "learned_default": (3.88, 3.82, 4.89),
                "learned": (7.33, 7.34, 7.61),
                "once": (4.43, 4.82, 6.18),
            },
        ),
        Published(
            "Medium models, values times 0.5 in the evaluation",
            "nats per token at multiples of the training length",
            ("1x", "2x", "4x", "8x", "16x"),
            {
                "rope": (2.63, 3.45, 4.55),
                "expe": (2.63, 2.59, 2.71, 5.19, 7.56),
                "expe_half": (2.76, 2.71, 2.68, 2.98, 5.65),
                "exqpe": (2.63, 2.59, 2.68, 5.01, 7.39),
                "exqpe_half": (2.74, 2.69, 2.65, 2.76, 4.98),
            },
        ),
    ),
    orderings=(
        Ordering(
            "flat",
            "ExPE is flat to 4x (within 0.05), where sinusoidal and RoPE break.",
            (
                *stays("expe", 2, 4, within=0.05),
                *grows("sinusoidal", 4, 0.1),
                *grows("rope", 4, 0.1),
            ),
        ),
        Ordering(
            "beyond",
            "At 2x and 4x ExPE and ExQPE are below RoPE and sinusoidal.",
            tuple(
                c
                for one in ("expe", "exqpe")
                for other in ("rope", "sinusoidal")
                for c in below(one, other, 2, 4)
            ),
        ),
        Ordering(
            "equal_at_1x",
            "At 1x ExPE is within 0.05 of RoPE, and below sinusoidal.",
            (*below("expe", "rope", 1, by=-0.05), *below("expe", "sinusoidal", 1)),
        ),
        Ordering("breaks", "By 8x ExPE breaks.", grows("expe", 8, 0.1)),
        Ordering(
            "half",
            "Half of the values lose at 1x, and gain where the whole ones break, at 8x: ExPE and ExQPE.",
            (
                *below("expe", "expe_half", 1),
                *below("expe_half", "expe", 8),
                *below("exqpe", "exqpe_half", 1),
                *below("exqpe_half", "exqpe", 8),
            ),
        ),
        Ordering(
            "one_or_once",
            "One channel, and values in the first layer only, lose to ExPE at 1x, 2x and 4x.",
            (*below("expe", "one", 1, 2, 4), *below("expe", "once", 1, 2, 4)),
        ),
        Ordering(
            "equal_values",
            "Equal values are flat to 4x (within 0.05), and lose to ExPE at 1x.",
            (*stays("equal", 2, 4, within=0.05), *below("expe", "equal", 1)),
        ),
        Ordering(
            "learned",
            "Learned values are no worse than ExPE at 1x and 2x from the default start, and worst of "
            "all from a draw.",
            (
                *below("learned_default", "expe", 1, 2, by=-0.01),
                Claim(Loss("expe", 1), Loss("learned", 1)),
                Claim(Loss("one", 1), Loss("learned", 1)),
            ),
        ),
    ),
)
