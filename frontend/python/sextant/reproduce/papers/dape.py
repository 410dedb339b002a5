"""DAPE: data-adaptive positional encoding (Zheng et al. 2024)."""

from ..adapted import adapted_biases
from ..claims import Ordering, below, flatter, grows, no_slower, stays
from ..paper import Drawing, Method, Paper, Published
from ..scale import LAST_TOKENS, STEP_TIME

_FIRE = "fire(threshold={eighth})"
_HOSTS = ("alibi", "kerple", "fire")
_LONG = (2, 4, 8, 16)
_ALL = (1, *_LONG)

PAPER = Paper(
    name="dape",
    title="DAPE: Data-Adaptive Positional Encoding",
    source="Zheng et al. 2024, arXiv 2405.14722; numbers: tables of ArXiv and Books3, 125M parameters",
    about="the methods of the paper with its settings of encodings and of Adam (beta 0.9 and 0.95, "
    "weight decay 0.1, clip 1, no dropout); fire's threshold is an eighth of the training length, "
    "as its configurations have it, t5_bias is times the root of the head's width, CoPE has 64 "
    "positions, and Transformer-XL has weights of its own in each layer. Bytes of a text in place "
    "of ArXiv and Books3, a linear decay of the rate in place of a cosine; its losses are of the "
    "last 256 tokens of a block.",
    settings={"beta2": 0.95, "weight_decay": 0.1},
    methods=(
        Method("none", "NoPE"),
        Method("rope", "RoPE", ("rope",)),
        Method("t5", "T5 bias", ("t5_bias(times_sqrt_dim=true)",), cost=1.1),
        Method("alibi", "ALiBi", ("alibi",), cost=1.1),
        Method("kerple", "Kerple", ("kerple_log",), cost=1.1),
        Method("fire", "FIRE", (_FIRE,), cost=1.15),
        Method("cope", "CoPE", ("cope",), cost=1.5),
        Method("transformer_xl", "Transformer-XL", ("transformer_xl",), cost=1.5),
        Method("dape_alibi", "DAPE-ALiBi", ("dape(alibi)",), cost=1.3),
        Method("dape_kerple", "DAPE-Kerple", ("dape(kerple_log)",), cost=1.3),
        Method(
            "dape_fire",
            "DAPE-FIRE",
            ("dape(fire(threshold={eighth}, activation=leaky_relu))",),
            cost=1.4,
            about="FIRE's network has leaky_relu inside DAPE, as in the released code",
        ),
        Method(
            "dape_concat",
            "DAPE-Kerple, concat",
            ("dape(kerple_log, variant=concat)",),
            cost=1.3,
            about="S + f([S; B]), the paper's equation",
        ),
        Method(
            "dape_add",
            "DAPE-Kerple, add",
            ("dape(kerple_log, variant=add_residual)",),
            cost=1.3,
            about="S + B + f(S + B)",
        ),
        Method(
            "dape_bias",
            "DAPE-Kerple, f(B)",
            ("dape(kerple_log, variant=bias_residual)",),
            cost=1.3,
            about="S + B + f(B): adapts to no data",
        ),
        Method(
            "dape_narrow",
            "DAPE-Kerple, D = 4",
            ("dape(kerple_log, hidden=4)",),
            cost=1.2,
            about="4 hidden units in place of 32",
        ),
    ),
    tables=(
        Published(
            "ArXiv, train length 512",
            "perplexity of tokens at that length",
            ("512", "1024", "2048", "4096"),
            {
                "rope": (4.5755, 45.2, 134, 222),
                "t5": (4.5547, 4.373, 12.10, 163.9),
                "alibi": (4.6146, 4.5475, 4.8693, 5.0278),
                "dape_alibi": (4.5262, 4.1921, 4.1068, 4.1315),
                "kerple": (4.5817, 4.3504, 5.4438, 8.7511),
                "dape_kerple": (4.5123, 4.1716, 4.0505, 4.0033),
                "fire": (4.5741, 4.6953, 30.1, 165.5),
                "dape_fire": (4.4879, 4.1990, 4.2826, 4.7983),
            },
            protocol=LAST_TOKENS,
        ),
        Published(
            "Books3, train length 128",
            "perplexity of tokens at that length",
            ("128", "256", "512", "1024", "2048", "4096", "8192"),
            {
                "transformer_xl": (31.57, 28.49, 26.07, 26.98, 27.90, 32.76, 41.12),
                "cope": (31.61, 28.41, 25.79, 27.96, 33.80, 54.08, 90.66),
                "dape_kerple": (31.49, 28.27, 24.93, 24.31, 23.34, 24.38, 25.01),
            },
            protocol=LAST_TOKENS,
        ),
        Published(
            "Books3, train length 512: what f sees",
            "perplexity of tokens at that length",
            ("512", "1024", "2048", "4096", "8192"),
            {
                "kerple": (19.68, 19.06, 20.44, 28.34, 39.31),
                "dape_bias": (19.64, 18.83, 18.49, 20.62, 23.49),
                "dape_kerple": (19.22, 18.22, 17.15, 17.63, 17.88),
            },
            protocol=LAST_TOKENS,
        ),
        Published(
            "ArXiv, train length 512: variants",
            "perplexity of tokens at 8192",
            ("8192",),
            {"dape_kerple": (3.70,), "dape_concat": (3.69,), "dape_add": (3.75,)},
            protocol=LAST_TOKENS,
        ),
    ),
    orderings=(
        Ordering(
            "host",
            "DAPE is below its host at every length: ALiBi, Kerple and FIRE.",
            tuple(c for host in _HOSTS for c in below(f"dape_{host}", host, *_ALL)),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "host_long",
            "Beyond the training length DAPE is below its host.",
            tuple(c for host in _HOSTS for c in below(f"dape_{host}", host, *_LONG)),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "rope_breaks",
            "RoPE breaks at once: at 2x it is worse than at 1x, and worse than every other bias.",
            (*grows("rope", 2, 0.05), *below("alibi", "rope", 2), *below("kerple", "rope", 2)),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "t5_breaks",
            "T5 breaks at 4x to 8x, where Kerple rises less.",
            (*grows("t5", 8, 0.05), *flatter("kerple", "t5", 8)),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "fire_breaks",
            "FIRE with that threshold breaks: from 1x to 8x it grows more than Kerple.",
            flatter("kerple", "fire", 4, 8),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "alibi_flat",
            "ALiBi stays flat.",
            stays("alibi", *_LONG, within=0.03),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "best_host",
            "At 8x and 16x DAPE-Kerple is no worse than DAPE-ALiBi, and that is better than DAPE-FIRE.",
            (
                *below("dape_kerple", "dape_alibi", 8, 16, by=-0.01),
                *below("dape_alibi", "dape_fire", 8, 16),
            ),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "by_content",
            "DAPE-Kerple is below CoPE and Transformer-XL, whose terms read the content, too, at "
            "every length.",
            (*below("dape_kerple", "cope", *_ALL), *below("dape_kerple", "transformer_xl", *_ALL)),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "by_content_breaks",
            "CoPE and Transformer-XL gain to 4x; from there to 16x both lose, CoPE more.",
            (
                *stays("cope", 4, within=0.0),
                *stays("transformer_xl", 4, within=0.0),
                *grows("transformer_xl", 16, 0.0, since=4),
                *flatter("transformer_xl", "cope", 16, since=4),
            ),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "variants",
            "At 16x concat and concat_residual are within 0.02, and below add.",
            (
                *below("dape_concat", "dape_kerple", 16, by=-0.02),
                *below("dape_kerple", "dape_concat", 16, by=-0.02),
                *below("dape_kerple", "dape_add", 16),
                *below("dape_concat", "dape_add", 16),
            ),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "bias_alone",
            "At 8x and 16x f(B) alone is below Kerple, and f(S, B) is below f(B).",
            (*below("dape_bias", "kerple", 8, 16), *below("dape_kerple", "dape_bias", 8, 16)),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "narrow",
            "Four hidden units are enough for a gain over Kerple, at every length.",
            below("dape_narrow", "kerple", *_ALL),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "context",
            "At 2x more context helps ALiBi, T5, Kerple and each DAPE: they are below 1x.",
            tuple(
                c
                for method in ("alibi", "t5", "kerple", *(f"dape_{host}" for host in _HOSTS))
                for c in stays(method, 2, within=0.0)
            ),
            protocol=LAST_TOKENS,
        ),
        Ordering(
            "times",
            "Compiled, steps with any bias of positions take at most 1.1 times as long as with "
            "ALiBi, with DAPE-Kerple at most 1.5 times (the paper has each host slower than "
            "ALiBi).",
            (
                *(c for bias in ("t5", "kerple", "fire") for c in no_slower(bias, "alibi", 1.1)),
                *no_slower("dape_kerple", "alibi", 1.5),
            ),
            protocol=STEP_TIME,
        ),
    ),
    drawings=(
        Drawing(
            "figure_1",
            "Figure 1: what DAPE adds for one query",
            "For one query of the held-out text (--query; by default the last of four training "
            "lengths), in the second layer by head, over the distance of the key: the scores, the "
            "term of the host, and what the network adds to both. The paper draws a query at 8192.",
            "dape_alibi",
            adapted_biases,
            of_query=True,
        ),
    ),
)
