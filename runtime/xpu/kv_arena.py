"""The KV arena: the memory of all keys, values and states, allocated once and never grown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import openvino as ov

from agentrt.errors import ConfigurationError

from ..kv.saved_contexts import Rows
from ..model.kv_layout import KVLayout
from ..model.paged import CACHES
from .platforms import OpenVINOPlatform

_LEAST_ROWS: Final = 4
"""Of the state rows, one is always zero; a sequence has two, and may begin from a third that is shared."""

_BLOCKS_PER_ROW: Final = 6
"""KV blocks for each state row, unless the rows would then take more than half of the memory."""


class KVArena:
    """The cache tensors and state tables of one model, sized by a budget in bytes.

    The tensors are plain memory that OpenVINO updates in place; all XPUs of a platform share them.
    :class:`BlockPool` accounts for the blocks, and another one for the state rows, except for the last row:
    it stays zero, the state of a sequence that begins.
    """

    def __init__(self, layout: KVLayout, platform: OpenVINOPlatform, memory_bytes: int) -> None:
        """Allocate as many blocks and rows as ``memory_bytes`` holds, and attach them to ``platform``.

        Raises:
            ConfigurationError: not even one block fits, or too few state rows, or the machine does not have
                that much memory.
        """
        self.block_tokens = layout.block_tokens
        self.state_rows = _state_rows(layout, memory_bytes)
        """State rows that sequences can hold; 0 if the model has no state."""
        rows = self.state_rows + 1 if layout.state_tables else 0
        self.blocks = (memory_bytes - rows * layout.row_bytes) // layout.block_bytes
        self.memory_bytes = self.blocks * layout.block_bytes + rows * layout.row_bytes
        self.quantised_keys = any(
            cache.element_type.is_integral() for cache in layout.caches if cache.name.startswith("key_cache")
        )
        """Whether a block of keys depends on which of its tokens were written together."""
        if self.blocks < 1:
            raise ConfigurationError(
                f"memory_bytes={memory_bytes} holds no KV block: this model needs {layout.block_bytes} bytes "
                f"for every {layout.block_tokens} tokens. Give some hundred times as much."
            )
        try:
            tensors: Mapping[str, ov.Tensor] = {
                cache.name: platform.allocate(cache.element_type, ov.Shape([self.blocks, *cache.block_shape]))
                for cache in layout.caches
            } | {
                table.name: _zeroed(platform, table.element_type, ov.Shape([rows, *table.block_shape]))
                for table in layout.state_tables
            }
        except (MemoryError, RuntimeError) as error:
            raise ConfigurationError(
                f"memory_bytes={memory_bytes} cannot be allocated on this machine. Choose a smaller arena."
            ) from error
        # Only the platform holds the tensors, so that closing it frees them.
        platform.attach(tensors)

    def rows(self, platform: OpenVINOPlatform) -> list[Rows]:
        """Return the memory of each cache tensor of ``platform`` by blocks; nothing once it is closed."""
        caches = sorted((name, cache) for name, cache in platform.caches.items() if name.startswith(CACHES))
        return [cache.data.view(np.uint8).reshape(self.blocks, -1) for _, cache in caches]

    @property
    def capacity_tokens(self) -> int:
        """Tokens that fit if one sequence had the whole arena."""
        return self.blocks * self.block_tokens


def _state_rows(layout: KVLayout, memory_bytes: int) -> int:
    """Return how many state rows sequences can hold, beside the row that stays zero."""
    if not layout.state_tables:
        return 0
    balanced = memory_bytes // (layout.row_bytes + _BLOCKS_PER_ROW * layout.block_bytes)
    rows = max(_LEAST_ROWS, min(balanced, memory_bytes // (2 * layout.row_bytes)))
    least = _LEAST_ROWS * layout.row_bytes + layout.block_bytes
    if memory_bytes < least:
        raise ConfigurationError(
            f"memory_bytes={memory_bytes} is too little for this hybrid model: the states of one sequence "
            f"and one KV block need {least} bytes. Give some ten times as much."
        )
    return rows - 1


def _zeroed(platform: OpenVINOPlatform, element_type: ov.Type, shape: ov.Shape) -> ov.Tensor:
    tensor = platform.allocate(element_type, shape)
    tensor.data[...] = 0
    return tensor
