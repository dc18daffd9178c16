"""Runs a model before its first request, which would wait for OpenVINO's lazy work, or to measure it.

OpenVINO lays weights out for the processor when a piece first runs. The pages of the file that they are read
from would stay in the process beside that copy, although they are hardly read again: they are released while
each piece runs, so that a model in one piece is not in memory twice. Products of weights as they are in GGUF
files have no copy: their pages stay.

Each attention has scratch memory for the tokens that it attends to, which OpenVINO allocates when a sequence
is first that long. Its pages cost more time than the few new tokens of a context that comes back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agentrt.errors import EngineFailedError

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchContext, BatchInputs, BatchShape, Kernel, StateAccess
from ..kv.saved_contexts import Rows
from .kv_arena import KVArena
from .machine import release_file_pages, release_free_memory
from .platforms import OpenVINOPlatform

_TIMEOUT_S: Final = 600.0

_RELEASE_EVERY_S: Final = 0.02
"""Between two releases of pages: OpenVINO lays out some 20 MB of weights in that time."""

_MOST_PAST_TOKENS: Final = 8192
"""The longest past that attentions are warmed up for: their scratch memory grows with it, some 10 kB a token
for a model of 0.5B, and stays allocated. Behind a longer one computing takes most of the time."""


def warm_up(platform: OpenVINOPlatform, graph: ExecutionGraph, blocks: int, weights: Path | None) -> None:
    """Run every compiled piece of ``platform`` once. Writes to the first blocks and state rows of its arena.

    The arena has ``blocks`` blocks; ``weights`` is the file that weights are laid out from, if any are.

    Raises:
        EngineFailedError: a piece failed or did not end.
    """
    release_free_memory()  # what reading and compiling the graph needed
    runs = [(1, graph.segment_kernels)]
    if graph.static_tokens is not None:
        runs.append((graph.static_tokens, graph.kernels_for(BatchShape(graph.static_tokens, 1, 0, 0))))
    for tokens, kernels in runs:
        table = list(range(-(-tokens // graph.block_tokens)))
        if len(table) <= blocks:
            # One row is sampled: without it the end of the last layer and the head would compute nothing.
            rows = [tokens - 1]
            positions = list(range(tokens))
            states = [StateAccess((0, 1))]
            inputs = BatchInputs([0] * tokens, positions, [0], [0, tokens], [table], tokens, rows, states)
            _run(platform, BatchContext(-1, inputs, inputs.shape, kernels), weights)
    release_free_memory()


def warm_up_attention(
    platform: OpenVINOPlatform, graph: ExecutionGraph, past_tokens: int, weights: Path | None
) -> None:
    """Run every segment for one block of tokens behind ``past_tokens`` others, or as many as are worth it.

    Reads and writes the first block of the arena in place of all others. For ``weights`` see :func:`warm_up`.

    Raises:
        EngineFailedError: a piece failed or did not end.
    """
    size = graph.block_tokens
    past = min(past_tokens, _MOST_PAST_TOKENS) // size * size
    table = [0] * (past // size + 1)
    positions = list(range(past, past + size))
    inputs = BatchInputs([0] * size, positions, [past], [0, size], [table], past + size, [size - 1])
    _run(platform, BatchContext(-1, inputs, inputs.shape, graph.segment_kernels), weights)


def _run(platform: OpenVINOPlatform, context: BatchContext, weights: Path | None) -> None:
    try:
        for kernel in reversed(context.kernels):
            with nullcontext() if weights is None else _released_pages(weights):
                _run_kernel(platform, kernel, context)
    finally:
        platform.release(context)


def _run_kernel(platform: OpenVINOPlatform, kernel: Kernel, context: BatchContext) -> None:
    done = platform.xpus[kernel.roles[0]].run(kernel, context, _TIMEOUT_S)
    if done is None or done.error is not None:
        raise EngineFailedError(
            f"the model's first run failed in its layers {kernel.layers.start} to {kernel.layers.stop}. Copy "
            "or export it again, or choose another platform."
        ) from (None if done is None else done.error)


@contextmanager
def _released_pages(file: Path) -> Iterator[None]:
    """Release this process's pages of ``file`` again and again, and at the end."""
    ended = threading.Event()

    def release() -> None:
        while not ended.wait(_RELEASE_EVERY_S):
            release_file_pages(file)

    thread = threading.Thread(target=release, name="agentrt-file-pages", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        release_file_pages(file)


class SingleSequence:
    """One sequence in the first blocks of an arena, which nothing else uses meanwhile: for measurements."""

    def __init__(self, platform: OpenVINOPlatform, graph: ExecutionGraph, arena: KVArena) -> None:
        """Use all blocks of ``arena`` in order."""
        self._platform = platform
        self._graph = graph
        self._table = list(range(arena.blocks))
        self.rows: Sequence[Rows] = arena.rows(platform)
        """The memory of the arena by cache."""

    def forward(self, tokens: Sequence[int], past: int, rows: int) -> NDArray[np.float32]:
        """Compute ``tokens`` behind ``past`` others; return the logits of the last ``rows``.

        Raises:
            EngineFailedError: a kernel failed or did not end.
        """
        count = len(tokens)
        inputs = BatchInputs(
            list(tokens),
            list(range(past, past + count)),
            [past],
            [0, count],
            [self._table[: -(-(past + count) // self._graph.block_tokens)]],
            past + count,
            list(range(count - rows, count)),
        )
        context = BatchContext(-1, inputs, inputs.shape, self._graph.kernels_for(inputs.shape))
        try:
            for kernel in context.kernels:
                _run_kernel(self._platform, kernel, context)
            return (
                np.zeros((0, 0), np.float32) if context.logits is None or not rows else context.logits.copy()
            )
        finally:
            self._platform.release(context)
