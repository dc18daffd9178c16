"""Exports both graphs of each token-level op group, so that one can be loaded in place of the other."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from agentrt.errors import ConfigurationError

from ..heg.graph import ExecutionGraph
from ..heg.kernel import GraphLoad, Kernel, KernelKind, Role, StaticGraph
from ..heg.partition import Partition, with_static_tokens
from ..model.openvino_core import openvino_core, openvino_message
from .compiled import CompiledKernels
from .graph_loader import GraphLoader, load_graph
from .graph_store import GraphStore

_LOADS: Final = 3
"""Loads of which the median counts."""


def export_graphs(
    kernels: CompiledKernels, graph: ExecutionGraph, partition: Partition, folder: Path
) -> GraphLoader:
    """Export the graphs that ``folder`` lacks, one at a time in memory, and return their loader.

    ``kernels`` are those of the PREFILL XPU, with the graphs for prompt chunks.

    Raises:
        ConfigurationError: the device cannot export graphs, or they cannot be written.
    """
    device, tokens = kernels.device, graph.decode_tokens
    assert tokens is not None, "there is one graph for each op group"
    if "EXPORT_IMPORT" not in openvino_core().get_property(device, "OPTIMIZATION_CAPABILITIES"):
        raise ConfigurationError(
            f"{device} cannot export compiled graphs, which npu_decoding needs. Set npu_decoding=False."
        )
    store = GraphStore(folder, kernels.compiler)
    groups = graph.token_kernels
    try:
        for kernel in groups:
            prefill = GraphLoad(kernel, StaticGraph.PREFILL)
            if prefill not in store:
                store.write(prefill, kernels.compiled(KernelKind.TOKENS, prefill.group))
        missing = [load for kernel in groups if (load := GraphLoad(kernel, StaticGraph.DECODE)) not in store]
        models = partition.token_groups(len(groups) - 1) if missing else []
        for load in missing:
            static = with_static_tokens(models[load.group], tokens)
            piece = (KernelKind.TOKENS, load.group)
            store.write(load, kernels.compiler.compile(static, piece, len(groups)))
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else openvino_message(error)
        raise ConfigurationError(
            f"the graphs for npu_decoding cannot be written to {folder} ({reason}). Free some space there, "
            "choose another profile_folder, or set npu_decoding=False."
        ) from error
    return GraphLoader(store, len(groups))


def measure_loads(kernels: CompiledKernels) -> list[float]:
    """Return the seconds to load the graph of each op group of ``kernels``, from a file just written."""
    count = kernels.count(KernelKind.TOKENS)
    with tempfile.TemporaryDirectory(prefix="agentrt-graphs-") as folder:
        store = GraphStore(Path(folder), kernels.compiler)
        return [_measure_load(kernels, store, group, count) for group in range(count)]


def _measure_load(kernels: CompiledKernels, store: GraphStore, group: int, count: int) -> float:
    kernel = Kernel(group, KernelKind.TOKENS, range(group, group + 1), range(0), (Role.PREFILL,), False)
    load = GraphLoad(kernel, StaticGraph.DECODE)
    store.write(load, kernels.compiled(KernelKind.TOKENS, group))
    seconds: list[float] = []
    for _ in range(_LOADS):
        begun = time.perf_counter()
        load_graph(store, load, count)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)
