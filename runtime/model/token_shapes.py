"""Which tensors of a graph depend on the tokens themselves, and shapes that do not have to."""

from __future__ import annotations

from typing import Final

import openvino as ov
import openvino.opset15 as opset

_PROBED_TOKENS: Final = 11


def free_shapes_of_tokens(model: ov.Model) -> None:
    """Have no shape in a paged ``model`` be read off a tensor that depends on the tokens' values.

    Such a shape would be a second tensor to hand over wherever the graph is cut. If it counts only tokens, it
    is read off ``input_ids`` instead, which every piece can take. Nodes have unique names.
    """
    depends = depends_on_tokens(model.get_ordered_ops())
    read = [
        node for node in model.get_ordered_ops() if node.get_type_name() == "ShapeOf" and depends[_name(node)]
    ]
    if not read:
        return
    probe = model.clone()
    try:
        probe.reshape({"input_ids": [_PROBED_TOKENS], "position_ids": [_PROBED_TOKENS]})
    except RuntimeError:
        return  # its shapes cannot be inferred
    probed = {_name(node): node for node in probe.get_ordered_ops()}
    ids = next(node for node in model.get_parameters() if "input_ids" in node.output(0).get_names())
    count = opset.shape_of(ids, output_type="i64")
    count.set_friendly_name("tokens")
    for node in read:
        shape = node.input_value(0).get_partial_shape()
        found = probed[_name(node)].input_value(0).get_partial_shape()
        if found.is_dynamic or any(
            extent.is_dynamic and length.get_length() != _PROBED_TOKENS
            for extent, length in zip(shape, found, strict=True)
        ):
            continue  # it counts something else, for instance logits rows
        name, type_ = _name(node), node.get_output_element_type(0)
        extents = [
            count if extent.is_dynamic else opset.constant([extent.get_length()], ov.Type.i64)
            for extent in shape
        ]
        same = opset.convert(opset.concat(extents, 0), type_)
        same.set_friendly_name(f"{name}.tokens")
        node.output(0).replace(same.output(0))
    model.validate_nodes_and_infer_types()


def depends_on_tokens(nodes: list[ov.Node]) -> dict[str, bool]:
    """Return for each node, in order, whether it depends on the tokens' values, beyond their number."""
    depends: dict[str, bool] = {}
    for node in nodes:
        sources = [value.get_node() for value in node.input_values()]
        if node.get_type_name() == "Parameter":
            depends[_name(node)] = "input_ids" in node.output(0).get_names()
        elif node.get_type_name() == "ShapeOf" and sources[0].get_type_name() == "Parameter":
            depends[_name(node)] = False
        else:
            depends[_name(node)] = any(depends[_name(source)] for source in sources)
    return depends


def _name(node: ov.Node) -> str:
    return str(node.get_friendly_name())
