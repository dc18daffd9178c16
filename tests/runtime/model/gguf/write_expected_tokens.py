"""Writes what Transformers answers with the weights of ``families.py``, for ``test_families.py``.

    pip install torch transformers gguf
    python -m tests.runtime.model.gguf.write_expected_tokens

Nothing is downloaded.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
import transformers

from tests.runtime.model.gguf.families import (
    EXPECTED_TOKENS,
    FAMILIES,
    HEAD_SIZE,
    HEADS,
    HIDDEN,
    INTERMEDIATE,
    KEY_VALUE_HEADS,
    LAYERS,
    PROMPT,
    VOCABULARY,
    WINDOW,
    Family,
    weights,
)

TOKENS = 24
NORMS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
SANDWICH = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
PROJECTIONS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def rope(kind: str, theta: float, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


def config(name: str) -> Any:
    common: dict[str, Any] = {
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "head_dim": HEAD_SIZE,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": FAMILIES[name].tied,
        "pad_token_id": 0,
        "eos_token_id": None,
        "attn_implementation": "eager",
    }
    factors = weights("phi3-long")
    long = {
        f"{length}_factor": factors[f"rope_factors_{length}.weight"].tolist() for length in ("short", "long")
    }
    gemma = {"sliding_window": WINDOW, "query_pre_attn_scalar": HEAD_SIZE}
    both = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    }
    original = {"original_max_position_embeddings": 512}
    granite = {"attention": 0.11, "embedding": 12.0, "residual": 0.22}
    special: dict[str, tuple[str, dict[str, Any]]] = {
        "llama-biased": ("LlamaConfig", {"attention_bias": True}),
        "llama-linear": ("LlamaConfig", rope("linear", 1e4, factor=4.0)),
        "mistral-sliding": ("MistralConfig", {"sliding_window": WINDOW}),
        "qwen2": ("Qwen2Config", {}),
        "qwen2-yarn": ("Qwen2Config", rope("yarn", 1e6, factor=4.0, original_max_position_embeddings=256)),
        "qwen3": ("Qwen3Config", {}),
        "gemma": ("GemmaConfig", {}),
        "gemma2": (
            "Gemma2Config",
            {**gemma, "attn_logit_softcapping": None, "final_logit_softcapping": 30.0},
        ),
        "gemma3": ("Gemma3TextConfig", {**gemma, "rope_parameters": both}),
        "phi3": ("Phi3Config", {"sliding_window": WINDOW}),
        "phi3-long": (
            "Phi3Config",
            {**original, **rope("longrope", 1e4, **long, **original, attention_factor=1.19)},
        ),
        "smollm3": ("SmolLM3Config", {}),
        "granite": (
            "GraniteConfig",
            {"logits_scaling": 8.0} | {f"{name}_multiplier": value for name, value in granite.items()},
        ),
    }
    kind, differences = special.get(name, ("LlamaConfig", {}))
    return getattr(transformers, kind)(**(common | differences))


def state(name: str, family: Family) -> dict[str, torch.Tensor]:
    """The weights under Transformers' names, in its order of rows, with its offsets of norms."""
    found = {}
    norms = SANDWICH if family.post_norms else NORMS
    for tensor, values in weights(name).items():
        if tensor.startswith("rope"):
            continue
        if family.architecture.startswith("gemma") and "norm" in tensor:
            values = values - 1
        parts = tensor.split(".")
        if parts[0] == "blk":
            kind = parts[2]
            if family.architecture in ("llama", "smollm3", "granite") and kind in ("attn_q", "attn_k"):
                values = _halves(values)
            target = norms.get(kind) or PROJECTIONS[kind]
            if family.fused and kind == "ffn_up":
                target = "mlp.gate_up_proj"
            found[f"model.layers.{parts[1]}.{target}.{parts[3]}"] = torch.tensor(values)
        else:
            target = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}[
                parts[0]
            ]
            found[f"{target}.weight"] = torch.tensor(values)
    return found


def _halves(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The inverse of what llama.cpp's converter does to queries and keys."""
    heads = rows.shape[0] // HEAD_SIZE
    return np.ascontiguousarray(
        rows.reshape(heads, HEAD_SIZE // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)
    )


def answer(name: str) -> dict[str, Any]:
    family = FAMILIES[name]
    model = transformers.AutoModelForCausalLM.from_config(config(name), dtype=torch.float32).eval()
    result = model.load_state_dict(state(name, family), strict=False)
    missing = [key for key in result.missing_keys if not (family.tied and key == "lm_head.weight")]
    if family.biases:  # GGUF files have them for queries, keys and values only
        missing = [key for key in missing if not key.endswith("o_proj.bias")]
        for key, value in model.named_parameters():
            if key.endswith("o_proj.bias"):
                value.data.zero_()
    assert (missing, result.unexpected_keys) == ([], []), name
    model.tie_weights()
    if name == "llama3":
        model.model.rotary_emb.inv_freq /= torch.tensor(weights(name)["rope_freqs.weight"])
    tokens = list(PROMPT)
    first = None
    with torch.no_grad():
        for _ in range(TOKENS):
            logits = model(torch.tensor([tokens]), use_cache=False).logits[0, -1]
            first = logits if first is None else first
            tokens.append(int(logits.argmax()))
    assert first is not None
    return {"tokens": tokens[len(PROMPT) :], "logits": [round(float(value), 4) for value in first[:32]]}


if __name__ == "__main__":
    EXPECTED_TOKENS.write_text(json.dumps({name: answer(name) for name in FAMILIES}) + "\n", encoding="utf-8")
