"""Writes tiny random models as optimum-intel exports them. Nothing is downloaded.

Models of many families, for tests that cut models. One that cannot be exported with the installed versions is
named and left out: Gemma needs transformers 5.0 or older::

    pip install 'agentrt[train]'
    python tests/runtime/export_models.py FOLDER
    AGENTRT_EXPORTS=FOLDER pytest tests/runtime/heg tests/runtime/xpu

Hybrid models, and what transformers answers with them. They lie in ``tests/runtime/hybrids``, without a
tokenizer; their vocabulary has the size of nano's. Weights are rounded to float16, in which they are stored,
so that both compute with the same ones::

    pip install 'optimum-intel[openvino]==2.2.0' 'transformers==4.57.6'
    python tests/runtime/export_models.py lfm2 qwen3-next
    pip install 'transformers==5.2.0'
    python tests/runtime/export_models.py qwen3.5
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from optimum.exporters.openvino import export_from_model
from optimum.intel.openvino import OVConfig

OUTPUT = Path(__file__).parent / "hybrids"
FILES = ("openvino_model.xml", "openvino_model.bin", "config.json")
TOKENS: dict[str, Any] = {"num_hidden_layers": 4, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SMALL: dict[str, Any] = TOKENS | {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
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
SMALL_HYBRID: dict[str, Any] = TOKENS | {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 2048,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "initializer_range": 0.3,
}
DELTA_RULE = {
    "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,  # grouped, as in the models that are published
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
CONVOLUTIONS = {"layer_types": ["conv", "full_attention", "conv", "conv"], "block_auto_adjust_ff_dim": False}
DENSE = {"head_dim": 16, "num_experts": 0, "mlp_only_layers": [0, 1, 2, 3]}
HYBRIDS: dict[str, tuple[str, dict[str, Any]]] = {
    "lfm2": ("Lfm2Config", CONVOLUTIONS),
    "qwen3-next": ("Qwen3NextConfig", DELTA_RULE | DENSE),
    "qwen3.5": ("Qwen3_5TextConfig", DELTA_RULE | {"head_dim": 32}),
}
PROMPTS = (1, 3, 40, 96, 300)
"""Lengths of the prompts."""
ANSWER = 24


def new_model(kind: str, settings: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**settings)).eval()


def export(model: Any, folder: Path, **options: Any) -> None:
    export_from_model(model=model, output=folder, task="text-generation-with-past", **options)


def export_families(folder: Path) -> None:
    """Export every family that can be."""
    for name, (kind, differences) in FAMILIES.items():
        try:
            export(new_model(kind, SMALL | differences), folder / name)
        except (RuntimeError, ValueError) as error:
            print(f"{name} cannot be exported: {str(error).splitlines()[0]}")


def export_hybrids(names: list[str]) -> None:
    """Export the hybrid families called ``names`` and record their greedy answers."""
    recorded = OUTPUT / "expected_tokens.json"
    expected = json.loads(recorded.read_text(encoding="utf-8")) if recorded.exists() else {}
    for name in names:
        kind, differences = HYBRIDS[name]
        model = new_model(kind, SMALL_HYBRID | differences).half().float()
        expected[name] = [_answer(model, length) for length in PROMPTS]
        with tempfile.TemporaryDirectory() as folder:
            export(model, Path(folder), ov_config=OVConfig(dtype="fp16"))
            with zipfile.ZipFile(OUTPUT / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
                for part in FILES:
                    file.write(Path(folder) / part, part)
    recorded.write_text(json.dumps(expected) + "\n", encoding="utf-8")


def _answer(model: Any, length: int) -> dict[str, list[int]]:
    prompt = np.random.default_rng(length).integers(5, SMALL_HYBRID["vocab_size"], length).tolist()
    tokens = list(prompt)
    for _ in range(ANSWER):
        # Without a cache: that of LFM2 in transformers loses the first token of a prompt of one token.
        with torch.no_grad():
            logits = model(torch.tensor([tokens]), use_cache=False).logits[0, -1]
        first, second = logits.topk(2).values.tolist()
        assert first - second > 1e-4, "too close to tell which token is the greedy one"
        tokens.append(int(logits.argmax()))
    return {"prompt": prompt, "answer": tokens[length:]}


if __name__ == "__main__":
    if sys.argv[1] in HYBRIDS:
        export_hybrids(sys.argv[1:])
    else:
        export_families(Path(sys.argv[1]))
