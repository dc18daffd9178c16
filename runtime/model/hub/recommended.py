"""A short list of well-known models that the runtime opens, by the names with which they are pulled."""

from __future__ import annotations

from typing import Final, NamedTuple


class RecommendedModel(NamedTuple):
    """A model on the Hugging Face hub."""

    name: str
    """What ``agentrt pull`` takes."""
    gigabytes: float
    """Size of the download, in 10^9 bytes, as published."""
    license: str
    good_for: str


_APACHE: Final = "Apache 2.0"
RECOMMENDED: Final = tuple(
    RecommendedModel(*each)
    for each in (
        ("Qwen/Qwen2.5-0.5B-Instruct-GGUF:q4_k_m", 0.49, _APACHE, "trying it; drafts for larger Qwen2.5"),
        ("Qwen/Qwen3-0.6B-GGUF:q8_0", 0.64, _APACHE, "simple tool calls in little memory; reasons first"),
        ("HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF:q4_k_m", 1.06, _APACHE, "chat and summaries in English"),
        ("Qwen/Qwen2.5-1.5B-Instruct-GGUF:q4_k_m", 1.12, _APACHE, "tool calls in many languages"),
        ("ibm-granite/granite-3.3-2b-instruct-GGUF:q4_k_m", 1.55, _APACHE, "tool calls, long texts"),
        ("Qwen/Qwen3-1.7B-GGUF:q8_0", 1.83, _APACHE, "tool calls, many languages; reasons first"),
        ("ggml-org/SmolLM3-3B-GGUF:q4_k_m", 1.92, _APACHE, "tool calls, six languages; reasons first"),
        ("bartowski/Llama-3.2-3B-Instruct-GGUF:q4_k_m", 2.02, "Llama 3.2", "chat, summaries, tool calls"),
        ("ggml-org/gemma-3-4b-it-GGUF:q4_k_m", 2.49, "Gemma", "chat in very many languages; text only"),
        ("Qwen/Qwen3-4B-GGUF:q4_k_m", 2.50, _APACHE, "agents with several tools; reasons first"),
        ("OpenVINO/Qwen3-8B-int4-ov", 4.88, _APACHE, "agents on a machine with a GPU; reasons first"),
    )
)
"""Smallest first."""
