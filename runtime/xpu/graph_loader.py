"""Graphs of token-level op groups: exported to files, and loaded while kernels run (sd.npu §3.2)."""

from __future__ import annotations

import io
import statistics
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeAlias

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from agentrt.errors import ConfigurationError, GraphLoadError

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchInputs, GraphLoad, Kernel, KernelKind, Role, StaticGraph
from ..heg.partition import Partition, with_static_tokens
from ..heg.store import replace_file
from ..model.openvino_core import openvino_core, openvino_message
from .buffers import BatchBuffers
from .compiled import BoundInference, CompiledKernels, InferenceShapes, PieceCompiler, activations_of
from .protocol import GraphLoaded

_CHECKSUM_BYTES: Final = 4
_LOADS: Final = 3
"""Loads of which the median counts."""
_CLOSE_S: Final = 10.0
"""How long :meth:`GraphLoader.close` waits for a load in progress."""

_Order: TypeAlias = tuple[GraphLoad, Callable[[GraphLoaded], None]]


class GraphStore:
    """A folder of graphs of one model for one device with one set of properties.

    Each file is what OpenVINO exports, and a checksum: importing a damaged file could crash the process.
    Files are written atomically. They are mapped, not read: only what OpenVINO lays out anew needs memory.
    """

    def __init__(self, folder: Path, compiler: PieceCompiler) -> None:
        """``folder`` is created at the first write; ``compiler`` has compiled the graphs."""
        self.folder: Final = folder
        self._compiler = compiler

    def __contains__(self, load: GraphLoad) -> bool:
        """Whether there is a file for ``load``."""
        return self._file(load).exists()

    def write(self, load: GraphLoad, compiled: ov.CompiledModel) -> None:
        """Export ``compiled`` to the file for ``load``.

        Raises:
            OSError: the file cannot be written.
            RuntimeError: the device cannot export this graph.
        """
        stream = io.BytesIO()
        compiled.export_model(stream)
        exported = stream.getvalue()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self._file(load), exported, _checksum(exported))

    def read(self, load: GraphLoad) -> ov.CompiledModel:
        """Import the graph that ``load`` names. A damaged file is deleted, and written at the next opening.

        Raises:
            GraphLoadError: it cannot be read or imported.
        """
        file = self._file(load)
        try:
            # OpenVINO takes writable memory only. It does not write: no page is copied.
            content: NDArray[np.uint8] = np.memmap(file, np.uint8, "c")
        except OSError as error:
            raise GraphLoadError(load.group, f"{file} cannot be read ({error.strerror}).") from error
        except ValueError:  # it is empty
            content = np.zeros(0, np.uint8)
        exported, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
        if not exported.size or _checksum(exported.data) != checksum.tobytes():
            raise self._unusable(load, f"{file} is damaged.")
        try:
            return self._compiler.load(exported)
        except RuntimeError as error:
            raise self._unusable(load, openvino_message(error)) from error

    def _unusable(self, load: GraphLoad, reason: str) -> GraphLoadError:
        """Delete the file for ``load`` and return the error that says why."""
        with suppress(OSError):  # Windows keeps a file that is mapped
            self._file(load).unlink()
        return GraphLoadError(load.group, reason)

    def _file(self, load: GraphLoad) -> Path:
        return self.folder / f"{load.group}-{load.graph.value}.blob"


class GraphLoader:
    """A thread that loads graphs from a store, one after the other."""

    def __init__(self, store: GraphStore, groups: int) -> None:
        """``groups`` is the number of op groups. The thread starts with the first load."""
        self._store = store
        self._groups = groups
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._loaded: SimpleQueue[tuple[int, ov.CompiledModel]] = SimpleQueue()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def load(self, load: GraphLoad, on_done: Callable[[GraphLoaded], None]) -> None:
        """See :meth:`XPU.load`. ``on_done`` is called on the thread of this loader."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agentrt-graphs", daemon=True)
            self._thread.start()
        self._orders.put((load, on_done))

    def take_loaded(self) -> list[tuple[int, ov.CompiledModel]]:
        """Return the op groups loaded since the last call, and their graphs. Thread-safe."""
        loaded: list[tuple[int, ov.CompiledModel]] = []
        while not self._loaded.empty():
            loaded.append(self._loaded.get())
        return loaded

    def close(self) -> None:
        """End the thread, behind the load in progress; nothing is reported any more."""
        self._closed.set()
        self._orders.put(None)
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        self.take_loaded()

    def _run(self) -> None:
        while (order := self._orders.get()) is not None and not self._closed.is_set():
            load, on_done = order
            started = time.perf_counter()
            error: GraphLoadError | None = None
            try:
                self._loaded.put((load.group, load_graph(self._store, load, self._groups)))
            except GraphLoadError as failure:
                error = failure
            if not self._closed.is_set():
                on_done(GraphLoaded(load, started, time.perf_counter(), error))


def load_graph(store: GraphStore, load: GraphLoad, groups: int) -> ov.CompiledModel:
    """Import a graph and run it once, which allocates and lays out what its first run needs.

    ``groups`` is the number of op groups.

    Raises:
        GraphLoadError: it cannot be read, imported or run.
    """
    compiled = store.read(load)
    outputs = activations_of(KernelKind.TOKENS, load.group, groups)
    inference = BoundInference(compiled, outputs, caches={}, shapes=InferenceShapes())
    tokens = inference.static_tokens
    assert tokens is not None, "graphs of op groups have static shapes"
    buffers = BatchBuffers(tokens)
    buffers.load(BatchInputs([0] * tokens, list(range(tokens)), [0], [0, tokens], [[]], tokens, []))
    inference.bind(buffers)
    try:
        inference.request.infer(share_inputs=True, share_outputs=True)
    except RuntimeError as error:
        raise GraphLoadError(load.group, openvino_message(error)) from error
    return compiled


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


def _checksum(exported: bytes | memoryview) -> bytes:
    return zlib.crc32(exported).to_bytes(_CHECKSUM_BYTES, "little")
