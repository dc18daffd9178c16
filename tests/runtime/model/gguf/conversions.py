"""Compares the weights of converted GGUF files with those of the files, for every quantisation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
import openvino.opset15 as opset
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize
from numpy.typing import NDArray

from agentrt.bench.common.random_gguf import write_gguf
from agentrt.errors import ModelFormatError
from tests.runtime.model.gguf.families import VOCABULARY, vocabulary

Floats = NDArray[np.float32]

PLAIN: Final = (Type.F32, Type.F16, Type.BF16)
_HALF_A_STEP: Final = 0.5 / 127 + 1e-6
"""Of 8 bits, relative to the largest weight, with the rounding of float32."""
_SIZE, _INTERMEDIATE, _HEADS, _KEY_VALUE_HEADS = 256, 512, 4, 2
_KEYS = _SIZE // _HEADS * _KEY_VALUE_HEADS
_MATRICES: Final = {
    "token_embd": (VOCABULARY, _SIZE),
    "output": (VOCABULARY, _SIZE),
    "blk.0.attn_q": (_SIZE, _SIZE),
    "blk.0.attn_k": (_KEYS, _SIZE),
    "blk.0.attn_v": (_KEYS, _SIZE),
    "blk.0.attn_output": (_SIZE, _SIZE),
    "blk.0.ffn_gate": (_INTERMEDIATE, _SIZE),
    "blk.0.ffn_up": (_INTERMEDIATE, _SIZE),
    "blk.0.ffn_down": (_SIZE, _INTERMEDIATE),
}
_MULTIPLIED: Final = (
    ("output",),
    ("blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v"),
    ("blk.0.attn_output",),
    ("blk.0.ffn_gate", "blk.0.ffn_up"),
    ("blk.0.ffn_down",),
)
"""Those that activations are multiplied with; several that are converted to one matrix, in their order."""
_VECTORS: Final = {
    "output_norm.weight": _SIZE,
    "blk.0.attn_norm.weight": _SIZE,
    "blk.0.ffn_norm.weight": _SIZE,
    "blk.0.attn_q.bias": _SIZE,
    "blk.0.attn_k.bias": _KEYS,
    "blk.0.attn_v.bias": _KEYS,
}
_METADATA: Final[Mapping[str, Any]] = {
    "general.architecture": "qwen2",
    "qwen2.context_length": 1024,
    "qwen2.embedding_length": _SIZE,
    "qwen2.block_count": 1,
    "qwen2.feed_forward_length": _INTERMEDIATE,
    "qwen2.attention.head_count": _HEADS,
    "qwen2.attention.head_count_kv": _KEY_VALUE_HEADS,
    "qwen2.attention.layer_norm_rms_epsilon": 1e-6,
}


@dataclass(frozen=True, slots=True)
class ConvertedType:
    """How far the weights of one type are from those of the file."""

    name: str
    error: float | None
    """Largest difference of a weight, relative to the largest weight of its matrix; 0 where all are equal.
    None where the file does not convert."""

    @property
    def faithful(self) -> bool:
        """Whether every weight is the number that the ``gguf`` package reads from the file, up to 8 bits."""
        return self.error is not None and self.error <= _HALF_A_STEP


def compare_conversions(folder: Path) -> list[ConvertedType]:
    """Write a tiny model of every type to ``folder``, convert it, and compare the weights."""
    return [ConvertedType(type.name, _error(type, folder)) for type in types()]


def types() -> tuple[Type, ...]:
    """Return the types of matrices that llama.cpp writes."""
    from agentrt.runtime.model.gguf.quantisation import QUANTISED

    return (*PLAIN, *sorted(QUANTISED))


def random_blocks(type: Type, rows: int, columns: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return random moderate weights of ``type`` as ``[rows, bytes of a row]``."""
    random = np.random.default_rng([int(type), seed])
    if type in PLAIN:
        return _plain(type, random.standard_normal((rows, columns)).astype(np.float32))
    elements, size = GGML_QUANT_SIZES[type]
    found = random.integers(0, 256, (rows * columns // elements * 4, size), np.uint8)
    with np.errstate(all="ignore"):
        values = dequantize(found, type)
    largest = np.abs(values).max(axis=1)
    kept = found[np.isfinite(largest) & (largest < 1e3) & (largest > 1e-3)]
    return np.resize(kept, (rows * columns // elements, size)).reshape(rows, -1)


def _plain(type: Type, values: Floats) -> NDArray[np.uint8]:
    if type == Type.F32:
        return values.view(np.uint8)
    if type == Type.F16:
        return values.astype(np.float16).view(np.uint8)
    return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)


def _error(type: Type, folder: Path) -> float | None:
    from agentrt.runtime.model.gguf.cache import convert_gguf
    from agentrt.runtime.model.gguf.source import read_source

    matrices = {name: random_blocks(type, *shape, at) for at, (name, shape) in enumerate(_MATRICES.items())}
    tensors = {f"{name}.weight": blocks for name, blocks in matrices.items()}
    tensors |= {name: np.ones(size, np.float32) for name, size in _VECTORS.items()}
    file = write_gguf(folder / f"{type.name}.gguf", {**_METADATA, **vocabulary()}, tensors, type)
    try:
        graph = convert_gguf(read_source(file), folder) / "openvino_model.xml"
    except ModelFormatError:
        return None
    expected = [
        [np.asarray(dequantize(matrices[name], type), np.float32).reshape(_MATRICES[name]) for name in fused]
        for fused in _MULTIPLIED
    ]
    found = list(multiplied_weights(ov.Core().read_model(graph)))
    if len(found) != len(expected):
        return None
    # The graph does not say which matrix is which: each is compared with the nearest of its shape.
    return max(min(_difference(each, wanted) for each in found) for wanted in expected)


def _difference(found: Floats, wanted: Sequence[Floats]) -> float:
    """Return the largest difference between ``found`` and the matrices that it consists of."""
    ends = np.cumsum([len(part) for part in wanted])
    if found.shape != (ends[-1], wanted[0].shape[1]):
        return float("inf")
    parts = zip(np.split(found, ends[:-1]), wanted, strict=True)
    return max(float(np.abs(part - each).max() / np.abs(each).max()) for part, each in parts)


def multiplied_weights(graph: ov.Model) -> Iterator[Floats]:
    """Yield each matrix ``[rows, columns]`` that ``graph`` multiplies activations with, as OpenVINO does.

    Activations that are the rows of an identity matrix give the weights themselves. ``graph`` is changed.
    """
    products = [node for node in graph.get_ordered_ops() if _multiplies_with_weights(node)]
    states = {_key(product.input_value(0)): product.input_value(0) for product in products}
    parameters = {key: _replaced_for_products(state) for key, state in states.items()}
    outputs = [_with_offsets(product) for product in products]
    exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    cut = ov.Model(outputs, list(parameters.values()))
    identities = [
        np.eye(each.get_output_shape(0)[-1], dtype=np.float32)[None] for each in cut.get_parameters()
    ]
    for values in ov.Core().compile_model(cut, "CPU", exact)(identities).values():
        yield np.ascontiguousarray(values[0].T)


def _key(output: ov.Output) -> tuple[str, int]:
    return output.get_node().get_friendly_name(), output.get_index()


def _replaced_for_products(state: ov.Output) -> ov.op.Parameter:
    """Replace the activations ``state``, where they are multiplied with weights, by a new parameter."""
    columns = state.get_partial_shape()[-1].get_length()
    parameter = opset.parameter([1, columns, columns], ov.Type.f32)
    for target in state.get_target_inputs():
        if target.get_node().get_type_name() in ("MatMul", "Reshape"):
            target.replace_source_output(parameter.output(0))
    return parameter


def _multiplies_with_weights(node: ov.Node) -> bool:
    return (
        node.get_type_name() == "MatMul"
        and _is_constant(node.input_value(1))
        and node.input_value(0).get_node().get_type_name() != "ReduceSum"  # of offsets
    )


def _is_constant(output: ov.Output) -> bool:
    node = output.get_node()
    if not node.get_input_size():
        return bool(node.get_type_name() == "Constant")
    return all(map(_is_constant, node.input_values()))


def _with_offsets(product: ov.Node) -> ov.Output:
    """The product, with the product of offsets if there is one."""
    for target in product.output(0).get_target_inputs():
        added = target.get_node()
        if added.get_type_name() == "Add" and any(
            value.get_node().get_type_name() == "MatMul"
            and value.get_node().input_value(0).get_node().get_type_name() == "ReduceSum"
            for value in added.input_values()
        ):
            return added.output(0)
    return product.output(0)
