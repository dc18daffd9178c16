"""Transforms the graph of a stock OpenVINO LLM to paged attention.

The transformed graph takes the tokens of any number of sequences as one flat batch, reads and writes keys and
values in block tensors that the caller owns, and returns logits for the sampled rows only::

    input_ids, position_ids         [tokens] int64
    past_lens                       [sequences] int32       tokens already in the cache
    subsequence_begins              [sequences + 1] int32   where each sequence's tokens start
    block_indices                   [blocks] int32          all block tables, one after the other
    block_indices_begins            [sequences + 1] int32   where each table starts
    max_context_len                 [] int32                longest past + new of any sequence
    sampled_token_indices           [rows] int64            positions in the flat batch to return logits for
    key_cache.i, value_cache.i      [blocks, …]             one pair per attention
    -> logits                       [rows, 1, vocabulary] float32

The recurrent layers of a hybrid model (gated delta rule, short convolution) keep a state of fixed size per
sequence instead. The graph reads each sequence's state from one row of its state tables and writes the state
behind its last token, and those at checkpoints before, to other rows::

    conv_state_table.i, gated_delta_state_table.i  [rows, …]    one per recurrent operation
    la.block_indices                [state rows] int32      per sequence the row read, then the rows written
    la.block_indices_begins         [sequences + 1] int32   where each sequence's rows start
    la.cache_interval               [sequences] int32       tokens between checkpoints; 0 for none
    la.past_lens                    [sequences] int32       past, from which checkpoints are counted
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import openvino as ov
import openvino.opset15 as opset
from openvino._offline_transformations import paged_attention_transformation

from agentrt.errors import ModelFormatError

from .fuse_matmuls import fuse_matmuls
from .gather_sampled_rows import ATTENTION, DELTA_RULE, SAMPLED_ROWS, gather_sampled_rows
from .openvino_core import openvino_message
from .sliding_windows import apply_sliding_windows
from .token_shapes import free_shapes_of_tokens

INPUTS: Final = (
    "input_ids",
    "position_ids",
    "past_lens",
    "subsequence_begins",
    "block_indices",
    "block_indices_begins",
    "max_context_len",
    SAMPLED_ROWS,
)
"""The inputs of every forward pass, in addition to the cache tensors."""

STATE_INPUTS: Final = (
    "la.block_indices",
    "la.block_indices_begins",
    "la.cache_interval",
    "la.past_lens",
)
"""The further inputs of a hybrid model's forward passes."""

CACHES: Final = ("key_cache.", "value_cache.")
"""Prefixes of the names of the cache tensors; a number follows."""

STATE_TABLES: Final = ("conv_state_table.", "gated_delta_state_table.")
"""Prefixes of the names of the state tables; a number follows."""


def to_paged_attention(model: ov.Model, graph: str, weights: Collection[str] = ()) -> ov.Model:
    """Return a stateful ``model`` with paged attention; it may be changed. ``graph`` names it in errors.

    ``weights`` are the names of parameters that stand for constants.

    Raises:
        ModelFormatError: it is not a decoder that paged attention supports.
    """
    try:
        paged_attention_transformation(model)
    except RuntimeError as error:
        raise _unsupported(graph, openvino_message(error)) from error
    apply_sliding_windows(model)
    correct_delta_rule_shapes(model)
    read_position_ids(model)
    unknown = _name_inputs(model, weights)
    if not any("key_cache.0" in port.names for port in model.inputs):
        raise _unsupported(graph, "it has no attention with a key-value cache")
    if unknown:
        raise _unsupported(graph, f"it has the unknown inputs {', '.join(sorted(unknown))}")
    if counts_positions(model):
        raise _unsupported(graph, "it counts positions itself, as if a batch had one sequence only")
    if any(node.get_type_name() == "ReadValue" for node in model.get_ordered_ops()):
        raise _unsupported(graph, "it keeps a state that is in no state table")
    if len(model.outputs) != 1:
        raise _unsupported(graph, f"it has {len(model.outputs)} outputs instead of the logits")
    name_nodes(model)
    model = gather_sampled_rows(model)
    fuse_matmuls(model)
    multiply_outer_products(model)
    name_nodes(model)
    free_shapes_of_tokens(model)
    return model


def name_nodes(model: ov.Model) -> None:
    """Name each node after its position.

    Generated names differ from load to load, and may be those of nodes in the file, whose names another
    process has generated. Names must be unique where they stand for nodes, and stable for profiles and
    cut points.
    """
    for index, node in enumerate(model.get_ordered_ops()):
        if node.get_type_name() != "Parameter":
            node.set_friendly_name(f"n{index}")


def _name_inputs(model: ov.Model, weights: Collection[str]) -> set[str]:
    """Give each input of ``model`` the one name by which the runtime knows it; return the unknown ones.

    Those called ``weights`` are left as they are.

    An exporter may leave further names at an input, ``cache_position`` at ``position_ids`` for instance.
    """
    unknown: set[str] = set()
    for port in model.inputs:
        known = {
            name
            for name in port.names
            if name in (*INPUTS, *STATE_INPUTS) or name.startswith((*CACHES, *STATE_TABLES))
        }
        if len(known) == 1:
            port.set_names(known)
        elif port.get_node().get_friendly_name() not in weights:
            unknown |= port.names
    return unknown


def _unsupported(graph: str, reason: str) -> ModelFormatError:
    return ModelFormatError(
        f"{graph} is not a model that paged attention supports ({reason}). "
        "Use a decoder-only text model exported with --task text-generation-with-past."
    )


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
