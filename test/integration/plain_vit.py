"""The models of `sextant.models.vit` in plain PyTorch, for autograd to check.

Written from the papers, without a line of Sextant: patches by a convolution, grids resized
by `interpolate`, scores materialised. Parameters have the names of the compiled model.
"""

import math

import torch
import torch.nn.functional as F
from plain_gpt import linear, mlp, norm


def grid(config, height, width):
    """Positions (row, column) of the patches, [patches, 2]."""
    axes = (torch.arange(side // config.patch) for side in (height, width))
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, 1)


def positions_of(config, height, width):
    """Of all tokens."""
    at = grid(config, height, width)
    if config.head == "mean":
        return at
    own = {"origin": 0, "outside": -1}[config.class_position]
    return torch.cat([torch.full((1, 2), own), at])


def forward(config, params, images, inside, positions=None):
    """Logits [B, classes]. ``inside`` is what encodings do: ``embed(x, positions)`` to rows,
    ``attend(layer, q, k, v, positions)`` for attention's output. ``positions`` [1 or B, L, 2]
    in place of the grid's."""
    batch, _, height, width = images.shape
    side = config.patch
    weight = params["patch.weight"].view(config.width, config.channels, side, side)
    x = F.conv2d(images, weight, params.get("patch.bias"), stride=side).flatten(2).mT
    if config.head == "class":
        x = torch.cat([params["class.token"].expand(batch, 1, -1), x], 1)
    at = positions_of(config, height, width)[None] if positions is None else positions
    x = inside.embed(x, at)
    for layer in range(config.layers):
        prefix = f"layers.{layer}"
        h = norm(config, params, x, f"{prefix}.norm1")
        heads = (config.heads, config.kv_heads or config.heads, config.kv_heads or config.heads)
        q, k, v = (
            linear(params, h, f"{prefix}.{name}").unflatten(-1, (count, -1)).transpose(1, 2)
            for name, count in zip(("query", "key", "value"), heads)
        )
        out = inside.attend(layer, q, k, v, at).transpose(1, 2).flatten(-2)
        x = x + linear(params, out, f"{prefix}.output")
        x = x + mlp(config, params, norm(config, params, x, f"{prefix}.norm2"), f"{prefix}.mlp")
    x = norm(config, params, x, "norm")
    return linear(params, x[:, 0] if config.head == "class" else x.mean(1), "head")


def loss(config, params, images, labels, inside, reduction="mean", positions=None):
    """Of labels, or of shares of classes."""
    return F.cross_entropy(forward(config, params, images, inside, positions), labels, reduction=reduction)


class Inside:
    """No encoding; subclasses are those that tests compare with."""

    def __init__(self, params):
        self.params = params

    def embed(self, x, at):
        return x

    def attend(self, layer, q, k, v, at):
        q, k = self.rows(layer, q, at), self.rows(layer, k, at)
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        return (scores + self.bias(layer, at)).softmax(-1) @ v

    def rows(self, layer, x, at):
        return x

    def bias(self, layer, at):
        return 0.0


class Learned(Inside):
    """Dosovitskiy et al. 2021, section 3.2: a table of a grid, resized to others. Tokens
    outside the grid have no row."""

    def __init__(self, params, rows, columns):
        super().__init__(params)
        self.shape = rows, columns

    def embed(self, x, at):
        rows, columns = self.shape
        table = self.params["embedding.learned.table"][: rows * columns]
        size = [int(n) + 1 for n in at.amax((0, 1))]
        cells = table.T.reshape(1, -1, rows, columns)
        if size != [rows, columns]:
            cells = F.interpolate(cells, size, mode="bicubic", align_corners=False)
        inside = (at >= 0).all(-1)
        near = at.clamp(min=0)
        added = cells[0][:, near[..., 0], near[..., 1]].permute(1, 2, 0)
        return x + added * inside[..., None]


class Rope2d(Inside):
    """Heo et al. 2024, axial: the first half of the interleaved pairs turns by the column,
    the other by the row."""

    def rows(self, layer, x, at):
        quarter = x.shape[-1] // 4
        rates = 100.0 ** (-torch.arange(quarter, dtype=x.dtype) / quarter)
        at = at.to(x.dtype)
        angles = torch.cat([at[..., 1:] * rates, at[..., :1] * rates], -1)[:, None]
        turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(turned).flatten(-2)


class Rope2dMixed(Inside):
    """Heo et al. 2024, mixed: pairs of each head turn by a learned mix of column and row."""

    def rows(self, layer, x, at):
        across, down = self.params[f"layers.{layer}.attention.rope_2d_mixed.freqs"][:, :, None]
        at = at[:, None].to(x.dtype)
        angles = at[..., 1:] * across + at[..., :1] * down
        turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(turned).flatten(-2)


class Liere(Inside):
    """Ostmeier et al. 2024: exp of the sum over axes of position times a skew matrix, a step
    of which is worth 0.5."""

    def rows(self, layer, x, at):
        gen = self.params[f"layers.{layer}.attention.liere.gen"][:, 0, 0].triu(1)
        turn = torch.linalg.matrix_exp(0.5 * torch.einsum("bla,arc->blrc", at.to(x.dtype), gen - gen.mT))
        return (turn[:, None] @ x[..., None])[..., 0]


class LeftAlone(Inside):
    """Turns the patches as another encoding does, and no token outside the grid."""

    def __init__(self, params, turning):
        super().__init__(params)
        self.turning = turning(params)

    def rows(self, layer, x, at):
        is_patch = (at >= 0).all(-1)[:, None, :, None]
        return torch.where(is_patch, self.turning.rows(layer, x, at), x)


class Swin(Inside):
    """Liu et al. 2021: a table over (query - key) of rows and columns, edges kept."""

    def __init__(self, params, rows, columns):
        super().__init__(params)
        self.shape = rows, columns

    def bias(self, layer, at):
        rows, columns = self.shape
        apart = at[:, :, None] - at[:, None]
        dy, dx = apart[..., 0].clamp(1 - rows, rows - 1), apart[..., 1].clamp(1 - columns, columns - 1)
        index = (dy + rows - 1) * (2 * columns - 1) + dx + columns - 1
        return self.params[f"layers.{layer}.attention.swin.table"][index].permute(0, 3, 1, 2)
