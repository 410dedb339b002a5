"""What a call of an attention costs beside its kernel, which takes less than one microsecond."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from rows import Row, Settings
from timing import Rounds

import sextant

SHAPE = (1, 2, 4, 16)
CALLS = 200  # of a round: one of them is shorter than a clock tells apart
USES: tuple[list[str], ...] = ([], ["causal"], ["causal", "alibi"], ["causal", "t5_bias"])


def repeated(call: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(CALLS):
            call()

    return run


def calls(settings: Settings) -> Iterator[Row]:
    """Microseconds of a call of four tokens, alone and with its backward, beside those of
    `scaled_dot_product_attention`."""
    _, heads, _, dim = SHAPE
    for phase in ("forward", "forward + backward"):
        is_recorded = phase != "forward"
        q, k, v = (torch.randn(SHAPE, requires_grad=is_recorded) for _ in range(3))
        gradient = torch.randn(SHAPE)
        for uses in USES:
            work = f"{SHAPE} {', '.join(uses) or 'plain'} {phase}"
            if not settings.wants(work):
                continue
            params = sextant.init_params(
                uses, heads=heads, head_dim=dim, seed=0, requires_grad=is_recorded
            )

            def ours(uses=uses, params=params):
                out = sextant.attention(q, k, v, uses, params)
                if is_recorded:
                    torch.autograd.grad(out, (q, k, v, *params.values()), gradient)

            def torchs():
                out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
                if is_recorded:
                    torch.autograd.grad(out, (q, k, v), gradient)

            rounds = Rounds(
                {"ours": repeated(ours), "torch": repeated(torchs)}, 5 * settings.rounds
            )
            own = sorted(seconds / CALLS * 1e6 for seconds in rounds.seconds["ours"])
            theirs = rounds.median("torch") / CALLS * 1e6
            yield Row(
                "a call of four tokens",
                work,
                settings.threads,
                own[len(own) // 2],
                "us",
                low=own[0],
                high=own[-1],
                note=f"scaled_dot_product_attention {theirs:.1f} us",
            )
