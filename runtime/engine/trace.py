"""A record of the kernels that ran, for trace viewers (Perfetto, chrome://tracing) and for figures."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrt.priority import Priority

from ..heg.kernel import Role
from ..scheduler.batch import Batch
from ..xpu.protocol import KernelDone


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """One kernel that ran. Times are seconds on the platform's clock."""

    role: Role
    started: float
    ended: float
    batch_id: int
    index: int
    """Position of the kernel in its batch, from 0."""
    kernel_count: int
    """Number of kernels of its batch."""
    kind: str
    stage: str
    """``"prefill"``, ``"decode"`` or ``"mixed"``."""
    reactive: bool
    """Whether one of its requests is reactive."""
    request_ids: tuple[str, ...]
    tokens: int

    @property
    def priority(self) -> str:
        """``"reactive"`` or ``"proactive"``."""
        return "reactive" if self.reactive else "proactive"


class Trace:
    """The most recent kernels. The engine thread writes; any thread may read."""

    def __init__(self, limit: int = 100_000) -> None:
        """``limit`` bounds the number of kernels; the oldest are dropped first."""
        self._kernels: deque[TracedKernel] = deque(maxlen=limit)

    @property
    def kernels(self) -> tuple[TracedKernel, ...]:
        """The recorded kernels, in the order in which they ended."""
        return tuple(self._kernels)

    def record(self, done: KernelDone, batch: Batch) -> None:
        """Record a kernel of ``batch`` that has ended."""
        sequences = batch.sequences
        self._kernels.append(
            TracedKernel(
                role=done.role,
                started=done.started,
                ended=done.ended,
                batch_id=done.context.id,
                index=done.kernel.index,
                kernel_count=len(done.context.kernels),
                kind=done.kernel.kind.value,
                stage=batch.stage.value,
                reactive=any(sequence.priority is Priority.REACTIVE for sequence in sequences),
                request_ids=tuple(sequence.request_id for sequence in sequences),
                tokens=done.context.shape.tokens,
            )
        )

    def to_chrome(self, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the trace in Chrome's Trace Event Format, which Perfetto opens: one track per XPU."""
        kernels = self.kernels
        begin = min((kernel.started for kernel in kernels), default=0.0)
        tracks = {role: number for number, role in enumerate(Role, 1)}
        events: list[dict[str, Any]] = [
            {"ph": "M", "pid": 1, "tid": tracks[role], "name": "thread_name", "args": {"name": role.value}}
            for role in sorted({kernel.role for kernel in kernels}, key=tracks.__getitem__)
        ]
        events += [_event(kernel, tracks[kernel.role], begin) for kernel in kernels]
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(metadata or {})}

    def write_chrome(self, path: Path | str, metadata: Mapping[str, Any] | None = None) -> None:
        """Write :meth:`to_chrome` to a JSON file."""
        Path(path).write_text(json.dumps(self.to_chrome(metadata)), encoding="utf-8")


def _event(kernel: TracedKernel, track: int, begin: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": 1,
        "tid": track,
        "name": f"{kernel.priority} {kernel.stage} {', '.join(kernel.request_ids)}",
        "cat": kernel.priority,
        "ts": round((kernel.started - begin) * 1e6, 1),
        "dur": round((kernel.ended - kernel.started) * 1e6, 1),
        "args": {
            "batch": kernel.batch_id,
            "kernel": f"{kernel.index + 1} of {kernel.kernel_count}",
            "kind": kernel.kind,
            "requests": list(kernel.request_ids),
            "tokens": kernel.tokens,
        },
    }
