"""Writes tiny random hybrid models as optimum-intel exports them, and what transformers answers with them.

    pip install 'optimum-intel[openvino]==2.2.0' 'transformers==4.57.6'
    python tests/runtime/export_hybrids.py lfm2 qwen3-next
    pip install 'transformers==5.2.0'
    python tests/runtime/export_hybrids.py qwen3.5

Nothing is downloaded. The models lie in ``tests/runtime/hybrids``, without a tokenizer; their vocabulary has
the size of nano's. Weights are rounded to float16, in which they are stored, so that both compute with the
same ones.
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
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 2048,
    "max_position_embeddings": 2048,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
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
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "lfm2": (
        "Lfm2Config",
        {
            "layer_types": ["conv", "full_attention", "conv", "conv"],
            "block_auto_adjust_ff_dim": False,
        },
    ),
    "qwen3-next": (
        "Qwen3NextConfig",
        {**DELTA_RULE, "head_dim": 16, "num_experts": 0, "mlp_only_layers": [0, 1, 2, 3]},
    ),
    "qwen3.5": ("Qwen3_5TextConfig", {**DELTA_RULE, "head_dim": 32}),
}
PROMPTS = (1, 3, 40, 96, 300)
"""Lengths of the prompts."""
ANSWER = 24


def main(names: list[str]) -> None:
    """Export the families called ``names`` and record their greedy answers."""
    recorded = OUTPUT / "expected_tokens.json"
    expected = json.loads(recorded.read_text(encoding="utf-8")) if recorded.exists() else {}
    for name in names:
        kind, differences = FAMILIES[name]
        torch.manual_seed(0)
        config = getattr(transformers, kind)(**SMALL | differences)
        model = transformers.AutoModelForCausalLM.from_config(config).half().float().eval()
        expected[name] = [_answer(model, length) for length in PROMPTS]
        with tempfile.TemporaryDirectory() as folder:
            export_from_model(
                model=model,
                output=folder,
                task="text-generation-with-past",
                ov_config=OVConfig(dtype="fp16"),
            )
            with zipfile.ZipFile(OUTPUT / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
                for part in FILES:
                    file.write(Path(folder) / part, part)
    recorded.write_text(json.dumps(expected) + "\n", encoding="utf-8")


def _answer(model: Any, length: int) -> dict[str, list[int]]:
    prompt = np.random.default_rng(length).integers(5, SMALL["vocab_size"], length).tolist()
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
    main(sys.argv[1:])
