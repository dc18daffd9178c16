"""The group size in which the CPU plugin quantises activations, chosen by the weights of a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import openvino as ov

_PROPERTY: Final = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
_GROUPS: Final = (128, 64)
"""Larger ones are no faster for long prompts."""
_LEAST_GROUPS: Final = 4
"""Of a row. Shorter rows gain nothing from larger groups."""
_CODES: Final = (ov.Type.i8, ov.Type.u8, ov.Type.i4, ov.Type.u4)


def quantization_properties(
    models: Iterable[ov.Model], device: str, properties: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the property to compile ``models``, the pieces of one model, with, unless ``properties`` has it.

    The plugin multiplies activations with quantised weights as int8, with a scale for each group of
    activations. Its own choice, 32, fits weights of any groups. Where those of all matrices are larger,
    larger groups save a third of a prefill's time. The plugin computes without int8 where a group of weights
    is smaller than one of activations, so that the size must divide all of them.
    """
    if _PROPERTY in properties or not device.startswith("CPU"):
        return {}
    weights = {group for model in models for group in _weight_groups(model)}
    for size in _GROUPS:
        if weights and all(row >= _LEAST_GROUPS * size and group % size == 0 for row, group in weights):
            return {_PROPERTY: size}
    return {}


def _weight_groups(model: ov.Model) -> Iterator[tuple[int, int]]:
    """Yield for each quantised matrix the columns of a row, and how many of them share a scale."""
    for node in model.get_ops():
        if node.get_type_name() == "MatMul" and (codes := _codes(node.input_value(1).get_node())) is not None:
            _, *row = codes.get_output_shape(0)
            # A scale for each column, as of weights that are not transposed, has no group in a row.
            yield (math.prod(row), row[-1]) if node.get_attributes()["transpose_b"] else (0, 0)


def _codes(node: ov.Node) -> ov.Node | None:
    """Return the constant of codes that ``node`` computes a matrix of weights from, None if there is none."""
    while node.get_type_name() in ("Convert", "Reshape", "Multiply", "Subtract"):
        node = node.input_value(0).get_node()
    is_codes = node.get_type_name() == "Constant" and node.get_output_element_type(0) in _CODES
    return node if is_codes and len(node.get_output_shape(0)) >= 2 else None
