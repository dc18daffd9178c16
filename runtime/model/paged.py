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
    key_cache.i, value_cache.i      [blocks, …]             one pair per layer
    -> logits                       [rows, 1, vocabulary] float32
"""

from __future__ import annotations

from typing import Final

import openvino as ov
from openvino._offline_transformations import paged_attention_transformation

from agentrt.errors import ModelFormatError

from ..gguf.sliding_windows import apply_sliding_windows
from .directory import ModelDirectory
from .fuse_matmuls import fuse_matmuls
from .gather_sampled_rows import SAMPLED_ROWS, gather_sampled_rows
from .openvino_core import openvino_core, openvino_message

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

CACHES: Final = ("key_cache.", "value_cache.")
"""Prefixes of the names of the cache tensors; the layer's number follows."""


def read_paged_graph(directory: ModelDirectory) -> ov.Model:
    """Read the graph of ``directory`` and transform it to paged attention. Nodes are renamed by position.

    Raises:
        ModelFormatError: the graph cannot be read, or is not a decoder that paged attention supports.
    """
    try:
        model = openvino_core().read_model(directory.graph)
    except RuntimeError as error:
        raise ModelFormatError(
            f"OpenVINO cannot read {directory.graph}: {openvino_message(error)} "
            "Copy the directory again, or export it again."
        ) from error
    try:
        paged_attention_transformation(model)
    except RuntimeError as error:
        raise _unsupported(directory, openvino_message(error)) from error
    apply_sliding_windows(model)
    names = {name for port in model.inputs for name in port.names}
    if "key_cache.0" not in names:
        raise _unsupported(directory, "it has no attention with a key-value cache")
    unknown = {name for name in names if name not in INPUTS and not name.startswith(CACHES)}
    if unknown:
        raise _unsupported(directory, f"it has the unknown inputs {', '.join(sorted(unknown))}")
    if len(model.outputs) != 1:
        raise _unsupported(directory, f"it has {len(model.outputs)} outputs instead of the logits")
    model = gather_sampled_rows(model)
    fuse_matmuls(model)
    # Generated names differ from load to load; profiles and cut points need stable names.
    for index, node in enumerate(model.get_ordered_ops()):
        if node.get_type_name() != "Parameter":
            node.set_friendly_name(f"n{index}")
    return model


def _unsupported(directory: ModelDirectory, reason: str) -> ModelFormatError:
    return ModelFormatError(
        f"{directory.graph} is not a model that paged attention supports ({reason}). "
        "Use a decoder-only text model exported with --task text-generation-with-past."
    )
