"""Joins narrow matrix products that read the same activations, as those of queries, keys and values do.

A decode step is hundreds of small products, and threads meet before and after each. Three as one meet once;
what each column computes stays the same. Wide ones, an MLP's gates in all but the smallest models, are left
as they are: they gain little, and taking their results apart again costs a prefill more than it saves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
import openvino as ov
import openvino.opset15 as opset

_MOST_COLUMNS: Final = 4096
"""Of the product that replaces several."""
_WHOLE_BYTES: Final = (ov.Type.u8, ov.Type.i8, ov.Type.f16, ov.Type.f32)
"""Element types of constants whose rows can be put one below the other."""


def fuse_matmuls(model: ov.Model) -> None:
    """Replace products of the same activations with constant weights by one and its parts, in place.

    Biases that follow each of them are joined, too.
    """
    found: defaultdict[tuple[str, int], list[ov.Node]] = defaultdict(list)
    for node in model.get_ordered_ops():
        if node.get_type_name() == "MatMul" and node.get_output_partial_shape(0)[-1].is_static:
            source = node.input_value(0)
            found[source.get_node().get_friendly_name(), source.get_index()].append(node)
    for products in found.values():
        if len(products) > 1:
            _join(products)
    model.validate_nodes_and_infer_types()


def _join(products: Sequence[ov.Node]) -> None:
    columns = [product.get_output_partial_shape(0)[-1].get_length() for product in products]
    how = products[0].get_attributes()
    alike = how["transpose_b"] and all(product.get_attributes() == how for product in products)
    if not alike or sum(columns) > _MOST_COLUMNS:
        return
    weights = _stack([product.input_value(1) for product in products], columns, 0)
    if weights is None:
        return
    joined = opset.matmul(products[0].input_value(0), weights, how["transpose_a"], how["transpose_b"])
    ends = [_biased(product) for product in products]
    biases = [None if end is None else end.input_value(1) for end in ends]
    bias = _stack(biases, columns, -1)
    if bias is not None:
        joined = opset.add(joined, bias)
    parts = opset.variadic_split(joined, opset.constant(-1), opset.constant(columns))
    for product, end, part in zip(products, ends, parts.outputs(), strict=True):
        (product if bias is None or end is None else end).output(0).replace(part)


def _biased(product: ov.Node) -> ov.Node | None:
    """The addition that is the only one to read ``product``, if there is one."""
    readers = list(product.output(0).get_target_inputs())
    if len(readers) != 1 or readers[0].get_index() or readers[0].get_node().get_type_name() != "Add":
        return None
    return readers[0].get_node()


def _stack(values: Sequence[ov.Output | None], lengths: Sequence[int], axis: int) -> ov.Output | None:
    """Constants that are decompressed alike, one behind the other along ``axis``; None if they are not so."""
    nodes = [value.get_node() for value in values if value is not None]
    kinds = {(node.get_type_name(), str(node.get_output_element_type(0))) for node in nodes}
    if len(nodes) < len(values) or len(kinds) > 1:
        return None
    first = nodes[0]
    kind = first.get_type_name()
    if kind == "Constant":
        return _stack_constants(nodes, lengths, axis)
    if kind == "Reshape":
        rows = _stack([node.input_value(0) for node in nodes], lengths, axis)
        row = list(first.get_output_partial_shape(0))[1:]
        if rows is None or axis or any(list(node.get_output_partial_shape(0))[1:] != row for node in nodes):
            return None
        shape = [sum(lengths), *(extent.get_length() for extent in row)]
        return opset.reshape(rows, opset.constant(shape), False).output(0)
    if kind not in ("Convert", "Subtract", "Multiply"):
        return None
    sources = zip(*(node.input_values() for node in nodes), strict=True)
    inputs = [_stack(each, lengths, axis) for each in sources]
    if any(value is None for value in inputs):
        return None
    if kind == "Convert":
        return opset.convert(inputs[0], first.get_output_element_type(0)).output(0)
    return (opset.subtract if kind == "Subtract" else opset.multiply)(*inputs).output(0)


def _stack_constants(nodes: Sequence[ov.Node], lengths: Sequence[int], axis: int) -> ov.Output | None:
    shapes = [list(node.get_output_shape(0)) for node in nodes]
    if nodes[0].get_output_element_type(0) not in _WHOLE_BYTES:
        return None
    data = [node.get_data() for node in nodes]
    if all(shape and shape[axis] == length for shape, length in zip(shapes, lengths, strict=True)):
        if len({tuple(np.delete(shape, axis)) for shape in shapes}) > 1:
            return None
        return opset.constant(np.concatenate(data, axis)).output(0)
    if all(np.array_equal(each, data[0]) for each in data):
        return nodes[0].output(0)  # one zero point for all weights
    return None
