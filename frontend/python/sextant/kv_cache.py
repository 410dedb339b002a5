"""What decoding keeps of the tokens that were seen."""

from __future__ import annotations

import torch

from .checks import check_count


class KeyValueCache:
    """Keys, values and coordinates of the tokens that a `nn.Attention` has seen.

    ``layer(x, cache=cache)`` adds those of x, whose rows attend to all tokens that the
    cache then holds: a text may come token by token, or in chunks. A cache serves one layer
    and one batch, or another one where it holds no tokens, and keeps no history for gradients.
    ``len(cache)``: how many tokens it holds.

    Args:
      capacity: tokens that there is memory for when the first ones come; it doubles when it
        is full.
    """

    def __init__(self, capacity: int = 64):
        check_count("capacity", capacity)
        self._capacity = capacity
        self._length = 0
        # Of keys, values and, where the tokens have been given some, coordinates: the
        # dimension of tokens is the last but one.
        self._rows: list[torch.Tensor] = []

    def __len__(self) -> int:
        return self._length

    def crop(self, length: int) -> None:
        """Forgets all tokens but the first ``length``, such as those of a rejected draft."""
        check_count("length", length, least=0)
        if length > self._length:
            raise ValueError(f"length must be at most the {self._length} tokens held, got {length}")
        self._length = length

    def extend(
        self, key: torch.Tensor, value: torch.Tensor, positions: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Adds tokens, and gives keys, values and coordinates of all: views, until the next
        call.

        ``key``, ``value``: (batch, heads, tokens, head dim). ``positions``: (1 or batch, tokens,
        axes), of all tokens or of none. Raises ValueError where the rows are not of the kind of
        those that are held, RuntimeError where autograd would record.
        """
        if torch.is_grad_enabled():
            raise RuntimeError(
                "a KeyValueCache keeps no history for gradients: call the module under "
                "torch.no_grad()"
            )
        given = [key, value] if positions is None else [key, value, positions]
        if wrong := self._mismatch(given):
            if self._length:
                raise ValueError(wrong)
            self._rows = [rows.new_empty(_with_tokens(rows, self._capacity)) for rows in given]
        length = self._length + key.shape[-2]
        self._reserve(length)
        for held, rows in zip(self._rows, given):
            held[..., self._length : length, :] = rows
        self._length = length
        keys, values, *coordinates = (held[..., :length, :] for held in self._rows)
        return keys, values, coordinates[0] if coordinates else None

    def _mismatch(self, given: list[torch.Tensor]) -> str:
        """Why tokens cannot stand behind those that are held, or empty."""
        if len(given) != len(self._rows):
            return (
                "positions are those of all tokens or of none: the cache holds tokens "
                f"{'with' if len(self._rows) > len(given) else 'without'}"
            )
        for label, held, rows in zip(("keys", "values", "positions"), self._rows, given):
            here, there = (
                (tuple(_with_tokens(t, 0)), t.dtype, str(t.device)) for t in (rows, held)
            )
            if here != there:
                return (
                    f"a cache serves one layer and one batch: it holds {label} {_spelled(held)}, "
                    f"got {_spelled(rows)}"
                )
        return ""

    def _reserve(self, length: int) -> None:
        if length <= self._rows[0].shape[-2]:
            return
        capacity = max(length, 2 * self._rows[0].shape[-2])
        for i, held in enumerate(self._rows):
            self._rows[i] = held.new_empty(_with_tokens(held, capacity))
            self._rows[i][..., : self._length, :] = held[..., : self._length, :]


def _with_tokens(rows: torch.Tensor, count: int) -> list[int]:
    """The shape of rows, as if of so many tokens."""
    return [*rows.shape[:-2], count, rows.shape[-1]]


def _spelled(rows: torch.Tensor) -> str:
    sizes = [str(size) for size in rows.shape]
    sizes[-2] = "tokens"
    return f"({', '.join(sizes)}) of {rows.dtype} on {rows.device}"
