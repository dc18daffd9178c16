"""Converts GGUF files to OpenVINO model directories, tensor by tensor."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import openvino as ov
import openvino_genai

from ...files.checksums import write_checksums
from ...files.graph_files import check_graph
from ..native.library import NativeLibrary
from ..openvino_core import load_on_own_thread
from ..paged import to_paged_attention
from ..share_constants import share_constants
from ..tokenizer_graph import decoded_vocabulary
from ..vocabulary_facts import VocabularyFacts
from .file_format import Source, Tensor
from .graph import GraphBuilder
from .head_sizes import state_head_sizes
from .hyperparameters import read_hyperparameters
from .quantisation import FOUR_BITS
from .tokenizer import Vocabulary, build_tokenizer
from .weights_file import WeightsFile, disk_errors, write_graph


def write_model(
    source: Source,
    target: Path,
    config: Path,
    progress: Callable[[float], None],
    entries: Mapping[str, object],
    library: NativeLibrary | None = None,
) -> None:
    """Write the model directory of ``source`` to the empty folder ``target``, ``config`` of it at last.

    ``config`` has ``entries``, and states the size of each other file, by which an incomplete directory is
    found; the digests of the graphs are in ``SHA256SUMS``. At no time is more than a piece of one tensor in
    memory. With ``library`` weights stay as they are where it multiplies them; the graph has its operations,
    and paged attention already. Everything is on disk when this returns.

    Raises:
        ModelFormatError: the model is damaged or of a kind that cannot be converted. The message says what is
            wrong with the file, without its name.
        OSError: the disk is full or not writable.
    """
    model = read_hyperparameters(source.metadata)
    vocabulary = Vocabulary.read(source.metadata)
    for name, graph in zip(("tokenizer", "detokenizer"), build_tokenizer(vocabulary), strict=True):
        with disk_errors(target):
            xml = target / f"openvino_{name}.xml"
            ov.save_model(graph, str(xml), compress_to_fp16=False)  # as in runtime/model/paged.py
            check_graph(xml)
    tensors, graph_file = source.tensors(), target / "openvino_model.xml"
    total = sum(tensor.size for tensor in tensors.values())
    with graph_file.with_suffix(".bin").open("w+b") as stream:
        weights = WeightsFile(
            stream,
            library=library,
            keep_four_bits=keeps_four_bits(tensors.values()),
            advance=lambda done: progress(min(done / total, 1.0)),
        )
        built = GraphBuilder(model, len(vocabulary.tokens), tensors, weights).build()
        if library is not None:
            built = _paged(built, {parameter.get_friendly_name() for parameter in weights.parameters})
        write_graph(built, graph_file, stream)
    _write_vocabulary_facts(target, built.outputs[0].get_partial_shape()[-1].get_length())
    write_checksums(target)
    _sync(target.iterdir())
    roles = (vocabulary.role(name) for name in ("eos", "eot", "eom"))  # what ends a text, turn and message
    description: dict[str, Any] = {
        "model_type": model.architecture,
        "max_position_embeddings": model.context_length,
        "eos_token_id": sorted({token for token in roles if token is not None}),
        "converted_from": source.name,
        "keeps_weights": weights.keeps_all,
        **entries,
    }
    description["files"] = {file.name: file.stat().st_size for file in sorted(target.iterdir())}
    config.write_text(json.dumps(description, indent=1), encoding="utf-8")
    _sync([config, target])


def _sync(paths: Iterable[Path]) -> None:
    """Wait until the content of files and folders is on disk."""
    for path in paths:
        if os.name == "nt" and path.is_dir():
            continue  # Windows does not open folders
        handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _write_vocabulary_facts(target: Path, size: int) -> None:
    """Store what is known of the tokenizer in ``target``, for a model of ``size`` tokens."""
    decoded = decoded_vocabulary(target / "openvino_detokenizer.xml")
    assert decoded is not None, "the detokenizer that is built here keeps its vocabulary"
    tokenizer = load_on_own_thread(lambda: openvino_genai.Tokenizer(str(target)))
    VocabularyFacts.find(tokenizer, size, decoded).store(target)


def _paged(model: ov.Model, weights: Collection[str]) -> ov.Model:
    """Return ``model`` with paged attention: that takes long, and would do so whenever it is opened.

    ``weights`` are the names of parameters that stand for its weights.
    """
    paged = to_paged_attention(model, "its graph", weights)
    share_constants(paged)
    state_head_sizes(paged)
    return paged


_LARGEST_SHARE: Final = 1 / 8
"""Of the machine's memory, for weights that take 8 bits instead of 4."""


def keeps_four_bits(tensors: Iterable[Tensor]) -> bool:
    """Return whether the 4-bit weights among ``tensors`` would take too much memory at 8 bits."""
    memory = _memory()
    weights = sum(math.prod(tensor.shape) for tensor in tensors if tensor.type in FOUR_BITS)
    return memory is not None and weights > memory * _LARGEST_SHARE


def _memory() -> int | None:
    """Return the bytes of the machine's memory; None where the system does not say."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
