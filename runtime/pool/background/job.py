"""A background job: a request, its answer so far, and what came of it."""

from __future__ import annotations

import asyncio
import copy
import enum
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias

from agentrt.errors import AgentRTError

Event: TypeAlias = Mapping[str, Any]
"""One event of a job's stream, of JSON types only. Its ``sequence_number`` is above those before it."""

KIND: Final = "job"
"""What the header of a stored job says that it is, where stored contexts say other kinds."""


class JobStatus(enum.StrEnum):
    """How far a job is, in OpenAI's words for responses."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of the job."""
        return self not in (JobStatus.QUEUED, JobStatus.IN_PROGRESS)


@dataclass(eq=False)
class Job:
    """One job. Changed on the event loop of its queue only."""

    id: str
    app: str
    """The app that it belongs to."""
    model: str
    """Name of the model that computes it."""
    request: Mapping[str, Any]
    """What it asks for, of JSON types, as the one who runs jobs reads it."""
    created: float
    """Unix time in seconds, as all other times of a job."""
    request_bytes: int = 0
    """How large the request was."""
    status: JobStatus = JobStatus.QUEUED
    started: float | None = None
    """When it began to run first."""
    ended: float | None = None
    run_s: float = 0.0
    """Seconds for which it has run."""
    shared_s: float = 0.0
    """The sum of the seconds for which jobs have run meanwhile, itself included."""
    text: str = ""
    """The text of its answer so far."""
    events: list[Event] = field(default_factory=list)
    """What its stream has had so far."""
    result: Mapping[str, Any] | None = None
    """What it has ended with."""
    context_id: str = ""
    """The context in which its result is stored, too."""
    problem: str = ""
    """Why it has failed, where its run does not say so."""
    next_number: int = 0
    """The number of the next event. Numbers are not used again, also where events are taken back."""
    shown: int | None = None
    """How many events may be read, where jobs are stored: what was read is not forgotten. None: all."""
    rewritten: bool = False
    """Whether events that may be stored were taken back."""
    paused_by: AgentRTError | None = None
    """Why this process does not go on with it, where that is so: those who wait for it are told."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the next change of the job; another one then takes its place."""

    def add(self, events: Iterable[Event], text: str = "") -> None:
        """Number ``events``, add them to the stream, and ``text`` to the answer."""
        for number, event in enumerate(events, self.next_number):
            self.events.append({**event, "sequence_number": number})
        self.next_number = max(self.next_number, self.events[-1]["sequence_number"] + 1)
        self.text += text
        if self.shown is None:
            self.notify()

    def take_back(self, events: int, text: str) -> None:
        """Keep the first ``events`` of the stream only, and ``text`` of the answer."""
        del self.events[events:]
        self.text, self.rewritten = text, True
        self.shown = None if self.shown is None else min(self.shown, events)

    def show(self, events: int) -> None:
        """Let the first ``events`` of the stream be read."""
        self.shown = events
        self.notify()

    def pause(self, reason: AgentRTError) -> None:
        """Tell those who wait for it that this process does not go on with it, unless it has ended."""
        if not self.status.ended:
            self.paused_by = reason
            self.notify()

    async def wait(self, changed: asyncio.Event) -> None:
        """Wait for the change after which :attr:`changed` is no longer ``changed``.

        Raises:
            RuntimeClosedError, EngineFailedError: this process does not go on with it.
        """
        if self.paused_by is not None:
            raise copy.copy(self.paused_by)  # all who wait raise an error of their own
        if self.changed is changed:
            await changed.wait()

    def notify(self) -> None:
        """Wake those that wait for a change."""
        self.changed.set()
        self.changed = asyncio.Event()

    @property
    def stream_ended(self) -> bool:
        """Whether it has ended, and all its events may be read."""
        return self.status.ended and self.shown in (None, len(self.events))

    def events_after(self, number: int) -> list[Event]:
        """Return the events that may be read and whose number is above ``number``."""
        end = len(self.events) if self.shown is None else self.shown
        begin = bisect_right(self.events, number, hi=end, key=lambda event: event["sequence_number"])
        return self.events[begin:end]

    @property
    def header(self) -> dict[str, Any]:
        """What is stored of a new job."""
        return {"kind": KIND, **{name: getattr(self, name) for name in _HEADER}}

    def record(self, events: int = 0, text: int = 0) -> bytes:
        """Return its state, and its stream and answer from these places on."""
        changes = {name: getattr(self, name) for name in _STATE}
        changes |= {"events": self.events[events:], "text": self.text[text:]}
        return json.dumps(changes, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    @classmethod
    def restored(cls, id: str, app: str, header: Mapping[str, Any], records: Sequence[bytes]) -> Self:
        """Return the job that was stored with this header and these records."""
        job = cls(id, app, *(header[name] for name in _HEADER))
        for record in records:
            changes = json.loads(record.decode("utf-8", "surrogatepass"))
            job.events += changes["events"]
            job.text += changes["text"]
            for name in changes.keys() & _STATE:  # an earlier version has stored fewer
                setattr(job, name, changes[name])
        job.status, job.shown = JobStatus(job.status), len(job.events)
        return job


_HEADER: Final = ("model", "request", "created", "request_bytes")
_STATE: Final = (
    *("status", "started", "ended", "run_s", "shared_s"),
    *("result", "context_id", "problem", "next_number"),
)
