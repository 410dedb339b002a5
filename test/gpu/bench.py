#!/usr/bin/env python3
"""Times attentions of a kit on a GPU beside PyTorch's, forward and backward.

    bench.py [--device cuda|cpu] [--length N] [--batch N] [--rounds N] [--output FOLDER]

Peers: `scaled_dot_product_attention` for plain causal attention; for encodings compiled
`flex_attention`, and attention written out ("eager"), where the score that is added is
the encoding's formula. Candidates take turns; a row has the median of the ratios peer / ours and
their spread. Before anything is timed, outputs are compared. Writes a table and a JSON.
"""

import argparse
import datetime
import io
import json
import lzma
import re
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from check import describe

HEADS, DIM = 16, 64
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Ours:
    """An attention of the kit."""

    def __init__(self, path, device):
        file = torch.load(io.BytesIO(lzma.decompress(path.read_bytes())), weights_only=True)
        self.handle = int(torch.ops.sextant.load(file["artifact"]))
        self.params = {name: tensor.to(device) for name, tensor, _ in file["params"]}

    def forward(self, q, k, v):
        return torch.ops.sextant.run(self.handle, "forward", [q, k, v, *self.params.values()])

    def step(self, q, k, v, do):
        output, lse, statistics = self.forward(q, k, v)
        operands = [q, k, v, output, statistics, do, torch.zeros_like(lse)]
        torch.ops.sextant.run(self.handle, "backward", [*operands, *self.params.values()])


def bias_of(name, params):
    """(head, distance) -> what is added to a score, in plain PyTorch; None for none."""
    if name == "t5_bias":
        table, thresholds = params["t5_bias.table"], params["t5_bias.thresholds"]
        exact = table.shape[0] - len(thresholds)

        def bias(head, distance):
            far = torch.bucketize(distance.float(), thresholds, right=True)
            return table[torch.where(distance < exact, distance, exact - 1 + far), head]

        return bias
    if name in ("kerple_log", "dape"):
        prefix = {"kerple_log": "kerple_log.", "dape": "dape.kerple_log."}[name]
        r1, r2 = params[prefix + "r1"], params[prefix + "r2"]
        return lambda head, distance: -r1[head] * torch.log1p(r2[head] * distance)
    return None


def adapted(params, scores, bias):
    """DAPE (Zheng et al. 2024, equation 3, with the score and the bias concatenated):
    a network of two layers over all heads of each pair of positions."""
    both = torch.cat([scores, bias.expand_as(scores)], 1)
    hidden = torch.einsum("oh,bhij->boij", params["dape.w1"], both)
    hidden = F.leaky_relu(hidden + params["dape.b1"][:, None, None], 0.01)
    mixed = torch.einsum("ho,boij->bhij", params["dape.w2"], hidden)
    return scores + bias + mixed + params["dape.b2"][:, None, None]


def eager(name, params, q, k, v):
    """Attention written out: scores of all pairs stand in memory."""
    length = q.shape[2]
    index = torch.arange(length, device=q.device)
    distance = (index[:, None] - index).clamp(min=0)
    scores = (q @ k.transpose(2, 3)).float() / q.shape[3] ** 0.5
    bias = bias_of(name, params)
    if bias:
        head = torch.arange(HEADS, device=q.device)[:, None, None]
        bias = bias(head, distance[None])[None]
        scores = adapted(params, scores, bias) if name == "dape" else scores + bias
    scores = scores.masked_fill(index > index[:, None], float("-inf"))
    return scores.softmax(-1).to(v.dtype) @ v


def flex(name, params, length, device):
    """Compiled FlexAttention with the bias as a score modification."""
    bias = bias_of(name, params)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device=device)

    def score(s, b, h, i, j):
        return s + bias(h, (i - j).clamp(min=0))

    compiled = torch.compile(flex_attention)
    return lambda q, k, v: compiled(q, k, v, score_mod=score, block_mask=mask)


def peers_of(name, params, length, device):
    """Functions of query, key and value, by name."""
    if name == "causal":
        return {"sdpa": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)}
    peers = {"eager": lambda q, k, v: eager(name, params, q, k, v)}
    if name != "dape" and device != "cpu":
        peers["flex"] = flex(name, params, length, device)
    return peers


def seconds(step, device):
    """One step, warm."""
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(path, device, batch, length, rounds):
    """Rows of one work: forward and backward with gradients of trained parameters."""
    name, dtype = re.fullmatch(r"(\w+)-(\w+)\.pt\.xz", path.name).groups()
    ours = Ours(path, device)
    shape = (batch, HEADS, length, DIM)
    q, k, v, do = (torch.randn(shape, dtype=DTYPES[dtype], device=device) for _ in range(4))
    params = {
        n: t.detach().requires_grad_(t.is_floating_point() and "thresholds" not in n)
        for n, t in ours.params.items()
    }
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    rows = []
    for peer, attention in peers_of(name, params, length, device).items():
        own, other = ours.forward(q, k, v)[0].float(), attention(*leaves).detach().float()
        off = float((own - other).abs().max() / other.abs().max())
        if off > (1e-3 if dtype == "f32" else 4e-2):
            raise SystemExit(f"{path.name}: {peer} computes something else, off by {off:.3g}")

        def step():
            return torch.autograd.grad(
                attention(*leaves),
                [*leaves, *(p for p in params.values() if p.requires_grad)],
                do,
                allow_unused=True,
            )

        for _ in range(2):  # warm up
            step()
            ours.step(q, k, v, do)
        ratios, times = [], []
        for _ in range(rounds):
            own = seconds(lambda: ours.step(q, k, v, do), device)
            ratios.append(seconds(step, device) / own)
            times.append(own)
        rows.append(
            dict(
                work=f"{name} {dtype} {list(shape)}",
                peer=peer,
                ratio=statistics.median(ratios),
                low=min(ratios),
                high=max(ratios),
                milliseconds=1e3 * statistics.median(times),
            )
        )
        row = rows[-1]
        print(
            f"| {row['work']} | {peer} | {row['ratio']:.3g} x | {row['low']:.3g} - "
            f"{row['high']:.3g} | {row['milliseconds']:.3g} ms |",
            flush=True,
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 ..., or cpu (cuda)")
    parser.add_argument("--batch", type=int, default=4, help="(4)")
    parser.add_argument("--length", type=int, default=4096, help="of queries and keys (4096)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of the candidates (7)")
    parser.add_argument(
        "--match", nargs="+", default=[], metavar="TEXT", help="of works: causal, dape-bf16 ..."
    )
    parser.add_argument("--output", type=Path, help="folder for DATE-DEVICE.md and .json")
    options = parser.parse_args()
    name = describe(options.device, "bench.py")
    torch.ops.load_library(str(HERE / "libsextant_torch.so"))
    torch.manual_seed(0)
    today = datetime.date.today().isoformat()
    head = f"{name}, PyTorch {torch.__version__}, {today}"
    table = "| forward and backward | vs | median | spread | ours |\n|---|---|---|---|---|"
    print(f"{head}\n\n{table}")
    rows = []
    for path in sorted((HERE / "works").glob("*.pt.xz")):
        if not options.match or any(text in path.name for text in options.match):
            rows += measure(path, options.device, options.batch, options.length, options.rounds)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        stem = re.sub("[^a-z0-9]+", "-", f"{today}-{name}-gpu".lower())
        lines = [
            f"| {r['work']} | {r['peer']} | {r['ratio']:.3g} x | {r['low']:.3g} - {r['high']:.3g} "
            f"| {r['milliseconds']:.3g} ms |"
            for r in rows
        ]
        (options.output / f"{stem}.md").write_text("\n".join([head, "", table, *lines]) + "\n")
        record = {"machine": head, "rows": rows}
        (options.output / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
