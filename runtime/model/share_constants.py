"""Merges equal small constants of a graph: reading and compiling it takes time for each node."""

from __future__ import annotations

import math
from typing import Final

import openvino as ov

_MOST_ELEMENTS: Final = 64
"""Larger constants are weights and biases, hardly any of which are equal."""


def share_constants(model: ov.Model) -> None:
    """Have all readers of equal constants of ``model`` read one of them."""
    shared: dict[tuple[str, tuple[int, ...], bytes], ov.Output] = {}
    for node in model.get_ordered_ops():
        if node.get_type_name() != "Constant" or math.prod(node.get_output_shape(0)) > _MOST_ELEMENTS:
            continue
        type_, shape = str(node.get_output_element_type(0)), tuple(node.get_output_shape(0))
        first = shared.setdefault((type_, shape, node.get_data().tobytes()), node.output(0))
        if first.get_node() is not node:
            for target in node.output(0).get_target_inputs():
                target.replace_source_output(first)
