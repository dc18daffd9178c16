"""A short list of well-known models that the runtime opens, by the names with which they are pulled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RecommendedModel:
    """A model on the Hugging Face hub."""

    name: str
    """What ``agentrt pull`` takes."""
    gigabytes: float
    """Size of the download, in 10^9 bytes."""
    license: str
    good_for: str


RECOMMENDED: Final = (
    RecommendedModel(
        "Qwen/Qwen2.5-0.5B-Instruct-GGUF:q4_k_m", 0.49, "Apache 2.0", "trying it; drafts for larger Qwen2.5"
    ),
    RecommendedModel(
        "Qwen/Qwen3-0.6B-GGUF:q8_0", 0.64, "Apache 2.0", "simple tool calls in little memory; reasons first"
    ),
    RecommendedModel(
        "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF:q4_k_m", 1.06, "Apache 2.0", "chat and summaries in English"
    ),
    RecommendedModel(
        "Qwen/Qwen2.5-1.5B-Instruct-GGUF:q4_k_m",
        1.12,
        "Apache 2.0",
        "tool calls in many languages",
    ),
    RecommendedModel(
        "ibm-granite/granite-3.3-2b-instruct-GGUF:q4_k_m",
        1.55,
        "Apache 2.0",
        "tool calls, long texts",
    ),
    RecommendedModel(
        "Qwen/Qwen3-1.7B-GGUF:q8_0", 1.83, "Apache 2.0", "tool calls, many languages; reasons first"
    ),
    RecommendedModel(
        "ggml-org/SmolLM3-3B-GGUF:q4_k_m", 1.92, "Apache 2.0", "tool calls, six languages; reasons first"
    ),
    RecommendedModel(
        "bartowski/Llama-3.2-3B-Instruct-GGUF:q4_k_m", 2.02, "Llama 3.2", "chat, summaries, tool calls"
    ),
    RecommendedModel(
        "ggml-org/gemma-3-4b-it-GGUF:q4_k_m",
        2.49,
        "Gemma",
        "chat in very many languages; text only",
    ),
    RecommendedModel(
        "Qwen/Qwen3-4B-GGUF:q4_k_m", 2.50, "Apache 2.0", "agents with several tools; reasons first"
    ),
    RecommendedModel(
        "OpenVINO/Qwen3-8B-int4-ov", 4.88, "Apache 2.0", "agents on a machine with a GPU; reasons first"
    ),
)
"""Smallest first. Sizes are those of the published files."""
