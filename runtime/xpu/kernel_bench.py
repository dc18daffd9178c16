"""Times the kernels of one device, each compiled piece by itself."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import openvino as ov

from ..heg.kernel import BatchContext, BatchInputs, Kernel, KernelKind, Role, StateAccess
from ..model.kv_layout import KVLayout
from .buffers import BufferPool
from .compiled import CompiledKernels, Piece, least_sequences
from .device import OpenVINOXPU
from .machine import release_file_pages
from .platforms import Device

MOST_TOKENS: Final = 2560
"""Most past and new tokens of a measured batch together."""
_SECONDS_PER_POINT: Final = 0.15
"""How long a point is measured at most, beyond ``_MIN_RUNS`` runs."""
_MOST_SEQUENCES: Final = 32
"""Most sequences of a measured batch."""
_MIN_RUNS, _MAX_RUNS = 2, 30
_LEAST_S: Final = 0.03
"""How long a point is measured at least, unless it is run ``_MAX_RUNS`` times."""
_AGREEING: Final = 3
_AGREE: Final = 1.02
"""A point is measured once so many of its runs are within this factor of the quickest."""
_RESHAPES: Final = 5
"""How often each change of shape is measured, the first time included, which does not count."""
_TIMEOUT_S: Final = 120.0


class KernelBench:
    """Compiled kernels on one device with a scratch KV cache, to be timed."""

    def __init__(
        self,
        device: Device,
        properties: Mapping[str, Any],
        pieces: Mapping[KernelKind, Sequence[ov.Model]],
        weights: Path,
        layout: KVLayout | None = None,
    ) -> None:
        """Compile ``pieces`` of the model whose weights are in the file ``weights``.

        ``layout`` is that of their KV caches if none of them are LAYERS kernels.
        """
        self._weights = weights
        self._repacked: set[Piece] = set()
        self.spreads: list[float] = []
        """Of each measured point, by how much its median run took longer than the quickest, as a share."""
        self._counts = {kind: len(models) for kind, models in pieces.items()}
        kernels = CompiledKernels(pieces, device.name, {**properties, **device.properties})
        self._pool = BufferPool(least_sequences=least_sequences(itertools.chain(*pieces.values())))
        self._xpu = OpenVINOXPU(Role.DECODE, self._pool, kernels, lambda: kernels)
        if KernelKind.LAYERS in pieces:
            layout = KVLayout.of(kernels.models)
        if layout is not None:
            self.layout = layout
            blocks = -(-MOST_TOKENS // layout.block_tokens)
            self._table = list(range(blocks))
            self._xpu.attach(
                {
                    cache.name: ov.Tensor(cache.element_type, ov.Shape([blocks, *cache.block_shape]))
                    for cache in layout.caches
                }
                | {
                    table.name: ov.Tensor(
                        table.element_type, ov.Shape([_MOST_SEQUENCES + 1, *table.block_shape])
                    )
                    for table in layout.state_tables
                }
            )
        else:
            self._table = []

    @property
    def kernels(self) -> CompiledKernels:
        """The compiled pieces."""
        return self._xpu.kernels

    def run(
        self,
        tokens: int,
        sequences: int = 1,
        *,
        rows: int = 0,
        past: int = 0,
        kind: KernelKind = KernelKind.LAYERS,
        pieces: Sequence[int] | None = None,
    ) -> list[float]:
        """Return the seconds of each of ``pieces`` of ``kind``, run in order: the quickest of some runs.

        ``pieces`` are places among those of the kind; None for all of them.
        """
        inputs = self._inputs(tokens, sequences, rows, past)
        kernels = self._kernels(kind, range(self._counts[kind]) if pieces is None else pieces)
        self._run_once(inputs, kernels)  # allocates and repacks
        runs: list[list[float]] = []
        begun = time.perf_counter()
        while not runs or not _measured([sum(run) for run in runs], time.perf_counter() - begun):
            runs.append(self._run_once(inputs, kernels))
        totals = [sum(run) for run in runs]
        self.spreads.append(statistics.median(totals) / min(totals) - 1)
        return [min(seconds) for seconds in zip(*runs, strict=True)]

    def reshape_s(self, one: int, other: int, *, pieces: Sequence[int]) -> float:
        """Return how much longer LAYERS ``pieces`` take together behind a run with other tokens than theirs.

        Runs of ``one`` and of ``other`` tokens take turns, two at a time.
        """
        kernels = self._kernels(KernelKind.LAYERS, pieces)
        shapes = [self._inputs(tokens, tokens, tokens, 0) for tokens in (one, other)]
        longer: list[float] = []
        for inputs in shapes * _RESHAPES:
            first, second = (sum(self._run_once(inputs, kernels)) for _ in range(2))
            longer.append(first - second)
        return max(0.0, statistics.median(longer[len(shapes) :]))  # the first ones also allocate

    def _inputs(self, tokens: int, sequences: int, rows: int, past: int) -> BatchInputs:
        each = tokens // sequences
        return BatchInputs(
            token_ids=[1] * tokens,
            position_ids=[past + at for _ in range(sequences) for at in range(each)],
            past_lens=[past] * sequences,
            subsequence_begins=list(range(0, tokens + 1, each)),
            block_tables=[self._table] * sequences,
            max_context_len=past + each,
            sampled_rows=list(range(rows)),
            states=[StateAccess((_MOST_SEQUENCES, row)) for row in range(sequences)],
        )

    def _kernels(self, kind: KernelKind, pieces: Sequence[int]) -> tuple[Kernel, ...]:
        last = self._counts[kind] - 1
        return tuple(
            Kernel(index, kind, range(at, at + 1), range(at, at + 1), (Role.DECODE,), at == last)
            for index, at in enumerate(pieces)
        )

    def _run_once(self, inputs: BatchInputs, kernels: tuple[Kernel, ...]) -> list[float]:
        """Return the seconds of each kernel."""
        context = BatchContext(0, inputs, inputs.shape, kernels)
        seconds: list[float] = []
        for kernel in kernels:
            done = self._xpu.run(kernel, context, _TIMEOUT_S)
            if done is None:
                raise TimeoutError(
                    f"a kernel did not return within {_TIMEOUT_S:.0f} s. Update the device's driver, or "
                    "choose another platform."
                )
            if done.error is not None:
                raise done.error
            seconds.append(done.ended - done.started)
            if (kernel.kind, kernel.segments.start) not in self._repacked:
                self._repacked.add((kernel.kind, kernel.segments.start))
                release_file_pages(self._weights)
        self._pool.give_back(context.buffers)
        return seconds

    def close(self) -> None:
        """Free the device and the compiled pieces."""
        self._xpu.close()
        self._pool.clear()
        del self._xpu


def _measured(totals: Sequence[float], elapsed_s: float) -> bool:
    """Whether further runs are not worth their time, after runs of ``totals`` seconds."""
    if len(totals) >= _MAX_RUNS or (len(totals) >= _MIN_RUNS and elapsed_s >= _SECONDS_PER_POINT):
        return True
    if len(totals) < _AGREEING or elapsed_s < _LEAST_S:
        return False
    best, *_, worst = sorted(totals)[:_AGREEING]
    return worst <= best * _AGREE
