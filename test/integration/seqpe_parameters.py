"""Parameters of SeqPE's encoder in a compiled model, as seqpe_model.py calls them."""

PARTS = ("norm1", "norm2", "qkv", "output", "up", "down")


def encoder(params, settings):
    """The encoder's parameters as seqpe_model.py calls them."""
    own = {n.removeprefix("attention.seqpe."): p for n, p in params.items() if n.startswith("attention.")}
    found = {n: own[n] for n in ("token", "place", "cls", "axis") if n in own}
    for ours, theirs in (("norm", "norm"), ("last", "output")):
        found |= {f"{theirs}.{k}": own[f"{ours}_{k}"] for k in ("weight", "bias")}
    for i in range(settings.blocks):
        found |= {f"blocks.{i}.{n}.{k}": own[f"{n}_{k}"][i] for n in PARTS for k in ("weight", "bias")}
    return found
