"""Gives positions back to graphs whose exporter has them counted from the length of the cache.

Such a graph (Qwen3.5 as optimum-intel 2.2.0 exports it) has an input ``position_ids`` that nothing reads. The
transformation to paged attention puts the longest context of the batch in place of the cache's length, which
is right for a batch of one sequence only.
"""

from __future__ import annotations

import openvino as ov
import openvino.opset15 as opset

from .sequence_ops import ATTENTION


def read_position_ids(model: ov.Model) -> None:
    """Have a paged ``model`` read ``position_ids`` where it counts ``[axes, 1, tokens]`` positions itself."""
    inputs = {name: port for port in model.inputs for name in port.names}
    if not counts_positions(model) or "position_ids" not in inputs:
        return
    # In a paged graph every token is a sequence of one token.
    column = opset.reshape(inputs["position_ids"].get_node(), opset.constant([1, -1, 1], ov.Type.i64), False)
    for node in model.get_ordered_ops():
        if node.get_type_name() != "Range":
            continue
        for counted in _broadcasts_of(node):
            axes = counted.get_output_partial_shape(0)[0].get_length()
            found = opset.convert(opset.concat([column] * axes, 0), counted.get_output_element_type(0))
            counted.output(0).replace(found.output(0))
    model.validate_nodes_and_infer_types()


def counts_positions(model: ov.Model) -> bool:
    """Whether a paged ``model`` computes with the longest context of a batch, beside its attentions."""
    return any(
        target.get_node().get_type_name() != ATTENTION
        for port in model.inputs
        if "max_context_len" in port.names
        for target in port.get_target_inputs()
    )


def _broadcasts_of(counted: ov.Node) -> list[ov.Node]:
    """Return where the values of ``counted``, only reshaped, become ``[axes, sequences, tokens]``."""
    found: list[ov.Node] = []
    pending = [counted]
    while pending:
        for target in pending.pop().output(0).get_target_inputs():
            node = target.get_node()
            if node.get_type_name() == "Broadcast" and target.get_index() == 0:
                shape = node.get_output_partial_shape(0)
                if shape.rank.get_length() == 3 and shape[0].is_static:
                    found.append(node)
            elif node.get_type_name() in ("Reshape", "Unsqueeze") and target.get_index() == 0:
                pending.append(node)
    return found
