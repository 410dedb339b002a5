"""TAPE: contextualized equivariant positional encoding (Zhu et al. 2025)."""

from ..claims import Ordering, below, flatter
from ..paper import Method, Paper, Published

# The released gate is the sum of a row of a matrix of heads, which moves by as many steps of
# the optimizer as there are heads, four here.
_GATE = {"groups": ("tape.s: rate=4",)}
# What the weights of the other update do is a product of three of them, which begin at 0.02
# and 0: at the rate of the others, 400 steps of a narrow model leave it so small that losses
# change by 0.004 at most without it.
_FASTER = {"groups": ("tape: rate=4",)}
_TUNED = {"steps": 100, "warmup": 10, "length": "{twice}", "batch": 16, "lr": 5e-4}

PAPER = Paper(
    name="tape",
    title="TAPE: Contextualized Equivariant Positional Encoding",
    source="Zhu et al. 2025, arXiv 2501.00712; numbers: tables of pre-training, of SCROLLS, of Llama-2, and 6",
    about="the released form of the encoding and the paper's, with four gates for each head; models "
    "in the style of Llama, weight decay 0.01; weights of the encoding learn at four times the rate of "
    "the others. Bytes of a text in place of C4 and proof-pile; "
    "fine-tuning goes from the training length to twice of it, and trains the encoding, norms and "
    "embeddings, as the released code does (there attention's update stays 0, here it learns). "
    "xPos's scale_base is twice the training length and FIRE's threshold half of it, as 2048 and "
    "512 are of 1024 there.",
    settings={"style": "llama"},
    methods=(
        Method("none", "NoPE"),
        Method("rope", "RoPE", ("rope",), about="Table 6: none of the updates"),
        Method("alibi", "ALiBi", ("alibi",), cost=1.1),
        Method(
            "randpe",
            "RandPE",
            ("rope",),
            {"max_position": "{twice}", "positions_beyond": "index"},
            cost=1.1,
            about="RoPE of random positions below twice the training length, drawn for each layer, in "
            "evaluations, too; longer blocks have their indices, as in the released code",
        ),
        Method("xpos", "xPos", ("xpos(scale_base={twice})",), cost=1.2),
        Method("fire", "FIRE", ("fire(threshold={half})",), cost=1.15),
        Method("tape", "TAPE", ("tape(hidden={gates})",), _FASTER, cost=1.8, about="both updates"),
        Method(
            "mlp_only",
            "only after the MLP",
            ("tape(hidden={gates}, attention=false)",),
            _FASTER,
            cost=1.6,
        ),
        Method(
            "attention_only",
            "only after attention",
            ("tape(mlp=false)",),
            _GATE,
            cost=1.5,
        ),
        Method(
            "paper_form",
            "TAPE, the paper's form",
            ("tape(form=paper, hidden={gates})",),
            _FASTER,
            cost=2.0,
        ),
        Method(
            "not_equivariant",
            "without equivariance",
            ("tape(form=paper, hidden={gates}, equivariant=false)",),
            _FASTER,
            cost=2.0,
        ),
        Method(
            "no_tensor",
            "without tensors",
            ("tape(form=paper, hidden={gates}, tensor=false)",),
            _FASTER,
            cost=1.8,
        ),
        Method(
            "tuned_rope",
            "RoPE, tuned at 2x",
            ("rope",),
            {**_TUNED, "train": ("norm", "embedding")},
            begins="rope",
            about="norms and embeddings go on learning on blocks of twice the length",
        ),
        Method(
            "tuned_tape",
            "RoPE, tuned at 2x with TAPE",
            ("tape(hidden={gates})",),
            {**_TUNED, **_FASTER, "train": ("tape", "norm", "embedding")},
            begins="rope",
            cost=1.8,
            about="the encoding, norms and embeddings learn on blocks of twice the length",
        ),
    ),
    tables=(
        Published(
            "Table 6, GitHub, train length 1024",
            "perplexity of tokens at that length",
            ("128", "256", "512", "1024"),
            {
                "rope": (139.2, 92.8, 69.3, 57.2),
                "mlp_only": (143.3, 95.0, 70.7, 58.4),
                "attention_only": (142.7, 94.3, 70.1, 57.6),
                "tape": (132.0, 86.6, 63.9, 52.2),
                "no_tensor": (138.4, 91.3, 67.8, 55.7),
                "not_equivariant": (132.9, 87.8, 65.4, 54.1),
            },
        ),
        Published(
            "SCROLLS, tuned for 1000 steps",
            "score of each task, of which more is better",
            ("QAS", "CNLI", "NQA", "QuAL", "QMS", "SumS", "GovR"),
            {
                "rope": (8.39, 65.0, 1.77, 0.04, 6.34, 5.63, 9.71),
                "alibi": (8.25, 69.6, 4.11, 0.0, 9.92, 9.78, 18.81),
                "randpe": (13.44, 62.0, 4.63, 0.38, 8.43, 8.31, 8.93),
                "xpos": (9.02, 71.8, 4.83, 0.24, 10.73, 9.38, 16.38),
                "fire": (3.41, 71.3, 0.48, 1.25),
                "tape": (11.52, 72.8, 6.79, 11.60, 12.42, 10.34, 15.18),
            },
        ),
        Published(
            "Llama-2 tuned from 4096 to 8192, proof-pile",
            "perplexity of tokens at that length; RoPE's row is that of theta scaling",
            ("1024", "2048", "4096", "8192"),
            {
                "tuned_rope": (3.864, 3.415, 3.121, 2.934),
                "tuned_tape": (3.641, 3.196, 2.901, 2.708),
            },
        ),
    ),
    orderings=(
        Ordering(
            "rope",
            "TAPE is no worse than RoPE at 1x (within 0.005), and better at 4x.",
            (*below("tape", "rope", 1, by=-0.005), *below("tape", "rope", 4)),
        ),
        Ordering(
            "both",
            "Both updates together are better than either alone, at 1x.",
            (*below("tape", "mlp_only", 1), *below("tape", "attention_only", 1)),
        ),
        Ordering(
            "each_alone",
            "Each update alone is slightly worse than none, at 1x.",
            (*below("rope", "mlp_only", 1), *below("rope", "attention_only", 1)),
        ),
        Ordering(
            "tensor",
            "At 1x, in the paper's form, tensors are better than none, and equivariance is no loss.",
            (
                *below("paper_form", "no_tensor", 1),
                *below("paper_form", "not_equivariant", 1),
            ),
        ),
        Ordering(
            "tuned",
            "Tuned on twice the length, TAPE is better than RoPE at 1x and at 2x.",
            below("tuned_tape", "tuned_rope", 1, 2),
        ),
        Ordering(
            "flatter",
            "From 1x to 4x TAPE grows less than RoPE.",
            flatter("tape", "rope", 2, 4),
        ),
    ),
)
