"""New weights in the place of those in a model directory: the same graph, names and 8-bit format.

Matrices are in 8 bits with a scale and a zero point per row, vectors in fp32, in the order of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from agentrt.errors import ConfigurationError
from agentrt.runtime.files.checksums import write_checksums

from .recipes import NetworkConfig

Array = NDArray[Any]


class _Constant(NamedTuple):
    """Where a constant of the graph lies in the file of weights."""

    offset: int
    size: int


class _Graph(NamedTuple):
    """A graph's constants: matrices under their own names, vectors under that of the module they serve."""

    matrices: Mapping[str, _Constant]
    vectors: Mapping[str, _Constant]


def refill(directory: Path, weights: Mapping[str, Array], config: NetworkConfig) -> None:
    """Write ``weights``, named as the training network names them, into the model in ``directory``.

    Raises:
        ConfigurationError: the model there has another shape than ``config``.
    """
    path = directory / "openvino_model.bin"
    content = bytearray(path.read_bytes())
    graph = _read(directory / "openvino_model.xml")
    try:
        for place, value in _placed(graph, _split(weights, config)):
            stored = value.tobytes()
            if len(stored) != place.size:
                raise KeyError(place)
            content[place.offset : place.offset + place.size] = stored
    except KeyError as error:
        raise ConfigurationError(
            f"the model in {directory} has another shape than these weights. Train the size that it has."
        ) from error
    path.write_bytes(content)
    write_checksums(directory)


def _read(path: Path) -> _Graph:
    root = ElementTree.parse(path).getroot()
    layers = {str(layer.get("id")): layer for layer in root.iter("layer")}
    matrices: dict[str, _Constant] = {}
    vectors: dict[str, _Constant] = {}
    for edge in root.iter("edge"):
        layer, user = layers[str(edge.get("from-layer"))], layers[str(edge.get("to-layer"))]
        data = layer.find("data")
        if layer.get("type") != "Const" or data is None:
            continue
        constant = _Constant(int(data.attrib["offset"]), int(data.attrib["size"]))
        name = str(layer.get("name"))
        if name.startswith("self."):
            matrices[name] = constant
        elif data.attrib["element_type"] == "f32" and constant.size > np.float32().nbytes:
            vectors[str(user.get("name")).removeprefix("__module.").split("/")[0]] = constant
    return _Graph(matrices, vectors)


def _split(weights: Mapping[str, Array], config: NetworkConfig) -> dict[str, Array]:
    """The weights under the names of :class:`_Graph`."""
    width, head = config.heads * config.head_size, config.head_size
    named = {"self.model.embed_tokens.weight": weights["embedding"], "model.norm": weights["final_norm"]}
    for index in range(config.layers):
        source, target, module = f"layers.{index}.", f"self.model.layers.{index}.", f"model.layers.{index}."
        parts = zip(
            "qkv",
            np.split(weights[source + "qkv"], [width, width + head]),
            np.split(weights[source + "qkv_bias"], [width, width + head]),
            strict=True,
        )
        for name, matrix, bias in parts:
            named[f"{target}self_attn.{name}_proj.weight"] = matrix
            named[f"{module}self_attn.{name}_proj"] = bias
        gate, up = np.split(weights[source + "gate_up"], 2)
        named |= {
            target + "self_attn.o_proj.weight": weights[source + "attention_out"],
            target + "mlp.gate_proj.weight": gate,
            target + "mlp.up_proj.weight": up,
            target + "mlp.down_proj.weight": weights[source + "down"],
            module + "input_layernorm": weights[source + "attention_norm"],
            module + "post_attention_layernorm": weights[source + "mlp_norm"],
        }
    return named


def _placed(graph: _Graph, named: Mapping[str, Array]) -> Iterator[tuple[_Constant, Array]]:
    for name, value in named.items():
        if value.ndim == 1:
            yield graph.vectors[name], value.astype(np.float32)
            continue
        shifted, zero_points, scales = _quantized(value)
        yield graph.matrices[name], shifted
        yield graph.matrices[name + "/zero_point"], zero_points
        yield graph.matrices[name + "/scale"], scales


def _quantized(matrix: Array) -> tuple[Array, Array, Array]:
    """Rows in 8 bits: ``(stored - zero point) * scale``, from the least to the greatest value of the row."""
    least = np.minimum(matrix.min(1, keepdims=True), 0)
    greatest = np.maximum(matrix.max(1, keepdims=True), 0)
    scales = ((greatest - least) / 255).astype(np.float16)
    exact = np.maximum(scales.astype(np.float32), np.finfo(np.float16).smallest_subnormal)
    zero_points = np.clip(np.round(-least / exact), 0, 255)
    shifted = np.clip(np.round(matrix / exact) + zero_points, 0, 255)
    return shifted.astype(np.uint8), zero_points.astype(np.uint8), scales
