"""`torch.nn` modules."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .arguments import arrange_positions, named_params
from .attention_function import attention
from .checks import check_count, check_flag
from .definitions import EncodingLike, listed
from .initial import init_params, project_
from .kv_cache import KeyValueCache
from .shards import fill_
from .tensor_checks import check_devices, check_tensor

__all__ = ["Attention", "KeyValueCache"]


class Attention(torch.nn.Module):
    """Multi-head self attention with positional encodings and their parameters.

    ``y = W_o attention(W_q x, W_k x, W_v x)`` on x (batch, length, width).

    Args:
      width: of x and y; a multiple of ``heads`` unless ``head_dim`` is given.
      heads, kv_heads: heads of queries and of keys and values (grouped queries).
      encodings: as in `sextant.attention`. Their trained parameters become
        parameters of the module, named ``<instance>_<param>``; frozen ones are made
        from their definitions.
      bias: whether the four projections have one.
      heads_total, head_offset: as in `sextant.attention`, for a module that has a part
        of an attention's heads.
      deterministic: as in `sextant.attention`.

    Initial values are drawn from PyTorch's generator; after ``to_empty``, as for a
    module that was built on the meta device, `reset_parameters` draws them. After each
    optimizer step call `project_`, which applies floors and ceilings. A text is decoded
    token by token with a `KeyValueCache`::

        cache = sextant.nn.KeyValueCache()
        with torch.no_grad():
            for x in tokens:  # each (batch, 1, width), or some at a time
                y = layer(x, cache=cache)
    """

    def __init__(
        self,
        width: int,
        heads: int,
        encodings: Iterable[EncodingLike] = ("causal",),
        *,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        heads_total: int | None = None,
        head_offset: int = 0,
        deterministic: bool = True,
        target: str = "auto",
        device=None,
        dtype=None,
    ):
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        for label, count in (("width", width), ("heads", heads), ("kv_heads", kv_heads)):
            check_count(label, count)
        if head_dim is None:
            whole = heads if heads_total is None else heads_total
            if width % whole:
                raise ValueError(f"width {width} is not a multiple of heads {whole}")
            head_dim = width // whole
        check_count("head_dim", head_dim)
        check_flag("deterministic", deterministic)
        if heads % kv_heads:
            raise ValueError(f"heads {heads} is not a multiple of kv_heads {kv_heads}")
        # Whole numbers of NumPy compare to bools that are none of Python's.
        self.width, self.heads = int(width), int(heads)
        self.kv_heads, self.head_dim = int(kv_heads), int(head_dim)
        self.heads_total, self.head_offset = heads_total, head_offset
        self.deterministic = deterministic
        self.target = target
        self.encodings = listed(encodings)
        make = {"bias": bias, "device": device, "dtype": dtype}
        self.query = torch.nn.Linear(width, heads * head_dim, **make)
        self.key = torch.nn.Linear(width, kv_heads * head_dim, **make)
        self.value = torch.nn.Linear(width, kv_heads * head_dim, **make)
        self.output = torch.nn.Linear(heads * head_dim, width, **make)
        compute = torch.float64 if self.query.weight.dtype == torch.float64 else torch.float32
        initial = self._initial_params(compute)
        self._attributes = {name: name.replace(".", "_") for name in initial}
        for name, tensor in initial.items():
            attribute = self._attributes[name]
            if hasattr(self, attribute):
                raise ValueError(
                    f'the module has an attribute "{attribute}", which parameter "{name}" would '
                    'be: use its encoding under another name, as in "other=..."'
                )
            tensor = tensor.to(device=self.query.weight.device)
            self.register_parameter(attribute, torch.nn.Parameter(tensor))

    def _initial_params(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Initial values of the encodings' parameters, another draw at each call."""
        # A mode such as FakeTensorMode makes tensors without numbers, but a seed is one.
        with _disable_current_modes():
            seed = int(torch.randint(2**62, (), dtype=torch.int64, device="cpu"))
        return init_params(
            self.encodings,
            heads=self.heads,
            head_dim=self.head_dim,
            kv_heads=self.kv_heads,
            model=self.width,
            heads_total=self.heads_total,
            head_offset=self.head_offset,
            seed=seed,
            dtype=dtype,
        )

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws the initial values of all parameters again."""
        for linear in (self.query, self.key, self.value, self.output):
            linear.reset_parameters()
        for name, tensor in self._initial_params(torch.float64).items():
            fill_(getattr(self, self._attributes[name]), tensor)

    def encoding_params(self) -> dict[str, torch.nn.Parameter]:
        """Trained parameters of the encodings by public name."""
        return {name: getattr(self, a) for name, a in self._attributes.items()}

    def project_(self) -> None:
        """Applies the floors and ceilings of the encodings' parameters."""
        project_(self.encoding_params(), self.encodings)

    def forward(
        self,
        x: torch.Tensor,
        *,
        positions: torch.Tensor | None = None,
        given: dict[str, torch.Tensor] | None = None,
        cache: KeyValueCache | None = None,
    ) -> torch.Tensor:
        """x (batch, length, width) to y of the same shape.

        ``positions``: coordinates of the tokens, as ``query_positions`` of
        `sextant.attention`. ``given``: parameters that the encodings expect at
        every call, such as ``{"document.ids": ids}``. ``cache``: of the tokens before those of
        x, which are added; then what is given per key is that of all tokens, ``positions`` are
        those of x.
        """
        check_tensor("x", x)
        if x.dim() != 3 or x.shape[-1] != self.width:
            raise ValueError(
                f"x must be (batch, length, {self.width}), got shape {tuple(x.shape)}"
            )
        batch, length, _ = x.shape
        if positions is not None:  # the module has one argument for those of both sides
            check_tensor("positions", positions)
            check_devices("x", x, [("positions", positions)])
            positions = arrange_positions("positions", positions, batch, length, "x")

        def heads_of(name: str, count: int) -> torch.Tensor:
            rows = getattr(self, name)(x)
            if rows.shape[-1] != count * self.head_dim:
                raise ValueError(
                    f"{name} projects to {rows.shape[-1]} lanes, not to those of {count} heads of "
                    f"{self.head_dim}: a part of the heads, as a process of tensor parallelism "
                    "has it, is a module with so many heads, heads_total and head_offset"
                )
            return rows.view(batch, length, count, self.head_dim).transpose(1, 2)

        key, value = (heads_of(name, self.kv_heads) for name in ("key", "value"))
        key_positions = positions
        if cache is not None:
            if not isinstance(cache, KeyValueCache):
                raise TypeError(f"cache must be a KeyValueCache, got {type(cache).__name__}")
            key, value, key_positions = cache.extend(key, value, positions)
        try:
            attended = attention(
                heads_of("query", self.heads),
                key,
                value,
                self.encodings,
                {**self.encoding_params(), **named_params(given)},
                query_positions=positions,
                key_positions=key_positions,
                heads_total=self.heads_total,
                head_offset=self.head_offset,
                enable_gqa=self.kv_heads != self.heads,
                deterministic=self.deterministic,
                target=self.target,
            )
        except BaseException:
            if cache is not None:  # a call that fails adds no tokens
                cache.crop(len(cache) - length)
            raise
        return self.output(attended.transpose(1, 2).flatten(2))

    def extra_repr(self) -> str:
        return (
            f"heads={self.heads}, kv_heads={self.kv_heads}, head_dim={self.head_dim}, "
            f"encodings={[str(e) for e in self.encodings]}"
        )
