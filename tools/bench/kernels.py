"""Attention without encodings and with those that cost no products of their own:
against `scaled_dot_product_attention`, the peak of the machine, a learned mask, and
our own kernel without the encoding."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import torch
from host import by_vendor
from peak import peak, tiles, unit
from rows import DTYPES, Row, Settings, both, flops, forward, inputs
from timing import Rounds

import sextant

HOISTABLE = ("rope", "alibi", "t5_bias", "kerple_log", "sandwich")


def attention(settings: Settings) -> Iterator[Row]:
    """Against `scaled_dot_product_attention`, and the share of the peak."""
    goals = {
        ("f32", False): by_vendor(1.2, intel=1.15),
        ("f32", True): by_vendor(1.35, intel=1.3),
        ("bf16", False): 1.7,
        ("bf16", True): 1.7,
    }
    for shape in settings.shapes:
        for (dtype, is_causal), goal in goals.items():
            q, k, v, gradient = inputs(shape, DTYPES[dtype])
            encodings = ["causal"] if is_causal else []

            def ours():
                return sextant.attention(q, k, v, encodings)

            def torchs():
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=is_causal
                )

            work = f"{shape} {dtype} {'causal' if is_causal else 'full'}"
            for phase, wrap, cost in (
                ("forward", forward, 1.0),
                ("forward + backward", lambda f: both(f, (q, k, v), gradient), 3.5),
            ):
                if not settings.wants(f"{work} {phase}"):
                    continue
                most = peak(dtype, settings.threads)
                rounds = Rounds({"ours": wrap(ours), "torch": wrap(torchs)}, settings.rounds)
                rate = cost * flops(shape, is_causal) / rounds.median("ours")
                note = f"{rate / 1e9:.0f} GFLOP/s"
                if most:
                    note += f", {100 * rate / most:.0f} % of peak"
                section = "attention vs scaled_dot_product_attention"
                yield settings.ratio(
                    section, f"{work} {phase}", rounds, "ours", "torch", goal, note
                )


# Percent of the peak, by dtype, phase and head dim.
SHARES = {
    ("f32", "forward"): {64: 87.0, 128: 89.0},
    ("f32", "backward"): {64: 80.0, 128: 82.0},
    ("bf16", "forward"): {128: 80.0},
    ("bf16", "backward"): {128: 75.0},
}


def share(settings: Settings) -> Iterator[Row]:
    """Full attention against the peak that is measured beside it: bf16 against that of
    the vector unit that is faster, dots of bf16 or multiply-adds of f32. Tiles of bf16
    are faster still, and wait for the exponentials, which vectors compute: their share is
    told, and has no goal."""
    for (dtype, phase), goals in SHARES.items():
        for dim, goal in goals.items():
            shape = (1, 8, 4096, dim)
            work = f"{shape} {dtype} full {phase}"
            if not settings.wants(work):
                continue
            q, k, v, gradient = inputs(shape, DTYPES[dtype])
            output = sextant.attention(q, k, v)
            calls = {
                "forward": forward(lambda: sextant.attention(q, k, v)),
                "backward": lambda: torch.autograd.grad(
                    output, (q, k, v), gradient, retain_graph=True
                ),
            }
            cost = 2.5 if phase == "backward" else 1.0
            shares, rates = [], []
            for _ in range(settings.rounds):
                # Side by side, and of both the median: the clock changes meanwhile.
                before = peak(dtype, settings.threads)
                seconds = Rounds({"ours": calls[phase]}, 3).median("ours")
                after = peak(dtype, settings.threads)
                most = (before + after) / 2
                rates.append(cost * flops(shape, False) / seconds)
                shares.append(100 * rates[-1] / most)
            shares.sort()
            note = f"{statistics.median(rates) / 1e9:.0f} GFLOP/s, peak of {unit(dtype)}"
            if dtype == "bf16" and (most := tiles(settings.threads)):
                note += f", {100 * statistics.median(rates) / most:.0f} % of that of tiles"
            yield Row(
                "share of the measured peak",
                work,
                settings.threads,
                shares[len(shares) // 2],
                "%",
                goal,
                shares[0],
                shares[-1],
                note=note,
            )


def encodings(settings: Settings) -> Iterator[Row]:
    """Hoistable encodings, parameter gradients included, against our own plain
    kernel."""
    for shape in settings.lengths:
        for base in ([], ["causal"]):
            q, k, v, gradient = inputs(shape, torch.float32)
            calls: dict[str, dict] = {"forward": {}, "forward + backward": {}}
            for name in ("plain", *HOISTABLE):
                uses = base + ([name] if name != "plain" else [])
                params = sextant.init_params(
                    uses, heads=shape[1], head_dim=shape[3], seed=0, requires_grad=True
                )
                trained = [p for p in params.values() if p.requires_grad]

                def run(uses=uses, params=params):
                    return sextant.attention(q, k, v, uses, params)

                calls["forward"][name] = forward(run)
                calls["forward + backward"][name] = both(run, (q, k, v, *trained), gradient)
            for phase, candidates in calls.items():
                works = {
                    name: f"{shape} {'causal ' if base else ''}{name} {phase}" for name in HOISTABLE
                }
                works = {name: work for name, work in works.items() if settings.wants(work)}
                if not works:
                    continue
                chosen = {name: candidates[name] for name in ("plain", *works)}
                rounds = Rounds(chosen, settings.rounds)
                for name, work in works.items():
                    yield settings.ratio(
                        "encodings vs our plain kernel",
                        work,
                        rounds,
                        name,
                        "plain",
                        0.93,
                    )


def dense_bias(settings: Settings) -> Iterator[Row]:
    """A learned bias, against PyTorch with the bias as a mask that requires grad."""
    for shape in settings.shapes[:1]:
        _, heads, length, _ = shape
        for base in ([], ["causal"]):
            work = f"{shape} {'causal ' if base else ''}kerple_log forward + backward"
            if not settings.wants(work):
                continue
            q, k, v, gradient = inputs(shape, torch.float32)
            r1 = torch.rand(heads).mul(2).requires_grad_()
            r2 = torch.rand(heads).add(0.01).requires_grad_()
            params = {"kerple_log.r1": r1, "kerple_log.r2": r2}
            index = torch.arange(length)
            distance = (index[:, None] - index[None, :]).abs().float()
            hidden = torch.zeros(length, length)
            if base:
                hidden = hidden.masked_fill(index[None, :] > index[:, None], float("-inf"))

            def ours():
                return sextant.attention(q, k, v, base + ["kerple_log"], params)

            def torchs():
                bias = -r1[:, None, None] * torch.log1p(r2[:, None, None] * distance) + hidden
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, attn_mask=bias[None]
                )

            leaves = (q, k, v, r1, r2)
            rounds = Rounds(
                {"ours": both(ours, leaves, gradient), "torch": both(torchs, leaves, gradient)},
                settings.few,
            )
            # Full attention does twice the products for the same dense bias.
            most = peak("f32", settings.threads)
            rate = 3.5 * flops(shape, bool(base)) / rounds.median("ours")
            yield settings.ratio(
                "learned bias vs a mask that requires grad",
                work,
                rounds,
                "ours",
                "torch",
                4.0 if base else None,
                f"{100 * rate / most:.0f} % of peak",
            )
