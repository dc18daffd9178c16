"""Times the kernels of one device, each compiled piece by itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import openvino as ov

from ..heg.kernel import BatchContext, BatchInputs, Kernel, KernelKind, Role
from ..model.kv_layout import KVLayout
from .buffers import BufferPool
from .compiled import CompiledKernels
from .device import OpenVINOXPU
from .platforms import Device

MOST_TOKENS: Final = 1536
"""Most past and new tokens of a measured batch together."""
SECONDS_PER_POINT: Final = 0.25
"""How long each point is measured, at least ``_MIN_RUNS`` times."""
_MIN_RUNS, _MAX_RUNS = 2, 30
_TIMEOUT_S: Final = 120.0


class KernelBench:
    """Compiled kernels on one device with a scratch KV cache, to be timed."""

    def __init__(
        self,
        device: Device,
        properties: Mapping[str, Any],
        pieces: Mapping[KernelKind, Sequence[ov.Model]],
        layout: KVLayout | None = None,
    ) -> None:
        """Compile ``pieces``. ``layout`` is that of their KV caches if none of them are LAYERS kernels."""
        self._counts = {kind: len(models) for kind, models in pieces.items()}
        kernels = CompiledKernels(pieces, device.name, {**properties, **device.properties})
        self._pool = BufferPool()
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
            )
        else:
            self._table = []

    def run(
        self,
        tokens: int,
        sequences: int = 1,
        *,
        rows: int = 0,
        past: int = 0,
        kind: KernelKind = KernelKind.LAYERS,
    ) -> list[float]:
        """Return the seconds of each piece of ``kind``, run in order: the quickest of some runs."""
        each = tokens // sequences
        inputs = BatchInputs(
            token_ids=[1] * tokens,
            position_ids=[past + at for _ in range(sequences) for at in range(each)],
            past_lens=[past] * sequences,
            subsequence_begins=list(range(0, tokens + 1, each)),
            block_tables=[self._table] * sequences,
            max_context_len=past + each,
            sampled_rows=list(range(rows)),
        )
        count = self._counts[kind]
        kernels = tuple(
            Kernel(at, kind, range(at, at + 1), range(at, at + 1), (Role.DECODE,), at == count - 1)
            for at in range(count)
        )
        best = [float("inf")] * count
        begun = time.perf_counter()
        for run in range(_MAX_RUNS + 1):
            context = BatchContext(0, inputs, inputs.shape, kernels)
            for at, kernel in enumerate(kernels):
                done = self._xpu.run(kernel, context, _TIMEOUT_S)
                if done is None:
                    raise TimeoutError(
                        f"a kernel did not return within {_TIMEOUT_S:.0f} s. Update the device's driver, or "
                        "choose another platform."
                    )
                if done.error is not None:
                    raise done.error
                if run:  # the first one allocates and repacks
                    best[at] = min(best[at], done.ended - done.started)
            self._pool.give_back(context.buffers)
            if run >= _MIN_RUNS and time.perf_counter() - begun > SECONDS_PER_POINT:
                break
        return best

    def close(self) -> None:
        """Free the device and the compiled pieces."""
        self._xpu.close()
        self._pool.clear()
        del self._xpu
