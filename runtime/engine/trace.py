"""What ran where and when: a record of kernels, for people (Perfetto, chrome://tracing) and for pictures."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrt.priority import Priority

from ..heg.kernel import Role
from ..scheduler.batch import Batch
from ..xpu.protocol import KernelDone


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """One kernel as it ran. Times are seconds on the platform's clock."""

    role: Role
    started: float
    ended: float
    pass_id: int
    index: int
    kernels: int
    """It was the ``index``-th of so many of its pass."""
    kind: str
    stage: str
    """``"prefill"``, ``"decode"`` or ``"mixed"``."""
    reactive: bool
    """Whether a user waits for one of its requests."""
    requests: tuple[int, ...]
    tokens: int


class Trace:
    """The kernels of a run, the last so many of them. The engine writes, anybody may read."""

    def __init__(self, limit: int = 100_000) -> None:
        """``limit`` bounds the memory; the oldest kernels are forgotten first."""
        self._kernels: deque[TracedKernel] = deque(maxlen=limit)

    @property
    def kernels(self) -> tuple[TracedKernel, ...]:
        """All that were noted, in the order in which they ended."""
        return tuple(self._kernels)

    def note(self, done: KernelDone, batch: Batch) -> None:
        """Record a kernel of ``run`` that has ended."""
        self._kernels.append(
            TracedKernel(
                done.role,
                done.started,
                done.ended,
                done.context.id,
                done.kernel.index,
                len(done.context.kernels),
                done.kernel.kind.value,
                batch.stage.value,
                any(sequence.priority is Priority.REACTIVE for sequence in batch.sequences),
                tuple(sequence.id for sequence in batch.sequences),
                done.context.shape.tokens,
            )
        )

    def to_chrome(self, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The trace in Chrome's Trace Event Format, which Perfetto opens: a track for each XPU."""
        kernels = self.kernels
        begin = min((kernel.started for kernel in kernels), default=0.0)
        tracks = {role: number for number, role in enumerate(Role, 1)}
        events: list[dict[str, Any]] = [
            {"ph": "M", "pid": 1, "tid": tracks[role], "name": "thread_name", "args": {"name": role.value}}
            for role in sorted({kernel.role for kernel in kernels}, key=tracks.__getitem__)
        ]
        events += [_event(kernel, tracks[kernel.role], begin) for kernel in kernels]
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(metadata or {})}

    def write_chrome(self, path: Path, metadata: Mapping[str, Any] | None = None) -> None:
        """Write :meth:`to_chrome` to a file."""
        path.write_text(json.dumps(self.to_chrome(metadata)), encoding="utf-8")


def _event(kernel: TracedKernel, track: int, begin: float) -> dict[str, Any]:
    who = "reactive" if kernel.reactive else "proactive"
    return {
        "ph": "X",
        "pid": 1,
        "tid": track,
        "name": f"{who} {kernel.stage} {_names(kernel.requests)}",
        "cat": who,
        "ts": round((kernel.started - begin) * 1e6, 1),
        "dur": round((kernel.ended - kernel.started) * 1e6, 1),
        "args": {
            "pass": kernel.pass_id,
            "kernel": f"{kernel.index + 1} of {kernel.kernels}",
            "kind": kernel.kind,
            "requests": list(kernel.requests),
            "tokens": kernel.tokens,
        },
    }


def _names(requests: Iterable[int]) -> str:
    return ", ".join(f"#{request}" for request in requests)
