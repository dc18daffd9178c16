"""The architectures whose GGUF files can be converted: what the metadata of a file leave unsaid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One architecture. To add another, add its entry to :data:`ARCHITECTURES` and a test of its tokens."""

    activation: Activation = "silu"
    paired_rope: bool = False
    """Files rotate neighbouring elements of a head instead of its halves."""
    scales_embeddings: bool = False
    """Embeddings are multiplied by the root of the hidden size."""
    windowed: bool = False
    """The sliding window is in use where the metadata state one."""
    full_attention_every: int | None = None
    """Every how many layers attention has no window, where the metadata state no pattern; None: never."""
    local_rope_base: float | None = None
    """Base of the rotations in layers with a window, where the metadata state none; None: as elsewhere."""
    no_rope_every: int | None = None
    """Every how many layers positions are not embedded; None: never."""
    wide_scale_layers: int | None = None
    """Layers of the model whose queries are scaled by the hidden size instead of the head size."""
    long_rope: bool = False
    """Rotations have factors for short and for long texts; those for short ones are used."""


_GEMMA: Final = Architecture(activation="gelu_tanh", scales_embeddings=True)

ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    "llama": Architecture(paired_rope=True, windowed=True),
    "qwen2": Architecture(),
    "qwen3": Architecture(),
    "gemma": _GEMMA,
    "gemma2": Architecture(
        activation="gelu_tanh",
        scales_embeddings=True,
        windowed=True,
        full_attention_every=2,
        wide_scale_layers=46,
    ),
    "gemma3": Architecture(
        activation="gelu_tanh",
        scales_embeddings=True,
        windowed=True,
        full_attention_every=6,
        local_rope_base=10_000.0,
        wide_scale_layers=62,
    ),
    "phi3": Architecture(windowed=True, long_rope=True),
    "smollm3": Architecture(paired_rope=True, no_rope_every=4),
    "granite": Architecture(paired_rope=True),
}
"""By the name in ``general.architecture``. Mistral's files say ``llama``."""
