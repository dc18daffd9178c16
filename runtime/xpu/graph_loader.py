"""Loads graphs of token-level op groups while kernels run (sd.npu §3.2)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeAlias

import openvino as ov

from agentrt.errors import GraphLoadError

from ..heg.kernel import BatchInputs, GraphLoad, KernelKind
from ..model.openvino_core import openvino_message
from .buffers import BatchBuffers
from .compiled import BoundInference, InferenceShapes, activations_of
from .graph_store import GraphStore
from .protocol import GraphLoaded

_CLOSE_S: Final = 10.0
"""How long :meth:`GraphLoader.close` waits for a load in progress."""

_Order: TypeAlias = tuple[GraphLoad, Callable[[GraphLoaded], None]]


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
