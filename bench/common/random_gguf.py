"""Models of any size with random weights, as GGUF files: one file for llama.cpp and for agentrt alike.

Their output is meaningless; their speed is that of a trained model of the same shape.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ALIGNMENT: Final = 32
_F32, _Q8_0 = 0, 8
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
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
        """Width of one attention head."""
        return self.hidden // self.heads

    @property
    def parameters(self) -> int:
        """Number of weights in its matrices; the embedding is the LM head, too."""
        attention = 2 * self.hidden * (self.heads + self.key_value_heads) * self.head_size
        return self.vocabulary * self.hidden + self.layers * (attention + 3 * self.hidden * self.intermediate)


HALF_BILLION: Final = ModelShape("qwen2", 24, 896, 4864, 14, 2, 32000)
"""Qwen2.5-0.5B, but for its vocabulary: 388 million parameters."""


def write_random_gguf(file: Path, shape: ModelShape, seed: int = 0) -> None:
    """Write a model of ``shape`` with normally distributed weights in 8 bits (Q8_0), the same for each seed.

    Holds one tensor in memory at a time; the file has about 1.07 bytes a parameter.
    """
    tensors = list(_tensors(shape))
    with file.open("wb") as stream:
        metadata = _metadata(shape)
        stream.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata)))
        for key, (kind, value) in metadata.items():
            stream.write(_text(key) + struct.pack("<I", kind) + _value(kind, value))
        offset = 0
        for name, extents in tensors:
            kind = _Q8_0 if len(extents) == 2 else _F32
            # GGUF counts the innermost extent first.
            stream.write(_text(name) + struct.pack(f"<I{len(extents)}Q", len(extents), *reversed(extents)))
            stream.write(struct.pack("<IQ", kind, offset))
            offset += _aligned(_size(extents))
        stream.write(bytes(-stream.tell() % _ALIGNMENT))
        for data in _weights(tensors, seed):
            stream.write(data.tobytes())
            stream.write(bytes(-data.nbytes % _ALIGNMENT))


def random_model_directory(folder: Path, shape: ModelShape, progress: Callable[[str], None]) -> Path:
    """Write a model of ``shape`` to ``folder`` and return its OpenVINO directory, for all sides of a bench.

    The conversion is kept in the cache of converted models; ``folder`` may be deleted afterwards.
    """
    from agentrt.runtime.model.directory import open_model_directory

    progress(f"writing a model of {shape.parameters / 1e6:.0f} million random weights in 8 bits")
    file = folder / "random.gguf"
    write_random_gguf(file, shape)
    return open_model_directory(file).path


def _metadata(shape: ModelShape) -> Mapping[str, tuple[int, Any]]:
    architecture = shape.architecture
    tokens, kinds, merges = byte_level_vocabulary(shape.vocabulary)
    head = {"attention.key_length": shape.head_size, "attention.value_length": shape.head_size}
    numbers = {
        "context_length": shape.context,
        "embedding_length": shape.hidden,
        "block_count": shape.layers,
        "feed_forward_length": shape.intermediate,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.key_value_heads,
        "vocab_size": shape.vocabulary,
        **({"rope.dimension_count": shape.head_size} if architecture == "llama" else {}),
        **(head if architecture == "qwen3" else {}),
    }
    return {
        "general.architecture": (_STRING, architecture),
        "general.name": (_STRING, "random"),
        "general.file_type": (_UINT32, 7),  # mostly Q8_0
        **{f"{architecture}.{name}": (_UINT32, number) for name, number in numbers.items()},
        f"{architecture}.rope.freq_base": (_FLOAT32, 1e6),
        f"{architecture}.attention.layer_norm_rms_epsilon": (_FLOAT32, 1e-6),
        "tokenizer.ggml.model": (_STRING, "gpt2"),
        "tokenizer.ggml.pre": (_STRING, "qwen2"),
        "tokenizer.ggml.tokens": (_ARRAY, (_STRING, tokens)),
        "tokenizer.ggml.token_type": (_ARRAY, (_INT32, kinds)),
        "tokenizer.ggml.merges": (_ARRAY, (_STRING, merges)),
        "tokenizer.ggml.bos_token_id": (_UINT32, 0),
        "tokenizer.ggml.eos_token_id": (_UINT32, 2),
        "tokenizer.ggml.padding_token_id": (_UINT32, 0),
        "tokenizer.ggml.add_bos_token": (_BOOL, False),
        "tokenizer.chat_template": (_STRING, CHAT_TEMPLATE),
    }


def byte_level_vocabulary(size: int) -> tuple[list[str], list[int], list[str]]:
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


def _weights(tensors: Sequence[tuple[str, tuple[int, ...]]], seed: int) -> Iterator[NDArray[Any]]:
    import numpy as np

    random = np.random.default_rng(seed)
    for name, extents in tensors:
        if name.endswith("norm.weight"):
            yield np.ones(extents, np.float32)
            continue
        values = random.standard_normal(extents, np.float32) * np.float32(0.02)
        yield values if len(extents) == 1 else _quantise(values)


def _quantise(values: NDArray[np.float32]) -> NDArray[Any]:
    """Q8_0: 32 weights share a float16 scale."""
    import numpy as np

    blocks = values.reshape(-1, 32)
    scales = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype(np.float16)
    packed = np.empty(len(blocks), np.dtype([("scale", np.float16), ("weights", np.int8, 32)]))
    packed["scale"] = scales[:, 0]
    packed["weights"] = np.rint(blocks / np.maximum(scales.astype(np.float32), 1e-12))
    return packed


def _size(extents: tuple[int, ...]) -> int:
    elements = 1
    for extent in extents:
        elements *= extent
    return elements * 34 // 32 if len(extents) == 2 else elements * 4


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _value(kind: int, value: Any) -> bytes:
    if kind == _STRING:
        return _text(value)
    if kind == _ARRAY:
        inner, items = value
        return struct.pack("<IQ", inner, len(items)) + b"".join(_value(inner, item) for item in items)
    layouts = {_UINT32: "<I", _INT32: "<i", _FLOAT32: "<f", _BOOL: "<?"}
    return struct.pack(layouts[kind], value)
