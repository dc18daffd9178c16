"""How a device lays out one KV block in its cache tensors: numbers, or codes with scales of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from agentrt.runtime.model.kv_layout import CacheInput

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

KEYS: Final = "key_cache."
_FLOATS: Final = {"f32": 4, "bf16": 2, "f16": 2}
_PARAMETERS: Final = 8
"""Bytes of the scale and the zero point of a group in a quantised block, float32 both."""


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """One block of one cache tensor: ``[heads, tokens, size]`` numbers.

    A quantised block has its scales and zero points in front of its codes: for keys by channel,
    ``[heads, size]`` of each in front of ``[heads, tokens, size]``; for values by token, one of each in front
    of every ``[size]``.
    """

    keys: bool
    element: str
    """``f32``, ``bf16``, ``f16`` or ``u8``; the last is quantised."""
    heads: int
    tokens: int
    size: int

    @property
    def quantised(self) -> bool:
        """Whether the block has codes instead of numbers."""
        return self.element == "u8"

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        if not self.quantised:
            return self.heads * self.tokens * self.size * _FLOATS[self.element]
        groups = self.size if self.keys else self.tokens
        return self.heads * (self.tokens * self.size + groups * _PARAMETERS)

    @property
    def groups(self) -> tuple[int, int]:
        """Groups that share a scale, a head's channels for keys and its tokens for values: heads, groups."""
        return self.heads, self.size if self.keys else self.tokens

    def codes(self, blocks: Bytes) -> Bytes:
        """Return a view ``[…, heads, tokens, size]`` of the codes in ``blocks`` ``[…, block bytes]``."""
        if self.keys:
            return self._by_head(blocks)[..., _PARAMETERS:, :]
        return self._by_head(blocks)[..., _PARAMETERS:]

    def parameters(self, blocks: Bytes) -> tuple[Floats, Floats]:
        """Return views ``[…, heads, groups]`` of the scales and of the zero points in ``blocks``."""
        if not self.keys:
            both = self._by_head(blocks)[..., :_PARAMETERS].view(np.float32)
            return both[..., 0], both[..., 1]
        by_head = blocks.reshape(*blocks.shape[:-1], self.heads, -1)
        both = by_head[..., : _PARAMETERS * self.size].view(np.float32)
        return both[..., : self.size], both[..., self.size :]

    def numbers(self, blocks: Bytes) -> Floats:
        """Return the numbers ``[…, heads, tokens, size]`` of ``blocks``."""
        shape = (*blocks.shape[:-1], self.heads, self.tokens, self.size)
        if self.quantised:
            scales, zero_points = (self.spread(each) for each in self.parameters(blocks))
            return (self.codes(blocks).astype(np.float32) - zero_points) * scales
        if self.element == "bf16":
            wide = blocks.view(np.uint16).astype(np.uint32) << np.uint32(16)
            return wide.view(np.float32).reshape(shape)
        return blocks.view(self.element.replace("f", "float")).astype(np.float32).reshape(shape)

    def write_numbers(self, numbers: Floats, blocks: Bytes) -> None:
        """Write ``numbers`` to ``blocks``, which are not quantised, rounded to their element type."""
        flat = numbers.reshape(*blocks.shape[:-1], -1)
        if self.element == "bf16":
            words = flat.view(np.uint32) + np.uint32(0x8000)
            words >>= np.uint32(16)
            blocks.view(np.uint16)[...] = words
        else:
            blocks.view(self.element.replace("f", "float"))[...] = flat

    def spread(self, groups: Floats) -> Floats:
        """Return a value for each group ``[…, heads, groups]`` in a shape that fits ``[…, tokens, size]``."""
        return groups[..., None, :] if self.keys else groups[..., None]

    def _by_head(self, blocks: Bytes) -> Bytes:
        rows = self.tokens + _PARAMETERS if self.keys else self.tokens
        return blocks.reshape(*blocks.shape[:-1], self.heads, rows, -1)


def block_format(cache: CacheInput, block_tokens: int) -> BlockFormat | None:
    """Return the format of ``cache``; None if it is one that only the device knows."""
    element = cache.element_type.get_type_name()
    keys = cache.name.startswith(KEYS)
    if len(cache.block_shape) != 3 or (element not in _FLOATS and element != "u8"):
        return None
    heads, rows, size = cache.block_shape
    if element == "u8" and keys:
        rows -= _PARAMETERS
    elif element == "u8":
        size -= _PARAMETERS
    found = BlockFormat(keys, element, heads, rows, size)
    return found if rows == block_tokens and found.block_bytes == cache.block_bytes else None
