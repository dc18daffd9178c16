"""Reads the graph of a model directory, with paged attention."""

from __future__ import annotations

import openvino as ov

from agentrt.errors import AgentRTError, ModelFormatError

from .directory import ModelDirectory
from .gather_sampled_rows import SAMPLED_ROWS, dependents_of
from .gguf.head_sizes import apply_head_sizes
from .native.library import FEED_FORWARD, MATMUL, load_operations
from .openvino_core import openvino_core, openvino_message
from .paged import name_nodes, to_paged_attention


def read_paged_graph(directory: ModelDirectory, *, tell_prompts: bool = True) -> ov.Model:
    """Read the graph of ``directory`` and transform it to paged attention. Nodes are renamed by position.

    ``tell_prompts`` tells products with weights as they are in a file which tokens are of prompts. Pieces
    without attention could not know; where there are any, none of a model's products may.

    Raises:
        ModelFormatError: the graph cannot be read, or is not a decoder that paged attention supports.
    """
    try:
        model = _paged_graph(directory)
        if tell_prompts:
            _tell_prompts(model)
        return model
    except AgentRTError:
        raise
    except Exception as error:  # a damaged graph causes errors of many types
        raise ModelFormatError(
            f"OpenVINO cannot read {directory.graph}: {openvino_message(error)} "
            "Copy the directory again, or export it again."
        ) from error


def _paged_graph(directory: ModelDirectory) -> ov.Model:
    # Not as a Path: the bindings replace what an interrupt raises in its __fspath__ by a RuntimeError.
    graph = str(directory.graph)
    if directory.native:
        load_operations()
        model = openvino_core().read_model(graph)
        apply_head_sizes(model)
    else:
        model = to_paged_attention(openvino_core().read_model(graph), graph)
    name_nodes(model)
    return model


def _tell_prompts(model: ov.Model) -> None:
    """Give native products, in place, where each sequence's tokens begin; not those of sampled rows alone."""
    inputs = {name: port for port in model.inputs for name in port.names}
    sampled = dependents_of(inputs[SAMPLED_ROWS].get_node())
    for node in model.get_ordered_ops():
        if node.get_type_name() in (MATMUL, FEED_FORWARD) and node.get_friendly_name() not in sampled:
            node.set_argument(node.get_input_size(), inputs["subsequence_begins"])
