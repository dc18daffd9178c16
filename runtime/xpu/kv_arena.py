"""The KV arena: the memory of all keys and values, allocated once and never grown."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import openvino as ov

from agentrt.errors import ConfigurationError

from ..context.saved_contexts import Rows
from ..model.kv_layout import KVLayout
from .platforms import OpenVINOPlatform


class KVArena:
    """The cache tensors of one model, sized by a budget in bytes.

    The tensors are plain memory that OpenVINO updates in place; all XPUs of a platform share them.
    :class:`BlockPool` accounts for the blocks.
    """

    def __init__(self, layout: KVLayout, platform: OpenVINOPlatform, memory_bytes: int) -> None:
        """Allocate as many blocks as ``memory_bytes`` holds over all layers, and attach them to ``platform``.

        Raises:
            ConfigurationError: not even one block fits, or the machine does not have that much memory.
        """
        self.block_tokens = layout.block_tokens
        self.blocks = memory_bytes // layout.block_bytes
        self.memory_bytes = self.blocks * layout.block_bytes
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
            }
        except (MemoryError, RuntimeError) as error:
            raise ConfigurationError(
                f"memory_bytes={memory_bytes} cannot be allocated on this machine. Choose a smaller arena."
            ) from error
        # Only the platform holds the tensors, so that closing it frees them.
        platform.attach(tensors)

    def rows(self, platform: OpenVINOPlatform) -> list[Rows]:
        """Return the memory of each cache tensor of ``platform`` by blocks; nothing once it is closed."""
        caches = sorted(platform.caches.items())
        return [cache.data.view(np.uint8).reshape(self.blocks, -1) for _, cache in caches]

    @property
    def capacity_tokens(self) -> int:
        """Tokens that fit if one sequence had the whole arena."""
        return self.blocks * self.block_tokens
