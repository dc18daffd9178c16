"""From trained weights to a standard OpenVINO model directory, as any other model has.

The weights become a Hugging Face Qwen2 checkpoint; ``optimum-intel`` exports it with int8 weights;
``openvino_tokenizers`` converts the tokenizer.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrt.runtime.files.checksums import write_checksums

from ..markup import CHAT_TEMPLATE
from .sizes import NetworkConfig

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

_END_OF_TEXT, _END_OF_TURN = 0, 2
_KEPT = (
    "openvino_model",
    "openvino_tokenizer",
    "openvino_detokenizer",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)


def _hugging_face_config(config: NetworkConfig) -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": 1,
        "intermediate_size": config.intermediate_size,
        "vocab_size": config.vocabulary_size,
        "max_position_embeddings": config.context_length,
        "rms_norm_eps": config.norm_epsilon,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "attention_dropout": 0.0,
        "use_cache": True,
        "use_sliding_window": False,
        "bos_token_id": None,
        "eos_token_id": _END_OF_TURN,
        "pad_token_id": _END_OF_TEXT,
        "torch_dtype": "float32",
    }


def _hugging_face_weights(weights: dict[str, Tensor], config: NetworkConfig) -> dict[str, Tensor]:
    query, head, inner = config.heads * config.head_size, config.head_size, config.intermediate_size
    renamed = {"model.embed_tokens.weight": weights["embedding"], "model.norm.weight": weights["final_norm"]}
    for index in range(config.layers):
        source, target = f"layers.{index}.", f"model.layers.{index}."
        for suffix, name in (("weight", "qkv"), ("bias", "qkv_bias")):
            for projection, part in zip(
                "qkv", weights[source + name].split([query, head, head]), strict=True
            ):
                renamed[f"{target}self_attn.{projection}_proj.{suffix}"] = part
        gate, up = weights[source + "gate_up"].split(inner)
        renamed |= {
            target + "self_attn.o_proj.weight": weights[source + "attention_out"],
            target + "mlp.gate_proj.weight": gate,
            target + "mlp.up_proj.weight": up,
            target + "mlp.down_proj.weight": weights[source + "down"],
            target + "input_layernorm.weight": weights[source + "attention_norm"],
            target + "post_attention_layernorm.weight": weights[source + "mlp_norm"],
        }
    return {name: tensor.contiguous() for name, tensor in renamed.items()}


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def export(weights: dict[str, Tensor], config: NetworkConfig, tokenizer: Tokenizer, directory: Path) -> None:
    """Write an int8 OpenVINO model directory; an existing one is replaced as a whole."""
    import openvino as ov
    from openvino_tokenizers import convert_tokenizer
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig
    from safetensors.torch import save_file
    from transformers import PreTrainedTokenizerFast

    with tempfile.TemporaryDirectory() as scratch:
        checkpoint, exported = Path(scratch, "checkpoint"), Path(scratch, "exported")
        checkpoint.mkdir()
        _write_json(checkpoint / "config.json", _hugging_face_config(config))
        save_file(
            _hugging_face_weights(weights, config),
            checkpoint / "model.safetensors",
            metadata={"format": "pt"},
        )
        model = OVModelForCausalLM.from_pretrained(
            checkpoint, export=True, compile=False, quantization_config=OVWeightQuantizationConfig(bits=8)
        )
        model.save_pretrained(exported)
        tokenizer.save(str(exported / "tokenizer.json"))
        fast = PreTrainedTokenizerFast(
            tokenizer_file=str(exported / "tokenizer.json"),
            eos_token="<|im_end|>",
            pad_token="<|endoftext|>",
            clean_up_tokenization_spaces=False,
            model_max_length=config.context_length,
            chat_template=CHAT_TEMPLATE,
        )
        encoder, decoder = convert_tokenizer(fast, with_detokenizer=True, skip_special_tokens=True)
        ov.save_model(encoder, exported / "openvino_tokenizer.xml", compress_to_fp16=False)
        ov.save_model(decoder, exported / "openvino_detokenizer.xml", compress_to_fp16=False)
        fast.save_pretrained(exported)
        tokenizer.save(str(exported / "tokenizer.json"))
        (exported / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
        _write_json(
            exported / "generation_config.json",
            {
                "do_sample": False,
                "eos_token_id": _END_OF_TURN,
                "pad_token_id": _END_OF_TEXT,
                "max_new_tokens": 256,
            },
        )
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for path in sorted(exported.iterdir()):
            if path.name.startswith(_KEPT):
                shutil.copy(path, directory / path.name)
        write_checksums(directory)
