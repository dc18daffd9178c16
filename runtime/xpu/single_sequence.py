"""One sequence, computed in the first blocks of an arena before an engine starts: for measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agentrt.errors import EngineFailedError

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchContext, BatchInputs
from ..kv.saved_contexts import Rows
from .kv_arena import KVArena
from .platforms import OpenVINOPlatform

_TIMEOUT_S: Final = 600.0


class SingleSequence:
    """The kernels of a model over the first blocks of its arena, which nothing else uses meanwhile."""

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
                done = self._platform.xpus[kernel.roles[0]].run(kernel, context, _TIMEOUT_S)
                if done is None or done.error is not None:
                    raise EngineFailedError(
                        "the model could not be measured: a kernel failed. Close other programs, or set "
                        "context_compression=None."
                    ) from (None if done is None else done.error)
            return (
                np.zeros((0, 0), np.float32) if context.logits is None or not rows else context.logits.copy()
            )
        finally:
            self._platform.release(context)
