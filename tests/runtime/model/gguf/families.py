"""Tiny random models of every architecture that can be converted, as GGUF files."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentrt.bench.common.random_gguf import vocabulary_metadata, write_gguf

HIDDEN, INTERMEDIATE, LAYERS, HEADS, KEY_VALUE_HEADS, HEAD_SIZE, VOCABULARY = 64, 96, 6, 4, 2, 16, 320
PROMPT = [int(token) for token in np.random.default_rng(5).integers(3, VOCABULARY, 40)]
"""Longer than the sliding windows."""
WINDOW = 9
EXPECTED_TOKENS = Path(__file__).with_name("expected_tokens.json")
"""What Transformers answers, by family; ``write_expected_tokens.py`` wrote it."""


@dataclass(frozen=True)
class Family:
    """What distinguishes a family of models in its GGUF files."""

    architecture: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Keys without the architecture's name."""
    biases: bool = False
    head_norms: bool = False
    post_norms: bool = False
    fused: bool = False
    tied: bool = False
    extra: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes of further tensors."""


FAMILIES: dict[str, Family] = {
    "llama": Family("llama"),
    "llama-tied": Family("llama", tied=True),
    "llama-biased": Family("llama", biases=True),
    "llama3": Family("llama", extra={"rope_freqs.weight": (HEAD_SIZE // 2,)}),
    "llama-linear": Family("llama", {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "mistral-sliding": Family("llama", {"attention.sliding_window": WINDOW}),
    "qwen2": Family("qwen2", biases=True),
    "qwen2-yarn": Family(
        "qwen2",
        {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 256,
            "rope.freq_base": 1e6,
        },
        biases=True,
    ),
    "qwen3": Family("qwen3", head_norms=True, tied=True),
    "gemma": Family("gemma", tied=True),
    "gemma2": Family(
        "gemma2",
        {"attention.sliding_window": WINDOW, "final_logit_softcapping": 30.0},
        post_norms=True,
        tied=True,
    ),
    "gemma3": Family(
        "gemma3",
        {
            "attention.sliding_window": WINDOW,
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
        head_norms=True,
        post_norms=True,
        tied=True,
    ),
    "phi3": Family("phi3", {"attention.sliding_window": WINDOW}, fused=True),
    "phi3-long": Family(
        "phi3",
        {"rope.scaling.original_context_length": 512, "rope.scaling.attn_factor": 1.19},
        fused=True,
        extra={
            "rope_factors_short.weight": (HEAD_SIZE // 2,),
            "rope_factors_long.weight": (HEAD_SIZE // 2,),
        },
    ),
    "smollm3": Family("smollm3", tied=True),
    "granite": Family(
        "granite",
        {"attention.scale": 0.11, "embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0},
        tied=True,
    ),
}


def weights(name: str) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a family by the names of its GGUF file, the same in every process."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    found: dict[str, NDArray[np.float32]] = {}
    for tensor, shape in _shapes(FAMILIES[name]):
        values = random.standard_normal(shape).astype(np.float32)
        if len(shape) == 2:
            values *= np.float32(1.5 / np.sqrt(shape[1]))
        elif "rope" in tensor:
            values = 1 + np.abs(values)
        else:
            values = values * np.float32(0.2) + (0 if tensor.endswith("bias") else 1)
        found[tensor] = values.astype(np.float32)
    return found


def write_family(file: Path, name: str) -> Path:
    """Write the GGUF file of a family, with a byte-level vocabulary, and return it."""
    return write_gguf(file, metadata(name), weights(name))


def vocabulary() -> dict[str, Any]:
    """Return the metadata of a byte-level vocabulary with a chat template."""
    return vocabulary_metadata(VOCABULARY)


def metadata(name: str) -> dict[str, Any]:
    """Return the metadata of a family's file, vocabulary included."""
    family = FAMILIES[name]
    own = {
        "context_length": 1024,
        "embedding_length": HIDDEN,
        "block_count": LAYERS,
        "feed_forward_length": INTERMEDIATE,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KEY_VALUE_HEADS,
        "attention.key_length": HEAD_SIZE,
        "attention.value_length": HEAD_SIZE,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": HEAD_SIZE,
        "rope.freq_base": 10_000.0,
        **family.metadata,
    }
    architecture = family.architecture
    numbers = {f"{architecture}.{key}": value for key, value in own.items()}
    return {"general.architecture": architecture, **numbers, **vocabulary()}


def _shapes(family: Family) -> Iterator[tuple[str, tuple[int, ...]]]:
    queries, keys = HEADS * HEAD_SIZE, KEY_VALUE_HEADS * HEAD_SIZE
    yield "token_embd.weight", (VOCABULARY, HIDDEN)
    yield "output_norm.weight", (HIDDEN,)
    if not family.tied:
        yield "output.weight", (VOCABULARY, HIDDEN)
    yield from family.extra.items()
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        projections = {"attn_q": queries, "attn_k": keys, "attn_v": keys}
        for projection, width in (
            {"attn_qkv": queries + 2 * keys}.items() if family.fused else projections.items()
        ):
            yield f"{block}.{projection}.weight", (width, HIDDEN)
            if family.biases:
                yield f"{block}.{projection}.bias", (width,)
        yield f"{block}.attn_output.weight", (HIDDEN, queries)
        if family.fused:
            yield f"{block}.ffn_up.weight", (2 * INTERMEDIATE, HIDDEN)
        else:
            yield f"{block}.ffn_gate.weight", (INTERMEDIATE, HIDDEN)
            yield f"{block}.ffn_up.weight", (INTERMEDIATE, HIDDEN)
        yield f"{block}.ffn_down.weight", (HIDDEN, INTERMEDIATE)
        norms = [
            "attn_norm",
            "ffn_norm",
            *(["post_attention_norm", "post_ffw_norm"] if family.post_norms else []),
        ]
        for norm in norms:
            yield f"{block}.{norm}.weight", (HIDDEN,)
        if family.head_norms:
            yield f"{block}.attn_q_norm.weight", (HEAD_SIZE,)
            yield f"{block}.attn_k_norm.weight", (HEAD_SIZE,)
