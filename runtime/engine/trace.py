"""A record of what the engine did, for trace viewers (Perfetto, chrome://tracing), pages and figures."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from agentrt.priority import Priority

from ..heg.kernel import Role
from ..scheduler.launch_decision import ScheduledKernel
from ..xpu.protocol import KernelDone

T = TypeVar("T")

_MAX_REQUESTS: Final = 10_000
"""Ended requests, and answered tool turns, of one trace."""


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
    interrupted: bool = False
    """Whether it ended early for a reactive request, and is run again later."""
    promoted: bool = False
    """Whether one of its requests was promoted when it started: by its age, or half of its deadline."""

    @property
    def priority(self) -> str:
        """``"reactive"`` or ``"proactive"``."""
        return "reactive" if self.reactive else "proactive"


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """One request that has ended. Times are seconds on the platform's clock."""

    request_id: str
    app: str
    reactive: bool
    arrived: float
    started: float | None
    """When its first kernel started; None if none did."""
    first_token: float | None
    ended: float
    outcome: str
    """``"stop"``, ``"length"``, ``"cancelled"`` or ``"failed"``."""


@dataclass(frozen=True, slots=True)
class TracedAnswer:
    """Calls of one tool turn that the engine answered from the tool cache, and when."""

    request_id: str
    at: float
    tools: tuple[str, ...]


class Trace:
    """The most recent kernels, ended requests and answered calls. The engine thread writes; any may read."""

    def __init__(self, limit: int = 100_000) -> None:
        """``limit`` bounds the number of kernels; the oldest are dropped first."""
        self._kernels: deque[TracedKernel] = deque(maxlen=limit)
        self._requests: deque[TracedRequest] = deque(maxlen=_MAX_REQUESTS)
        self._answers: deque[TracedAnswer] = deque(maxlen=_MAX_REQUESTS)

    @property
    def kernels(self) -> tuple[TracedKernel, ...]:
        """The recorded kernels, in the order in which they ended."""
        return tuple(self._kernels)

    @property
    def requests(self) -> tuple[TracedRequest, ...]:
        """The requests that have ended, in that order."""
        return tuple(self._requests)

    def take_kernels(self) -> list[TracedKernel]:
        """Remove and return the recorded kernels."""
        return _take(self._kernels)

    def take_requests(self) -> list[TracedRequest]:
        """Remove and return the requests that have ended."""
        return _take(self._requests)

    def take_answers(self) -> list[TracedAnswer]:
        """Remove and return the tool turns that were answered from the tool cache."""
        return _take(self._answers)

    def record_request(self, request: TracedRequest) -> None:
        """Record a request that has ended."""
        self._requests.append(request)

    def record_answer(self, answer: TracedAnswer) -> None:
        """Record calls that were answered from the tool cache."""
        self._answers.append(answer)

    def record(self, done: KernelDone, scheduled: ScheduledKernel) -> None:
        """Record a kernel that has ended, or was interrupted."""
        sequences = scheduled.batch.sequences
        self._kernels.append(
            TracedKernel(
                role=done.role,
                started=done.started,
                ended=done.ended,
                batch_id=done.context.id,
                index=done.kernel.index,
                kernel_count=len(done.context.kernels),
                kind=done.kernel.kind.value,
                stage=scheduled.batch.stage.value,
                reactive=any(sequence.priority is Priority.REACTIVE for sequence in sequences),
                request_ids=tuple(sequence.request_id for sequence in sequences),
                tokens=done.context.shape.tokens,
                interrupted=done.interrupted,
                promoted=scheduled.promoted,
            )
        )

    def to_chrome(self, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the trace in Chrome's Trace Event Format, which Perfetto opens.

        One track per XPU, and each request that has ended from its arrival to its end.
        """
        kernels, requests = self.kernels, self.requests
        times = [kernel.started for kernel in kernels] + [request.arrived for request in requests]
        begin = min(times, default=0.0)
        tracks = {role: number for number, role in enumerate(Role, 1)}
        events: list[dict[str, Any]] = [
            {"ph": "M", "pid": 1, "tid": tracks[role], "name": "thread_name", "args": {"name": role.value}}
            for role in sorted({kernel.role for kernel in kernels}, key=tracks.__getitem__)
        ]
        events += [_event(kernel, tracks[kernel.role], begin) for kernel in kernels]
        events += [event for request in requests for event in _events_of(request, begin)]
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
            **({"interrupted": True} if kernel.interrupted else {}),
            **({"promoted": True} if kernel.promoted else {}),
        },
    }


def _events_of(request: TracedRequest, begin: float) -> list[dict[str, Any]]:
    """Return the begin and the end of a request as an asynchronous event of its own id."""
    shared = {"pid": 1, "tid": 0, "name": "request", "cat": "request", "id": request.request_id}
    waits = {
        name: None if at is None else round(at - request.arrived, 6)
        for name, at in (("queued_s", request.started), ("time_to_first_token_s", request.first_token))
    }
    priority = "reactive" if request.reactive else "proactive"
    args = {"app": request.app, "priority": priority, "outcome": request.outcome, **waits}
    return [
        {**shared, "ph": phase, "ts": round((at - begin) * 1e6, 1), "args": args}
        for phase, at in (("b", request.arrived), ("e", request.ended))
    ]


def _take(queue: deque[T]) -> list[T]:
    """Remove what is in ``queue`` now; another thread may append meanwhile."""
    return [queue.popleft() for _ in range(len(queue))]
