"""Corrects the shape that OpenVINO's transformation gives the result of a gated delta rule.

Queries and keys may have fewer heads than values. OpenVINO 2026.4.1 then asks for a shape with the heads of
the queries. The result is computed, but no shape behind it can be inferred for a given number of tokens, and
a graph whose shapes are unknown cannot be cut.
"""

from __future__ import annotations

import openvino as ov
import openvino.opset15 as opset

from .sequence_ops import DELTA_RULE


def correct_delta_rule_shapes(model: ov.Model) -> None:
    """Reshape the result of each delta rule of a paged ``model`` to ``[tokens, 1, value heads, size]``."""
    for node in model.get_ordered_ops():
        if node.get_type_name() != DELTA_RULE:
            continue
        _, heads, size = node.get_output_partial_shape(0)
        shape = opset.constant([-1, 1, heads.get_length(), size.get_length()], ov.Type.i64)
        for target in node.output(0).get_target_inputs():
            reshape = target.get_node()
            if reshape.get_type_name() == "Reshape":
                reshape.input(1).replace_source_output(shape.output(0))
    model.validate_nodes_and_infer_types()
