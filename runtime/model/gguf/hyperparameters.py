"""Reads from a GGUF file's metadata what its architecture computes, with what the metadata leave unsaid."""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from agentrt.errors import ModelFormatError

_log: Final = logging.getLogger(__name__)

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
    "gemma2": replace(_GEMMA, windowed=True, full_attention_every=2, wide_scale_layers=46),
    "gemma3": replace(
        _GEMMA, windowed=True, full_attention_every=6, local_rope_base=10_000.0, wide_scale_layers=62
    ),
    "phi3": Architecture(windowed=True, long_rope=True),
    "smollm3": Architecture(paired_rope=True, no_rope_every=4),
    "granite": Architecture(paired_rope=True),
}
"""By the name in ``general.architecture``. Mistral's files say ``llama``."""

_MOST_LAYERS: Final = 1024
_MOST_HEADS: Final = 1024
_LARGEST_HEAD: Final = 1024


@dataclass(frozen=True, slots=True)
class Rope:
    """A rotary position embedding."""

    frequencies: tuple[float, ...]
    """Radians per position, one for each pair of rotated elements of a head."""
    attention_factor: float = 1.0
    """Multiplies sines and cosines."""
    factors: str | None = None
    """Name of the tensor that the frequencies are divided by, if the file has it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What differs between the layers of one model."""

    rope: Rope | None
    """None where positions are not embedded (NoPE)."""
    sliding_window: int | None
    """Positions that a token attends to, with its own; None for all before it."""


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """The numbers and choices of one decoder-only model."""

    architecture: str
    layers: tuple[Layer, ...]
    hidden: int
    heads: int
    key_value_heads: int
    head_size: int
    context_length: int
    """The most tokens of prompt and answer together."""
    norm_epsilon: float
    attention_scale: float
    activation: Activation = "silu"
    paired_rope: bool = False
    """Rows of queries and keys are interleaved: they rotate in pairs."""
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    """Multiplies the logits."""
    logit_softcap: float | None = None


class _Metadata:
    """The metadata of one architecture, by keys without its name."""

    def __init__(self, metadata: Mapping[str, Any], architecture: str) -> None:
        self._metadata = metadata
        self._name = architecture
        self.architecture = ARCHITECTURES[architecture]

    def number(self, key: str, default: float | None = None) -> float:
        name = f"{self._name}.{key}"
        value = self._metadata.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ModelFormatError(
                f"its metadata state no usable {name} ({_shown(value)}). Download the file again, or another "
                "conversion of the model."
            )
        return value

    def positive(self, key: str, default: float | None = None) -> float:
        value = self.number(key, default)
        if value <= 0:
            raise self._impossible(key, value)
        return value

    def count(self, key: str, default: int | None = None, most: int = 2**31) -> int:
        value = self.number(key, default)
        if value != int(value) or not 0 < value <= most:
            raise self._impossible(key, value)
        return int(value)

    def _impossible(self, key: str, value: float) -> ModelFormatError:
        return ModelFormatError(
            f"its metadata state {self._name}.{key} = {value:g}, which is impossible. Download it "
            "again, or another conversion of the model."
        )

    def optional(self, key: str) -> float | None:
        return self.number(key) if f"{self._name}.{key}" in self._metadata else None

    def get(self, key: str) -> Any:
        return self._metadata.get(f"{self._name}.{key}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:40]}…"


def read_hyperparameters(metadata: Mapping[str, Any]) -> Hyperparameters:
    """Return what the metadata say of the model.

    Raises:
        ModelFormatError: the architecture or one of its options is unknown, or a number is missing or
            impossible.
    """
    architecture = str(metadata.get("general.architecture", ""))
    if architecture not in ARCHITECTURES:
        raise ModelFormatError(
            f"its architecture {architecture!r} is unknown here. {_nearest(architecture)} Known are "
            f"{', '.join(ARCHITECTURES)} (Mistral's files say llama). Export other models by optimum-cli "
            "export openvino."
        )
    read = _Metadata(metadata, architecture)
    if read.optional("expert_count"):
        raise ModelFormatError(
            f"it is a mixture of experts ({architecture}), which cannot be converted. Export the model by "
            "optimum-cli export openvino, or use a dense model."
        )
    hidden = read.count("embedding_length")
    heads = read.count("attention.head_count", most=_MOST_HEADS)
    key_value_heads = read.count("attention.head_count_kv", heads)
    head_size = read.count("attention.key_length", max(1, hidden // heads), _LARGEST_HEAD)
    if (
        heads % key_value_heads
        or head_size % 2
        or read.count("attention.value_length", head_size) != head_size
    ):
        raise ModelFormatError(
            f"its {heads} heads of {head_size} share {key_value_heads} heads of keys and values, which is "
            "impossible or unknown here. Download the file again, or another conversion of the model."
        )
    if read.optional("attn_logit_softcapping"):
        _log.warning(
            "The model caps its attention scores smoothly; paged attention cannot, so that its answers may "
            "differ a little from the original's."
        )
    return Hyperparameters(
        architecture=architecture,
        layers=_layers(read, head_size),
        hidden=hidden,
        heads=heads,
        key_value_heads=key_value_heads,
        head_size=head_size,
        context_length=_context_length(read),
        norm_epsilon=read.positive("attention.layer_norm_rms_epsilon"),
        attention_scale=_attention_scale(read, hidden, heads, head_size),
        activation=read.architecture.activation,
        paired_rope=read.architecture.paired_rope,
        embedding_scale=(
            math.sqrt(hidden) if read.architecture.scales_embeddings else read.number("embedding_scale", 1.0)
        ),
        residual_scale=read.number("residual_scale", 1.0),
        logit_scale=1.0 / read.positive("logit_scale", 1.0),
        logit_softcap=read.optional("final_logit_softcapping") or None,
    )


def _nearest(architecture: str) -> str:
    found = difflib.get_close_matches(architecture, ARCHITECTURES, 1, 0.4)
    return f"The nearest one that can be converted is {found[0]!r}." if found else ""


def _context_length(read: _Metadata) -> int:
    """The trained context; with LongRoPE, the part of it for which the factors of short texts hold."""
    length = read.count("context_length")
    if read.get("rope.scaling.type") == "longrope" or read.architecture.long_rope:
        return min(length, read.count("rope.scaling.original_context_length", length))
    return length


def _attention_scale(read: _Metadata, hidden: int, heads: int, head_size: int) -> float:
    if read.count("block_count") == read.architecture.wide_scale_layers:
        head_size = hidden // heads
    return read.number("attention.scale", head_size**-0.5)


def _layers(read: _Metadata, head_size: int) -> tuple[Layer, ...]:
    rope = _rope(read, head_size)
    window = read.number("attention.sliding_window", 0) if read.architecture.windowed else 0
    return tuple(
        Layer(
            rope=_layer_rope(read, head_size, rope, index),
            sliding_window=int(window) if window > 0 and _slides(read, index) else None,
        )
        for index in range(read.count("block_count", most=_MOST_LAYERS))
    )


def _slides(read: _Metadata, index: int) -> bool:
    """Whether the attention of a layer has a sliding window, in a model that has one."""
    pattern = read.get("attention.sliding_window_pattern")
    if isinstance(pattern, list) and index < len(pattern):
        return bool(pattern[index])
    period = pattern if isinstance(pattern, int) else read.architecture.full_attention_every
    return not period or (index + 1) % period != 0


def _layer_rope(read: _Metadata, head_size: int, rope: Rope, index: int) -> Rope | None:
    every, local_base = read.architecture.no_rope_every, read.architecture.local_rope_base
    if every is not None and (index + 1) % every == 0:
        return None
    if local_base is not None and _slides(read, index):
        return Rope(_frequencies(read.positive("rope.freq_base_swa", local_base), head_size))
    return rope


def _rope(read: _Metadata, head_size: int) -> Rope:
    dimensions = read.count("rope.dimension_count", head_size)
    if dimensions % 2 or dimensions > head_size:
        raise ModelFormatError(
            f"its metadata rotate {dimensions} elements of heads of {head_size}. Download the file again, or "
            "another conversion of the model."
        )
    base = read.positive("rope.freq_base", 10_000.0)
    frequencies = _frequencies(base, dimensions)
    scaling = read.get("rope.scaling.type")
    factor = read.positive("rope.scaling.factor", 1.0)
    attention_factor = read.positive("rope.scaling.attn_factor", 1.0)
    if read.architecture.long_rope:
        return Rope(frequencies, attention_factor, "rope_factors_short.weight")
    if scaling in (None, "none", "linear"):
        if scaling == "linear":
            frequencies = tuple(frequency / factor for frequency in frequencies)
        return Rope(frequencies, factors="rope_freqs.weight")
    if scaling == "yarn":
        original = read.count("rope.scaling.original_context_length")
        return Rope(
            _yarn(frequencies, base, factor, original), attention_factor * (0.1 * math.log(factor) + 1.0)
        )
    raise ModelFormatError(
        f"its position embedding is scaled by {scaling!r}, which is unknown here. Known are linear, yarn and "
        "Phi-3's longrope. Export the model by optimum-cli export openvino."
    )


def _frequencies(base: float, dimensions: int) -> tuple[float, ...]:
    return tuple(base ** (-2 * pair / dimensions) for pair in range(dimensions // 2))


def _yarn(frequencies: tuple[float, ...], base: float, factor: float, original: int) -> tuple[float, ...]:
    """YaRN: high frequencies stay, low ones are divided by ``factor``, with a ramp between them."""

    def pair_with_rotations(rotations: float) -> float:
        return len(frequencies) * math.log(original / (rotations * 2 * math.pi)) / math.log(base)

    low = max(math.floor(pair_with_rotations(32)), 0)
    high = min(math.ceil(pair_with_rotations(1)), 2 * len(frequencies) - 1)
    ramp = [min(max((pair - low) / max(high - low, 0.001), 0.0), 1.0) for pair in range(len(frequencies))]
    return tuple(
        frequency * (1 - share) + frequency / factor * share
        for frequency, share in zip(frequencies, ramp, strict=True)
    )
