"""What `gpu_bench.py` times beside what, and the ratios that are asked for."""

from dataclasses import dataclass

FORWARD, BOTH, STEP = "forward", "forward + backward", "training step"
# The median that is asked for in bf16.
GOALS = {"flash": 0.95, "flex": 1.3, "decode": 1.0}
GOALS_TO_PLAIN = {4096: 0.9, 2048: 0.8}
# Scores of all heads compute more than products: no ratio to plain is asked for.
OF_ALL_HEADS = ("dape", "talking_heads")
# Of a training step in bf16.
GOALS_OF_STEPS = {"alibi": 1.1, "kerple_log": 1.5}


@dataclass(frozen=True)
class Timing:
    """A work of the kit beside a peer. `goal`: the least ratio, if any."""

    peer: str
    direction: str
    goal: float | None = None


def timings_of(name, dtype, length, device):
    """What a work is timed beside."""
    narrow = dtype != "f32"
    if name.startswith(("plain", "causal")):
        goal = GOALS["flash"] if dtype == "bf16" and "unordered" not in name else None
        # What cuDNN is faster at than flash depends on the GPU: a row without a goal.
        peers = {"flash": goal, "cudnn": None} if narrow else {"sdpa": goal}
        return [Timing(p, direction, g) for p, g in peers.items() for direction in (FORWARD, BOTH)]
    found = []
    if narrow:
        goal = None if name in OF_ALL_HEADS else GOALS_TO_PLAIN.get(length)
        found.append(Timing("plain", BOTH, goal))
    if name in ("t5_bias", "kerple_log", "fire") and device != "cpu":
        found.append(Timing("flex", BOTH, GOALS["flex"] if dtype == "bf16" else None))
    if name in ("t5_bias", "kerple_log", "dape"):  # last, since it takes longest
        found.append(Timing("eager", BOTH))
    return found
