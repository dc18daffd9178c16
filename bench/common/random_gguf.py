"""Models of any size with random weights, as GGUF files: one file for llama.cpp and for agentrt alike.

Their output is meaningless; their speed is that of a trained model of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType
    from numpy.typing import NDArray

_CONTROL, _NORMAL, _UNUSED = 3, 1, 5
_SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE: Final = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The shape of a decoder-only model."""

    architecture: Literal["llama", "qwen2", "qwen3"]
    layers: int
    hidden: int
    intermediate: int
    heads: int
    key_value_heads: int
    vocabulary: int
    """At least 300: bytes, control tokens and a few merges come first, the rest is padding."""
    context: int = 32768

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads

    @property
    def parameters(self) -> int:
        """Number of weights in its matrices; the embedding is the LM head, too."""
        attention = 2 * self.hidden * (self.heads + self.key_value_heads) * self.head_size
        return self.vocabulary * self.hidden + self.layers * (attention + 3 * self.hidden * self.intermediate)


def write_random_gguf(file: Path, shape: ModelShape, seed: int = 0) -> None:
    """Write a model of ``shape`` with normally distributed weights in 8 bits (Q8_0), the same for each seed.

    The file has about 1.07 bytes a parameter.
    """
    import numpy as np
    from gguf import GGMLQuantizationType as Type
    from gguf.quants import quantize

    random = np.random.default_rng(seed)
    tensors: dict[str, NDArray[Any]] = {}
    for name, extents in _tensors(shape):
        if name.endswith("norm.weight"):
            tensors[name] = np.ones(extents, np.float32)
            continue
        values = random.standard_normal(extents, np.float32) * np.float32(0.02)
        tensors[name] = values if len(extents) == 1 else quantize(values, Type.Q8_0)
    write_gguf(file, _metadata(shape), tensors, Type.Q8_0)


def write_gguf(
    file: Path,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    type: GGMLQuantizationType | None = None,
) -> Path:
    """Write a GGUF file and return it. Tensors are float32, or bytes of weights of ``type``."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(file, str(metadata["general.architecture"]))
    adders: dict[Any, Callable[[str, Any], None]] = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
    }
    for key, value in metadata.items():
        if key != "general.architecture":  # which the writer has written
            add: Callable[[str, Any], None] = adders.get(value.__class__, writer.add_array)
            add(key, value)
    for name, values in tensors.items():
        writer.add_tensor(name, values, raw_dtype=type if values.dtype == np.uint8 else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def vocabulary_metadata(size: int) -> dict[str, Any]:
    """Return the metadata of a byte-level vocabulary with a chat template."""
    tokens, kinds, merges = _byte_level_vocabulary(size)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def _metadata(shape: ModelShape) -> dict[str, Any]:
    head = {"attention.key_length": shape.head_size, "attention.value_length": shape.head_size}
    values: dict[str, Any] = {
        "context_length": shape.context,
        "embedding_length": shape.hidden,
        "block_count": shape.layers,
        "feed_forward_length": shape.intermediate,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.key_value_heads,
        "vocab_size": shape.vocabulary,
        **({"rope.dimension_count": shape.head_size} if shape.architecture == "llama" else {}),
        **(head if shape.architecture == "qwen3" else {}),
        "rope.freq_base": 1e6,
        "attention.layer_norm_rms_epsilon": 1e-6,
    }
    return {
        "general.architecture": shape.architecture,
        "general.name": "random",
        "general.file_type": 7,  # mostly Q8_0
        **{f"{shape.architecture}.{name}": value for name, value in values.items()},
        **vocabulary_metadata(shape.vocabulary),
    }


def _byte_level_vocabulary(size: int) -> tuple[list[str], list[int], list[str]]:
    """Tokens, their types, and merges: byte-level BPE as in GPT-2."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    spelling = {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + at) for at, byte in enumerate(others)
    }
    merges = [(first, second) for first in "etaoin" for second in "shrdlu"]
    tokens = [*_SPECIAL, *(spelling[byte] for byte in range(256)), *(a + b for a, b in merges)]
    kinds = [_CONTROL] * len(_SPECIAL) + [_NORMAL] * (len(tokens) - len(_SPECIAL))
    padding = size - len(tokens)
    tokens += [f"[PAD{at}]" for at in range(padding)]
    return tokens, kinds + [_UNUSED] * padding, [f"{a} {b}" for a, b in merges]


def _tensors(shape: ModelShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and extents, in the order of the file."""
    hidden, queries = shape.hidden, shape.heads * shape.head_size
    keys = shape.key_value_heads * shape.head_size
    yield "token_embd.weight", (shape.vocabulary, hidden)
    yield "output_norm.weight", (hidden,)
    for layer in range(shape.layers):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", (hidden,)
        for name, width in (("q", queries), ("k", keys), ("v", keys)):
            yield f"{block}.attn_{name}.weight", (width, hidden)
            if shape.architecture == "qwen2":
                yield f"{block}.attn_{name}.bias", (width,)
        if shape.architecture == "qwen3":
            yield f"{block}.attn_q_norm.weight", (shape.head_size,)
            yield f"{block}.attn_k_norm.weight", (shape.head_size,)
        yield f"{block}.attn_output.weight", (hidden, queries)
        yield f"{block}.ffn_norm.weight", (hidden,)
        yield f"{block}.ffn_gate.weight", (shape.intermediate, hidden)
        yield f"{block}.ffn_up.weight", (shape.intermediate, hidden)
        yield f"{block}.ffn_down.weight", (hidden, shape.intermediate)
