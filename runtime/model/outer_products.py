"""Turns matmuls of a column and a row into multiplications, which compute the same products.

Rotary embeddings multiply a column of frequencies by the positions of a batch. As a matmul, OpenVINO's CPU
plugin compiles this anew for each number of tokens, and keeps some 600 KiB for each; an elementwise
multiplication is compiled once for all of them.
"""

from __future__ import annotations

import openvino as ov
import openvino.opset15 as opset


def multiply_outer_products(model: ov.Model) -> None:
    """Replace, in place, each matmul whose inner dimension is 1 by a multiplication with the same bits."""
    for node in model.get_ordered_ops():
        if node.get_type_name() == "MatMul" and _is_outer_product(node):
            product = opset.multiply(node.input_value(0), node.input_value(1))
            node.output(0).replace(product.output(0))
    model.validate_nodes_and_infer_types()


def _is_outer_product(matmul: ov.Node) -> bool:
    """Return whether ``matmul`` multiplies ``[…, rows, 1]`` by ``[…, 1, columns]``."""
    attributes = matmul.get_attributes()
    column, row = (value.get_partial_shape() for value in matmul.input_values())
    if attributes["transpose_a"] or attributes["transpose_b"]:
        return False
    if column.rank.is_dynamic or row.rank.is_dynamic or min(len(column), len(row)) < 2:
        return False
    return bool(column[-1] == 1 and row[-2] == 1)
