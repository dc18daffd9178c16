"""The memory layout of KV blocks and state rows, read from compiled models: each device chooses its own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import openvino as ov

from agentrt.errors import ModelFormatError

from .paged import CACHES, STATE_TABLES


@dataclass(frozen=True, slots=True)
class CacheInput:
    """The key cache, value cache or state table of one operation, and the shape of its blocks or rows."""

    name: str
    """``key_cache.<number>``, ``value_cache.<number>`` or that of a state table."""
    element_type: ov.Type
    block_shape: tuple[int, ...]
    """Without the leading dimension, the number of blocks or rows."""

    @property
    def block_bytes(self) -> int:
        """Bytes of one block or row in this tensor."""
        return int(math.prod(self.block_shape) * self.element_type.bitwidth) // 8


@dataclass(frozen=True, slots=True)
class KVLayout:
    """The KV blocks and state rows of a model, on the device that computes its attention."""

    caches: tuple[CacheInput, ...]
    """The key and the value cache of every attention, by name: a model has one layout, however it is cut."""
    block_tokens: int
    """Tokens in one KV block."""
    state_tables: tuple[CacheInput, ...] = ()
    """The state table of every recurrent operation, by name; a model without has none."""

    @property
    def block_bytes(self) -> int:
        """Bytes of one KV block: keys and values of all layers."""
        return sum(cache.block_bytes for cache in self.caches)

    @property
    def row_bytes(self) -> int:
        """Bytes of one state row: the state of one sequence in all recurrent layers; 0 without any."""
        return sum(table.block_bytes for table in self.state_tables)

    @classmethod
    def of(cls, compiled: Iterable[ov.CompiledModel]) -> Self:
        """Return the layout of one model from its compiled pieces.

        Raises:
            ModelFormatError: this version of OpenVINO leaves the shape of a block dynamic.
        """
        caches: dict[str, CacheInput] = {}
        for piece in compiled:
            for port in piece.inputs:
                name = port.get_any_name()
                if name.startswith((*CACHES, *STATE_TABLES)):
                    extents = list(port.get_partial_shape())[1:]
                    if any(extent.is_dynamic for extent in extents):
                        raise ModelFormatError(
                            f"the block shape of {name} is not known after compiling. "
                            "Update OpenVINO: pip install -U openvino"
                        )
                    shape = tuple(extent.get_length() for extent in extents)
                    caches[name] = CacheInput(name, port.get_element_type(), shape)
        # [heads, tokens, head size (+ scale and zero point when quantised)] on every device. Key blocks
        # order their dimensions differently.
        values = next(cache for name, cache in caches.items() if name.startswith("value_cache."))
        tables = tuple(caches.pop(name) for name in sorted(caches) if name.startswith(STATE_TABLES))
        return cls(tuple(caches[name] for name in sorted(caches)), values.block_shape[1], tables)
