"""Tiny models, made-up profiles of them, and batches that run through their kernels."""

from __future__ import annotations

import dataclasses
import os
import zipfile
from collections import abc
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from numpy.typing import NDArray

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.priority import Priority
from agentrt.runtime.heg.kernel import BatchContext, BatchInputs, Role, StateAccess
from agentrt.runtime.heg.partition import Partition
from agentrt.runtime.heg.profile import (
    Curve,
    DecodeGroups,
    GroupTimes,
    LayerCosts,
    Profile,
    StaticGroups,
    XPUProfile,
)
from agentrt.runtime.model.directory import ModelDirectory, open_model_directory
from agentrt.runtime.model.read_graph import read_paged_graph
from agentrt.runtime.scheduler import batch
from agentrt.runtime.scheduler.batch import ScheduledChunk
from agentrt.runtime.scheduler.sequence import Sequence
from agentrt.runtime.scheduler.state_rows import StateRows
from agentrt.runtime.xpu.loading import LoadedModel, build_model

EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": 1}
ARCHITECTURES = ("llama", "qwen2", "qwen3")
LAYERS = 3
VOCABULARY = 512
HYBRIDS = Path(__file__).parent / "hybrids"
HYBRID_FAMILIES = ("lfm2", "qwen3-next", "qwen3.5")
ZERO_STATE = 63
"""The state row that a sequence begins from."""


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiny")


def tiny_gguf(folder: Path, architecture: Any) -> Path:
    file = folder / f"{architecture}.gguf"
    if not file.exists():
        write_random_gguf(file, ModelShape(architecture, LAYERS, 64, 128, 2, 1, VOCABULARY, 1024))
    return file


def tiny_model(folder: Path, name: str) -> ModelDirectory:
    """Return ``"nano"``, a model of this architecture made in ``folder``, or one exported beforehand."""
    if name == "nano":
        return open_model_directory(name)
    if name in ARCHITECTURES:
        return open_model_directory(tiny_gguf(folder, name), folder / "converted")
    return ModelDirectory(Path(name), Path(name).name, 1024, frozenset())


def unpack_hybrid(family: str, folder: Path) -> ModelDirectory:
    """Unpack a hybrid model, without a tokenizer, that ``tests/runtime/export_models.py`` has written."""
    with zipfile.ZipFile(HYBRIDS / f"{family}.zip") as file:
        file.extractall(folder)
    return ModelDirectory(folder, family, 2048, frozenset())


def exported_models() -> list[str]:
    """Return the models that ``tests/runtime/export_models.py`` wrote to the folder AGENTRT_EXPORTS."""
    folder = os.environ.get("AGENTRT_EXPORTS")
    return sorted(str(graph.parent) for graph in Path(folder).glob("*/openvino_model.xml")) if folder else []


def made_up_profile(
    layers: int,
    *,
    layer_s: float = 0.001,
    segment_s: float = 0.0,
    groups: int | None = None,
    decode_tokens: int | None = None,
    **costs: float,
) -> Profile:
    """Return a profile whose layers take ``layer_s`` for 1 to 32 tokens, and proportionally more beyond.

    A graph of an op group takes twice as long to load, and one for ``decode_tokens`` half as long to run.
    """
    xpus = {
        Role.DECODE: XPUProfile(
            device="CPU",
            layers=LayerCosts(
                segment_s=segment_s,
                entry_s=0.0,
                layer=Curve(counts=(1, 32, 256), seconds=(layer_s, layer_s, 8 * layer_s)),
                head=Curve(counts=(1,), seconds=(0.0,)),
                **({"read_s": 0.0, "pair_s": 0.0} | costs),
            ),
            peak_flops=1e12,
            peak_bandwidth=1e10,
            watts=10.0,
        )
    }
    if groups is not None:
        decode = None
        if decode_tokens is not None:
            load = GroupTimes(first_s=2 * layer_s, middle_s=2 * layer_s, last_s=2 * layer_s)
            half = GroupTimes(first_s=layer_s / 2, middle_s=layer_s / 2, last_s=layer_s / 2)
            decode = DecodeGroups(tokens=decode_tokens, load=load, **half.model_dump())
        xpus[Role.PREFILL] = XPUProfile(
            device="CPU",
            groups=StaticGroups(
                tokens=groups, first_s=layer_s, middle_s=layer_s, last_s=layer_s, decode=decode
            ),
            peak_flops=1e12,
            peak_bandwidth=1e10,
            watts=5.0,
        )
    return Profile(
        fingerprint="made up",
        xpus=xpus,
        bandwidth=2e10,
        measured=True,
        block_tokens=32,
        layers=layers,
        layer_bytes=10_000_000,
        head_bytes=5_000_000,
        layer_flops=20_000_000,
        head_flops=10_000_000,
        past_bytes=200,
        activation_bytes=10_000,
    )


def load(
    directory: ModelDirectory,
    platform: str = "cpu",
    *,
    segments: int | None = None,
    static_tokens: int | None = None,
    decode_tokens: int | None = None,
    graph_folder: Path | None = None,
    scored_layers: int = 0,
    properties: dict[str, Any] = EXACT,
) -> LoadedModel:
    """Load a model with kernels of one layer each (``segments=1``: one kernel), caches attached."""
    layers = Partition(read_paged_graph(directory)).layers
    fine = segments is None
    loaded = build_model(
        directory,
        platform,
        properties,
        made_up_profile(
            layers, layer_s=0.01 if fine else 1e-6, groups=static_tokens, decode_tokens=decode_tokens
        ),
        max_chunk_tokens=256,
        quantum_s=0.015 if fine else 1.0,
        graph_folder=graph_folder,
        scored_layers=scored_layers,
    )
    caches = {
        cache.name: ov.Tensor(cache.element_type, ov.Shape([64, *cache.block_shape]))
        for cache in (*loaded.layout.caches, *loaded.layout.state_tables)
    }
    for table in loaded.layout.state_tables:
        caches[table.name].data[ZERO_STATE] = 0
    loaded.platform.attach(caches)
    return loaded


@dataclasses.dataclass
class Piece:
    """A chunk of one sequence."""

    tokens: abc.Sequence[int]
    past: int = 0
    table: abc.Sequence[int] = tuple(range(16))
    samples: bool = True
    states: StateAccess | None = None
    """In a hybrid model, the state rows it reads and writes."""


def inputs_of(*pieces: Piece) -> BatchInputs:
    """Return the inputs of one batch of several sequences."""
    chunks = []
    for number, piece in enumerate(pieces):
        sequence = Sequence(number, Priority.REACTIVE, [*[0] * piece.past, *piece.tokens])
        sequence.computed_tokens, sequence.blocks = piece.past, list(piece.table)
        sequence.states = (
            None if piece.states is None else StateRows(piece.states.rows[0], access=piece.states)
        )
        chunks.append(ScheduledChunk(sequence, len(piece.tokens), piece.samples))
    return batch.inputs_of(chunks, drafts_alone=False)


def begin(loaded: LoadedModel, *pieces: Piece, avoid: Role | None = None) -> BatchContext:
    """Return a batch that has not started."""
    inputs = inputs_of(*pieces)
    return BatchContext(0, inputs, inputs.shape, loaded.graph.kernels_for(inputs.shape, avoid=avoid))


def step(loaded: LoadedModel, context: BatchContext) -> None:
    """Run the next kernel of a batch."""
    kernel = context.next_kernel
    done = loaded.platform.xpus[kernel.roles[0]].run(kernel, context, 60.0)
    if done.error is not None:
        raise done.error
    context.position += 1


def finish(loaded: LoadedModel, context: BatchContext) -> NDArray[np.float32]:
    """Run the other kernels of a batch and return a copy of its logits."""
    while context.next_kernel is not None:
        step(loaded, context)
    logits = context.logits.copy()
    loaded.platform.release(context)
    return logits


def forward(loaded: LoadedModel, *pieces: Piece, avoid: Role | None = None) -> NDArray[np.float32]:
    """Run a whole batch and return its logits."""
    return finish(loaded, begin(loaded, *pieces, avoid=avoid))


def uncut(directory: ModelDirectory, properties: dict[str, Any] = EXACT) -> LoadedModel:
    """Load the same model as one kernel."""
    loaded = load(directory, segments=1, properties=properties)
    assert loaded.graph.bounds == (0,)
    return loaded
