"""Fuses narrow matmuls that read the same activations, such as those of queries, keys and values.

A decode step runs hundreds of small matmuls, and threads synchronise before and after each one. Three fused
matmuls synchronise once, and each output column is computed as before. Wide matmuls, such as an MLP's gates
in all but the smallest models, are not fused: they gain little, and splitting their result costs a prefill
more than fusing saves.

OpenVINO keeps the concatenated weights beside the copy that it computes with. Conversions of GGUF files have
fused weights in the file, so that nothing is left to concatenate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
import openvino as ov
import openvino.opset15 as opset

MAX_FUSED_COLUMNS: Final = 4096
"""The most columns of a fused matmul. Splitting a wider result costs a prefill more than fusing saves."""


_WHOLE_BYTES: Final = (ov.Type.u8, ov.Type.i8, ov.Type.f16, ov.Type.f32)
"""Element types of constants that can be concatenated: one element is a whole number of bytes."""


def fuse_matmuls(model: ov.Model) -> None:
    """Fuse, in place, matmuls of the same activations with constant weights into one matmul and a split.

    Their biases are fused as well if every one of them has a bias.
    """
    found: defaultdict[tuple[str, int], list[ov.Node]] = defaultdict(list)
    for node in model.get_ordered_ops():
        if node.get_type_name() == "MatMul" and node.get_output_partial_shape(0)[-1].is_static:
            source = node.input_value(0)
            found[source.get_node().get_friendly_name(), source.get_index()].append(node)
    for matmuls in found.values():
        if len(matmuls) > 1:
            _fuse(matmuls)
    model.validate_nodes_and_infer_types()


def _fuse(matmuls: Sequence[ov.Node]) -> None:
    """Replace ``matmuls`` by one, unless they are too wide or their weights cannot be concatenated."""
    columns = [matmul.get_output_partial_shape(0)[-1].get_length() for matmul in matmuls]
    attributes = matmuls[0].get_attributes()
    alike = attributes["transpose_b"] and all(matmul.get_attributes() == attributes for matmul in matmuls)
    if not alike or sum(columns) > MAX_FUSED_COLUMNS:
        return
    weights = _concatenate([matmul.input_value(1) for matmul in matmuls], columns, 0)
    if weights is None:
        return
    fused = opset.matmul(
        matmuls[0].input_value(0), weights, attributes["transpose_a"], attributes["transpose_b"]
    )
    additions = [_bias_addition(matmul) for matmul in matmuls]
    biases = [None if addition is None else addition.input_value(1) for addition in additions]
    bias = _concatenate(biases, columns, -1)
    if bias is not None:
        fused = opset.add(fused, bias)
    parts = opset.variadic_split(fused, opset.constant(-1), opset.constant(columns))
    for matmul, addition, part in zip(matmuls, additions, parts.outputs(), strict=True):
        (matmul if bias is None or addition is None else addition).output(0).replace(part)


def _bias_addition(matmul: ov.Node) -> ov.Node | None:
    """The addition that alone reads the result of ``matmul``, or None."""
    readers = list(matmul.output(0).get_target_inputs())
    if len(readers) != 1 or readers[0].get_index() or readers[0].get_node().get_type_name() != "Add":
        return None
    return readers[0].get_node()


def _concatenate(values: Sequence[ov.Output | None], lengths: Sequence[int], axis: int) -> ov.Output | None:
    """Concatenate constants along ``axis``, with the operations that decompress them.

    ``lengths`` are the extents along ``axis``. Returns None if a value is None, or if the values are not
    decompressed by the same operations.
    """
    nodes = [value.get_node() for value in values if value is not None]
    kinds = {(node.get_type_name(), str(node.get_output_element_type(0))) for node in nodes}
    if len(nodes) < len(values) or len(kinds) > 1:
        return None
    first = nodes[0]
    kind = first.get_type_name()
    if kind == "Constant":
        return _concatenate_constants(nodes, lengths, axis)
    if kind == "Reshape":
        return _concatenate_reshapes(nodes, lengths, axis)
    if kind not in ("Convert", "Subtract", "Multiply"):
        return None
    sources = zip(*(node.input_values() for node in nodes), strict=True)
    inputs = [_concatenate(each, lengths, axis) for each in sources]
    if any(value is None for value in inputs):
        return None
    if kind == "Convert":
        return opset.convert(inputs[0], first.get_output_element_type(0)).output(0)
    return (opset.subtract if kind == "Subtract" else opset.multiply)(*inputs).output(0)


def _concatenate_reshapes(nodes: Sequence[ov.Node], lengths: Sequence[int], axis: int) -> ov.Output | None:
    rows = _concatenate([node.input_value(0) for node in nodes], lengths, axis)
    row = list(nodes[0].get_output_partial_shape(0))[1:]
    if rows is None or axis or any(list(node.get_output_partial_shape(0))[1:] != row for node in nodes):
        return None
    shape = [sum(lengths), *(extent.get_length() for extent in row)]
    return opset.reshape(rows, opset.constant(shape), False).output(0)


def _concatenate_constants(nodes: Sequence[ov.Node], lengths: Sequence[int], axis: int) -> ov.Output | None:
    shapes = [list(node.get_output_shape(0)) for node in nodes]
    if nodes[0].get_output_element_type(0) not in _WHOLE_BYTES:
        return None
    data = [node.get_data() for node in nodes]
    if all(shape and shape[axis] == length for shape, length in zip(shapes, lengths, strict=True)):
        if len({tuple(np.delete(shape, axis)) for shape in shapes}) > 1:
            return None
        return opset.constant(np.concatenate(data, axis)).output(0)
    if all(np.array_equal(each, data[0]) for each in data):
        return nodes[0].output(0)  # one value for all columns, such as a single zero point
    return None
