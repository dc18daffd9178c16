"""The sizes of the networks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of one model. The head size is 64, one KV head serves all query heads, embeddings are tied."""

    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    vocabulary_size: int = 2048
    context_length: int = 2048
    rope_theta: float = 1e6
    norm_epsilon: float = 1e-6

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.heads


SIZES = {
    "main": NetworkConfig(hidden_size=192, layers=6, heads=3, intermediate_size=512),
    "draft": NetworkConfig(hidden_size=128, layers=4, heads=2, intermediate_size=320),
}
