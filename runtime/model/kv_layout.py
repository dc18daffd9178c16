"""What a KV block looks like in memory, read off compiled models: no formula knows how a device lays it
out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import openvino as ov

from agentrt.errors import ModelFormatError

from .paged import CACHES


@dataclass(frozen=True, slots=True)
class CacheInput:
    """One key or value cache: what one block of it looks like."""

    name: str
    """``key_cache.<layer>`` or ``value_cache.<layer>``."""
    element_type: ov.Type
    block_shape: tuple[int, ...]
    """Without the leading dimension, which counts blocks."""

    @property
    def block_bytes(self) -> int:
        """Bytes one block takes in this tensor."""
        elements = 1
        for extent in self.block_shape:
            elements *= extent
        return int(elements * self.element_type.bitwidth) // 8


@dataclass(frozen=True, slots=True)
class KVLayout:
    """The KV blocks of a model on the device that attends."""

    caches: tuple[CacheInput, ...]
    """Keys and values of every layer."""
    block_tokens: int
    """Tokens in one KV block."""

    @property
    def block_bytes(self) -> int:
        """Bytes one KV block takes over all layers, keys and values."""
        return sum(cache.block_bytes for cache in self.caches)

    @classmethod
    def of(cls, compiled: Iterable[ov.CompiledModel]) -> Self:
        """The layout that the pieces of one model have together.

        Raises:
            ModelFormatError: this version of OpenVINO leaves the shape of a block open.
        """
        caches: dict[str, CacheInput] = {}
        for piece in compiled:
            for port in piece.inputs:
                name = port.get_any_name()
                if name.startswith(CACHES):
                    extents = list(port.get_partial_shape())[1:]
                    if any(extent.is_dynamic for extent in extents):
                        raise ModelFormatError(
                            f"the block shape of {name} is not known after compiling. "
                            "Update OpenVINO: pip install -U openvino"
                        )
                    shape = tuple(extent.get_length() for extent in extents)
                    caches[name] = CacheInput(name, port.get_element_type(), shape)
        # [heads, tokens, head size (+ scale and zero point when quantised)] on every device; key blocks put
        # their dimensions and their scales elsewhere.
        return cls(tuple(caches.values()), caches["value_cache.0"].block_shape[1])
