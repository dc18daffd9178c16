"""Writes tiny random models of many families as optimum-intel exports them, for tests that cut models.

    pip install 'agentrt[train]'
    python tests/runtime/export_families.py FOLDER
    AGENTRT_EXPORTS=FOLDER pytest tests/runtime/heg tests/runtime/xpu

Nothing is downloaded. A family that cannot be exported with the installed versions is named and left out:
Gemma needs transformers 5.0 or older.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from optimum.exporters.openvino import export_from_model

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 256,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama2": ("LlamaConfig", {"num_key_value_heads": 4}),
    "llama3": ("LlamaConfig", {"rope_scaling": LLAMA3_ROPE}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "qwen3-moe": ("Qwen3MoeConfig", {"head_dim": 16, **EXPERTS}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "mistral-sliding": ("MistralConfig", {"sliding_window": 64}),
    "phi2": ("PhiConfig", {"num_key_value_heads": 4}),
    "phi3": ("Phi3Config", {}),
    "gemma": ("GemmaConfig", {"head_dim": 16}),
    "gemma2": ("Gemma2Config", {"head_dim": 16, "sliding_window": 64}),
    "gemma3": ("Gemma3TextConfig", {"head_dim": 16, "sliding_window": 64}),
}


def main(folder: Path) -> None:
    """Export every family that can be."""
    for name, (kind, differences) in FAMILIES.items():
        torch.manual_seed(0)
        config = getattr(transformers, kind)(**SMALL | differences)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        try:
            export_from_model(model=model, output=folder / name, task="text-generation-with-past")
        except (RuntimeError, ValueError) as error:
            print(f"{name} cannot be exported: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
