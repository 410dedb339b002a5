"""The GPT whose training step `gpu_bench.py` times, as a user of PyTorch writes it.

Attention is `scaled_dot_product_attention` with the encoding's bias and the causal mask in
one tensor: of ALiBi it is made once per step, of Kerple in each layer, whose parameters are
trained. Where products are of bf16 the model runs under autocast, as users have it.
"""

import torch
import torch.nn.functional as F


class EagerGpt:
    """The same model, parameters and optimizer as a program of the kit. `settings` are those
    of sextant.models.gpt.Config that it is made of, `described` what the program says of
    its parameters."""

    def __init__(self, encoding, settings, state, described):
        self.encoding, self.settings = encoding, settings
        self.params = {
            name: state[name].clone().requires_grad_(not param["frozen"])
            for name, param in described.items()
        }
        self.bounds = [
            (self.params[name], param["floor"], param["ceiling"])
            for name, param in described.items()
            if param["floor"] is not None or param["ceiling"] is not None
        ]
        self.trained = [p for p in self.params.values() if p.requires_grad]
        decayed = [self.params[n] for n, p in described.items() if "decay" in p["settings"]]
        known = {id(p) for p in decayed}
        others = [p for p in self.trained if id(p) not in known]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": settings["decay"]},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=0.0,
            betas=(settings["beta1"], settings["beta2"]),
            eps=settings["adam_epsilon"],
            fused=True,
        )

    def step(self, tokens, labels, rate):
        """The loss and the norm of all gradients."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        is_narrow = self.settings["dtype"] == "bf16"
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=is_narrow):
            loss = F.cross_entropy(self.logits(tokens).flatten(0, 1), labels.flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.trained, self.settings["clip"])
        self.optimizer.step()
        with torch.no_grad():
            for param, floor, ceiling in self.bounds:
                param.clamp_(floor, ceiling)
        return loss.detach(), norm

    def logits(self, tokens):
        p = self.params
        x = p["embedding.weight"][tokens]
        index = torch.arange(tokens.shape[1], device=tokens.device)
        distance = (index[:, None] - index).float()
        hidden = torch.zeros_like(distance).masked_fill_(distance < 0, float("-inf"))
        distance = distance.clamp(min=0)
        bias = self.alibi(distance, hidden) if self.encoding == "alibi" else None
        for layer in range(self.settings["layers"]):
            prefix = f"layers.{layer}"
            own = self.kerple(prefix, distance, hidden) if bias is None else bias
            x = x + self.attention(self.norm(x, f"{prefix}.norm1"), prefix, own)
            h = self.linear(self.norm(x, f"{prefix}.norm2"), f"{prefix}.mlp.up")
            x = x + self.linear(F.gelu(h, approximate="tanh"), f"{prefix}.mlp.down")
        return self.norm(x, "norm") @ p["embedding.weight"].T

    def alibi(self, distance, hidden):
        slopes = self.params["layers.0.attention.alibi.slopes"]
        return (hidden - slopes[:, None, None] * distance)[None]

    def kerple(self, prefix, distance, hidden):
        r1, r2 = (
            self.params[f"{prefix}.attention.kerple_log.{n}"][:, None, None] for n in ("r1", "r2")
        )
        return (hidden - r1 * torch.log1p(r2 * distance))[None]

    def attention(self, x, prefix, bias):
        rows = (
            self.linear(x, f"{prefix}.{n}").unflatten(-1, (self.settings["heads"], -1)).transpose(1, 2)
            for n in ("query", "key", "value")
        )
        out = F.scaled_dot_product_attention(*rows, attn_mask=bias)
        return self.linear(out.transpose(1, 2).flatten(2), f"{prefix}.output")

    def linear(self, x, name):
        return F.linear(x, self.params[f"{name}.weight"], self.params[f"{name}.bias"])

    def norm(self, x, name):
        weight, bias = self.params[f"{name}.weight"], self.params[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, self.settings["epsilon"])
