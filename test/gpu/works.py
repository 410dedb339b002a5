"""The attentions that `gpu_bench.py` times: what a kit compiles them of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """An attention of any lengths, with its gradients. `dtypes`: what it is compiled for."""

    uses: tuple[str, ...]
    dtypes: tuple[str, ...] = ("bf16",)
    dim: int = 64
    deterministic: bool = True


BOTH = ("f32", "bf16")
WORKS = {
    "plain": Work(()),
    "plain-128": Work((), dim=128),
    "causal": Work(("causal",), ("f32", "bf16", "f16")),
    "causal-128": Work(("causal",), dim=128),
    "causal-unordered": Work(("causal",), deterministic=False),
    "rope": Work(("causal", "rope")),
    "alibi": Work(("causal", "alibi")),
    "t5_bias": Work(("causal", "t5_bias"), BOTH),
    "kerple_log": Work(("causal", "kerple_log"), BOTH),
    "fire": Work(("causal", "fire")),
    "dape": Work(("causal", "dape(kerple_log)"), BOTH),
    "talking_heads": Work(("causal", "talking_heads")),
}
