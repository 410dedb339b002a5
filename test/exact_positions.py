"""ExPE and ExQPE (Datseris et al. 2025) in plain PyTorch, written from the paper, for
tests to compare with. Nothing here is shared with Sextant.

x is the input [..., L, C] of a projection, in the dtype in which all is computed.
"""

import torch


def expe(x, coords=None, channels=-1, start=0.0, step=1 / 2048, scaled=1.0, values="exact", s=None, theta=None):
    """``coords`` [L] or [B, L] in place of 0, 1, ...; ``s`` and ``theta`` are the
    parameters of learned values."""
    count = _lanes(x, channels)
    n = _coords(x, coords)
    if values == "learned":
        start, step = s, theta
    lane = torch.zeros(count).to(n) if values == "equal" else torch.arange(count).to(n)
    return _overwritten(x, scaled * (start + step * (n[..., None] + lane)))


def exqpe(
    x, coords=None, channels=-1, start=0.0, step=1 / 2048, increment=1 / 16, scaled=1.0, values="exact",
    s=None, theta1=None, theta2=None,
):  # fmt: skip
    """As the paper builds it: one position after the other, each adds to one entry."""
    count = _lanes(x, channels)
    n = _coords(x, coords)
    if values == "learned":
        start, step, increment = s, theta1, theta2
    # Row m + 1 counts the increments of each entry at position m.
    counts = torch.zeros(int(n.max()) + 2 if n.numel() else 1, count, dtype=x.dtype)
    for m in range(len(counts) - 1):
        counts[m + 1] = counts[m]
        counts[m + 1, m % count] += 1
    counts = counts[n.long() + 1]
    return _overwritten(x, scaled * (start + step * torch.arange(count).to(n) + increment * counts))


def folded(weight, x, channels, start, step):
    """Projections of expe's input, without it: lanes that hold no position times the
    rest of the matrix, plus what is affine in the position."""
    held, rest = weight[:, :channels], weight[:, channels:]
    n = _coords(x, None)
    slope = step * held.sum(1)
    origin = start * held.sum(1) + step * held @ torch.arange(channels, dtype=x.dtype)
    return x[..., channels:] @ rest.T + n[:, None] * slope + origin


def _lanes(x, channels):
    return x.shape[-1] // 8 if channels == -1 else channels


def _coords(x, coords):
    return (torch.arange(x.shape[-2]) if coords is None else coords).to(x.dtype)


def _overwritten(x, values):
    count = values.shape[-1]
    values = values.expand(*x.shape[:-1], count)
    return torch.cat([values, x[..., count:]], -1)
