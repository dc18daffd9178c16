"""The KV arena: the one place where keys and values live, allocated once and never grown."""

from __future__ import annotations

import openvino as ov

from agentrt.errors import ConfigurationError

from ..model import PagedModel


class KVArena:
    """The cache tensors of one model, sized by a budget in bytes.

    The tensors are plain memory that OpenVINO updates in place; any number of infer requests over the same
    model may share them. Which block belongs to whom is :class:`BlockPool`'s business.
    """

    def __init__(self, model: PagedModel, memory_bytes: int) -> None:
        """Allocate as many blocks as fit into ``memory_bytes`` over all layers.

        Raises:
            ConfigurationError: not even one block fits, or the machine does not have that much memory.
        """
        self.block_tokens = model.block_tokens
        self.blocks = memory_bytes // model.block_bytes
        self.memory_bytes = self.blocks * model.block_bytes
        if self.blocks < 1:
            raise ConfigurationError(
                f"memory_bytes={memory_bytes} holds no KV block: this model needs {model.block_bytes} bytes "
                f"for every {model.block_tokens} tokens. Give some hundred times as much."
            )
        try:
            self._tensors = tuple(
                (cache.index, ov.Tensor(cache.element_type, ov.Shape([self.blocks, *cache.block_shape])))
                for cache in model.caches
            )
        except (MemoryError, RuntimeError) as error:
            raise ConfigurationError(
                f"memory_bytes={memory_bytes} cannot be allocated on this machine. Choose a smaller arena."
            ) from error

    @property
    def capacity_tokens(self) -> int:
        """Tokens that fit if one sequence had the whole arena."""
        return self.blocks * self.block_tokens

    def bind(self, request: ov.InferRequest) -> None:
        """Make ``request`` read and write this arena's blocks."""
        for index, tensor in self._tensors:
            request.set_input_tensor(index, tensor)
