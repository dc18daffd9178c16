"""Runs each compiled piece once before the first request, so that nobody waits for what OpenVINO puts off.

Weights are laid out for the processor when a piece first runs. The pages of the file that they are read from
stay in the process beside that, though next to nothing reads them again: they are let go of piece by piece.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

from agentrt.errors import EngineFailedError

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchContext, BatchInputs, BatchShape
from .platforms import OpenVINOPlatform

_TIMEOUT_S: Final = 600.0
_MADV_DONTNEED: Final = 4


def warm_up(platform: OpenVINOPlatform, graph: ExecutionGraph, blocks: int, weights: Path) -> None:
    """Run all that ``platform`` has compiled for ``graph``. Writes to the first of the arena's ``blocks``.

    ``weights`` is the file that they were compiled from.

    Raises:
        EngineFailedError: a piece failed or did not end.
    """
    runs = [(1, graph.segment_kernels)]
    if graph.static_tokens is not None:
        runs.append((graph.static_tokens, graph.kernels_for(BatchShape(graph.static_tokens, 1, 0, 0))))
    for tokens, kernels in runs:
        table = list(range(-(-tokens // graph.block_tokens)))
        if len(table) <= blocks:
            # One row is sampled: without any the last layer's end and the head would have nothing to do.
            rows = [tokens - 1]
            inputs = BatchInputs([0] * tokens, list(range(tokens)), [0], [0, tokens], [table], tokens, rows)
            _run(platform, BatchContext(-1, inputs, inputs.shape, kernels), weights)


def _run(platform: OpenVINOPlatform, context: BatchContext, weights: Path) -> None:
    try:
        for kernel in context.kernels:
            done = platform.xpus[kernel.roles[0]].run(kernel, context, _TIMEOUT_S)
            if done is None or done.error is not None:
                raise EngineFailedError(
                    f"the model's first run did not get beyond its layers {kernel.layers.start} to "
                    f"{kernel.layers.stop}. Copy or export it again, or choose another platform."
                ) from (None if done is None else done.error)
            context.position += 1
            let_go_of_pages(weights)
    finally:
        platform.release(context)


def let_go_of_pages(file: Path) -> None:
    """Drop this process's pages of ``file`` where it is mapped for reading; whoever reads one gets it back.

    Does nothing where the system has no such call.
    """
    if sys.platform != "linux":
        return
    mapped = os.fsencode(file.resolve())
    libc = ctypes.CDLL(None)
    with open("/proc/self/maps", "rb") as maps:
        for line in maps:
            addresses, permissions, *_, path = line.rstrip(b"\n").split(maxsplit=5)
            if path == mapped and permissions.startswith(b"r--"):
                begin, end = (int(address, 16) for address in addresses.split(b"-"))
                libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_DONTNEED)
