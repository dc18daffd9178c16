"""From a stock OpenVINO LLM graph to a compiled paged-attention model.

The transformed graph takes one flat row of tokens from any number of sequences, reads and writes keys and
values in block tensors that the caller owns, and returns logits only for the rows it is asked for::

    input_ids, position_ids         [tokens] int64
    past_lens                       [sequences] int32       tokens already in the cache
    subsequence_begins              [sequences + 1] int32   where each sequence's tokens start
    block_indices                   [blocks] int32          all block tables, one after the other
    block_indices_begins            [sequences + 1] int32   where each table starts
    max_context_len                 [] int32                longest past + new of any sequence
    sampled_token_indices           [rows] int64            positions in the flat row to have logits for
    key_cache.i, value_cache.i      [blocks, …]             one pair per layer
    -> logits                       [rows, 1, vocabulary] float32
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import openvino as ov
from openvino._offline_transformations import paged_attention_transformation

from agentrt.errors import ConfigurationError, ModelFormatError

from .directory import ModelDirectory
from .messages import last_line
from .rows import SAMPLED_ROWS, keep_sampled_rows

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
"""The inputs of every forward pass, beside the cache tensors."""

CACHES: Final = ("key_cache.", "value_cache.")
"""How the names of the cache tensors begin; the layer's number follows."""


@dataclass(frozen=True, slots=True)
class CacheInput:
    """One key or value cache input of the compiled model: what one block of it looks like."""

    index: int
    """Position among the model's inputs."""
    element_type: ov.Type
    block_shape: tuple[int, ...]
    """Without the leading dimension, which counts blocks."""

    @property
    def block_bytes(self) -> int:
        """Bytes one block takes in this tensor."""
        elements = 1
        for extent in self.block_shape:
            elements *= extent
        return int(elements * self.element_type.bitwidth) // 8


@dataclass(frozen=True, slots=True)
class PagedModel:
    """A compiled paged-attention model and the geometry of its KV blocks, read off the compiled model."""

    compiled: ov.CompiledModel
    inputs: dict[str, int]
    """Position of each of :data:`INPUTS` among the model's inputs."""
    caches: tuple[CacheInput, ...]
    block_tokens: int
    """Tokens in one KV block."""
    vocabulary_size: int

    @property
    def block_bytes(self) -> int:
        """Bytes one KV block takes over all layers, keys and values."""
        return sum(cache.block_bytes for cache in self.caches)


def read_paged_graph(directory: ModelDirectory) -> ov.Model:
    """Read the graph of ``directory`` and transform it to paged attention. Its nodes are named by position.

    Raises:
        ModelFormatError: the graph cannot be read or is not a decoder that paged attention understands.
    """
    try:
        model = ov.Core().read_model(directory.graph)
    except RuntimeError as error:
        raise ModelFormatError(
            f"OpenVINO cannot read {directory.graph}: {last_line(error)} "
            "Copy the directory again, or export it again."
        ) from error
    problem = (
        f"{directory.graph} is not a model that paged attention understands ({{}}). "
        "Use a decoder-only text model exported with --task text-generation-with-past."
    )
    try:
        paged_attention_transformation(model)
    except RuntimeError as error:
        raise ModelFormatError(problem.format(last_line(error))) from error
    names = {name for port in model.inputs for name in port.names}
    if "key_cache.0" not in names:
        raise ModelFormatError(problem.format("it has no attention with a key-value cache"))
    unknown = {name for name in names if name not in INPUTS and not name.startswith(CACHES)}
    if unknown:
        raise ModelFormatError(problem.format(f"it also wants {', '.join(sorted(unknown))}"))
    if len(model.outputs) != 1:
        raise ModelFormatError(problem.format(f"it has {len(model.outputs)} outputs instead of the logits"))
    model = keep_sampled_rows(model)
    # Generated names differ from load to load; profiles and cut points need names that do not.
    for index, node in enumerate(model.get_ordered_ops()):
        if node.get_type_name() != "Parameter":
            node.set_friendly_name(f"n{index}")
    return model


def compile_paged_model(directory: ModelDirectory, device: str, properties: dict[str, Any]) -> PagedModel:
    """Read, transform and compile the graph of ``directory`` for an OpenVINO ``device``.

    Raises:
        ModelFormatError: the graph cannot be read or is not a decoder that paged attention understands.
        ConfigurationError: the device refuses these properties.
    """
    graph = read_paged_graph(directory)
    try:
        compiled = ov.Core().compile_model(graph, device, properties)
    except (RuntimeError, TypeError) as error:
        settings = ", ".join(f"{name}={value}" for name, value in properties.items())
        raise ConfigurationError(
            f"OpenVINO cannot compile the model for {device} with {settings}: {last_line(error)} "
            "Leave precisions at None, or choose a kv_cache_precision equal to inference_precision, or u8."
        ) from error
    return _describe(compiled, directory)


def _describe(compiled: ov.CompiledModel, directory: ModelDirectory) -> PagedModel:
    inputs: dict[str, int] = {}
    caches: list[CacheInput] = []
    block_tokens = 0
    for index, port in enumerate(compiled.inputs):
        name = port.get_any_name()
        if not name.startswith(CACHES):
            inputs[name] = index
            continue
        shape = tuple(
            extent.get_length() if extent.is_static else 0 for extent in list(port.get_partial_shape())[1:]
        )
        if 0 in shape:
            raise ModelFormatError(
                f"the block shape of {name} is not known after compiling {directory.graph}. "
                "Update OpenVINO: pip install -U openvino"
            )
        caches.append(CacheInput(index, port.get_element_type(), shape))
        if name == "value_cache.0":
            # [heads, tokens, head size (+ scale and zero point when quantised)] on every device; key blocks
            # put their dimensions and their scales elsewhere.
            block_tokens = shape[1]
    vocabulary = compiled.outputs[0].get_partial_shape()[2]
    return PagedModel(compiled, inputs, tuple(caches), block_tokens, vocabulary.get_length())
