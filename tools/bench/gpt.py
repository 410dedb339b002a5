"""A training step of a GPT, compiled and in eager PyTorch.

The eager model is what a PyTorch user writes: `scaled_dot_product_attention` with
the bias and the causal mask in one tensor, which is made once per step (it is the
same in all layers for ALiBi; a learned bias has its own parameters per layer).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from sextant.training.config import TrainConfig
from sextant.training.model import Model


class Eager:
    """The same model, parameters and optimizer as a compiled `Model`."""

    def __init__(self, model: Model, encoding: str):
        self.config = model.config
        self.encoding = encoding
        self.params = {}
        for name, p in model.program.parameters.items():
            self.params[name] = model.params[name].clone().requires_grad_(not p["frozen"])
        trained = [p for p in self.params.values() if p.requires_grad]
        decayed = [p for p in trained if p.dim() > 1]
        others = [p for p in trained if p.dim() <= 1]
        self.trained = trained
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": self.config.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            betas=(self.config.beta1, self.config.beta2),
        )

    def step(self, tokens: torch.Tensor, labels: torch.Tensor, rate: float) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        loss = self.loss(self.logits(tokens), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, self.config.clip)
        self.optimizer.step()
        return float(loss.detach())

    def loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        p = self.params
        x = p["embedding.weight"][tokens]
        length = tokens.shape[1]
        index = torch.arange(length)
        distance = (index[:, None] - index[None, :]).float()
        hidden = torch.zeros(length, length).masked_fill(distance < 0, float("-inf"))
        fixed = None
        if self.encoding == "alibi":
            slopes = next(t for name, t in p.items() if name.endswith(".slopes"))
            fixed = (hidden - slopes[:, None, None] * distance)[None]
        for layer in range(self.config.layers):
            prefix = f"layers.{layer}"
            bias = fixed
            if bias is None:
                r1 = p[f"{prefix}.attention.kerple_log.r1"][:, None, None]
                r2 = p[f"{prefix}.attention.kerple_log.r2"][:, None, None]
                bias = (hidden - r1 * torch.log1p(r2 * distance.clamp(min=0)))[None]
            x = x + self.attention(self.norm(x, f"{prefix}.norm1"), prefix, bias)
            h = self.linear(self.norm(x, f"{prefix}.norm2"), f"{prefix}.mlp.up")
            x = x + self.linear(F.gelu(h, approximate="tanh"), f"{prefix}.mlp.down")
        return self.norm(x, "norm") @ p["embedding.weight"].T

    def attention(self, x: torch.Tensor, prefix: str, bias: torch.Tensor) -> torch.Tensor:
        def project(name: str) -> torch.Tensor:
            y = self.linear(x, f"{prefix}.{name}")
            return y.unflatten(-1, (self.config.heads, -1)).transpose(1, 2)

        out = F.scaled_dot_product_attention(
            project("query"), project("key"), project("value"), attn_mask=bias
        )
        return self.linear(out.transpose(1, 2).flatten(2), f"{prefix}.output")

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, self.params[f"{name}.weight"], self.params[f"{name}.bias"])

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        weight = self.params[f"{name}.weight"]
        return F.layer_norm(x, weight.shape, weight, self.params[f"{name}.bias"], 1e-5)


def steps(
    encoding: str, *, layers: int, width: int, heads: int, length: int
) -> tuple[Callable[[], float], Callable[[], float]]:
    """A step of the compiled model and one of the eager one, on the same data."""
    config = TrainConfig(encodings=(encoding,), layers=layers, width=width, heads=heads)
    model = Model(config)
    return same_steps(model, Eager(model, encoding), 1, length)


def same_steps(
    model: Model, eager: Eager, batch: int, length: int
) -> tuple[Callable[[], float], Callable[[], float]]:
    """Steps of both on the same data; that their losses are not the same is an error."""
    tokens = torch.randint(0, 256, (batch, length + 1))
    inputs, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    ours, theirs = (m.step(inputs, labels, 0.0) for m in (model, eager))
    if abs(ours - theirs) > 1e-3:
        raise SystemExit(f"bench: the models differ: loss {ours} and {theirs}")
    return (
        lambda: model.step(inputs, labels, 1e-3),
        lambda: eager.step(inputs, labels, 1e-3),
    )
