"""Operations and bytes of a model per token, counted in its graph: the axes of its roofline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import openvino as ov

from .partition import Partition


@dataclass(frozen=True, slots=True)
class ModelWork:
    """Counts for one layer, and for the head behind the last one."""

    layer_bytes: int
    """Bytes of the weights of one layer, as stored."""
    head_bytes: int
    layer_flops: int
    """Multiplications and additions of one layer's matmuls for one token."""
    head_flops: int
    activation_bytes: int
    """Bytes that one layer's matmuls read and put out for one token, in float32: its scratch memory."""

    @classmethod
    def of(cls, partition: Partition) -> Self:
        """Count in a layer from the middle and in the last one; in a model without seams, the average."""
        layers = partition.layers
        if not partition.complete or layers < 3:
            weights, flops, activations = _count(partition.layer_segments(())[0])
            return cls(weights // layers, 0, flops // layers, 0, activations // layers)
        _, middle, *_, last = partition.layer_segments(sorted({1, 2, layers - 1}))
        weights, flops, activations = _count(middle)
        last_weights, last_flops, _ = _count(last)
        return cls(weights, max(0, last_weights - weights), flops, max(0, last_flops - flops), activations)


def _count(model: ov.Model) -> tuple[int, int, int]:
    """Return the bytes of weights, and for one token the operations and the activations of matmuls."""
    weights = flops = activations = 0
    read: set[tuple[str, int]] = set()
    for node in model.get_ordered_ops():
        kind = node.get_type_name()
        if kind == "Constant":
            weights += int(node.get_byte_size())
        elif kind == "MatMul":
            matrix = node.input_value(1).get_partial_shape()
            width = list(node.get_output_partial_shape(0))[-1]
            if matrix.is_static and width.is_static:
                flops += 2 * _product(matrix.to_shape())
                activations += 4 * int(width.get_length())
                source = node.input_value(0)
                port = (str(source.get_node().get_friendly_name()), source.get_index())
                if port not in read:
                    activations += 4 * _product(matrix.to_shape()) // int(width.get_length())
                read.add(port)
    return weights, flops, activations


def _product(shape: ov.Shape) -> int:
    elements = 1
    for extent in shape:
        elements *= extent
    return int(elements)
