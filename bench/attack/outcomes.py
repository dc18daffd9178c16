"""What became known of all tries: how many there were, and which answers were wrong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from .server_process import ServerProcess
from .wire import Answer, Request

_FIELDS: Final = {"message", "type", "param", "code"}
_TYPES: Final = {
    "invalid_request_error",
    "rate_limit_error",
    "insufficient_quota",
    "server_error",
}
_MOST_PROBLEMS: Final = 50
_SHOWN_BYTES: Final = 300


@dataclass(slots=True)
class Outcomes:
    """Counts of all tries. ``problems`` has the first of those that went wrong."""

    tries: int = 0
    server_errors: int = 0
    """Answers with a status of 500 or more that the part does not expect."""
    untyped_errors: int = 0
    """Error answers that do not have the documented form, and requests without any answer."""
    broken_promises: int = 0
    """What went wrong and has no count of its own; each is among the problems."""
    others_failed: int = 0
    """Requests of other clients that were not answered 200 meanwhile."""
    leaked: Counter[str] = field(default_factory=Counter)
    """What servers still held when they were idle again, by kind. Kinds that were not counted are missing."""
    faults: int = 0
    """Lines of the servers' logs that tell of crashes, and servers that ended."""
    longest_freeze_s: float | None = None
    """The longest wait of another client during one try; None if none was measured."""
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How many answers had which status, by what was tried."""
    problems: list[tuple[str, str]] = field(default_factory=list)
    """What was tried, and what was wrong."""

    def fail(self, name: str, problem: str) -> None:
        """Count a broken promise."""
        self.broken_promises += 1
        self.note(name, problem)

    def note(self, name: str, problem: str) -> None:
        """Keep a problem if there are not too many."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append((name, problem))

    def add(self, request: Request, answer: Answer, expected: Collection[int] = ()) -> None:
        """Count a try; a status in ``expected`` is no server error."""
        self.tries += 1
        self.statuses[request.name, answer.status] += 1
        shown = f"{answer.status} {answer.body[:_SHOWN_BYTES]!r}"
        if answer.status >= 500 and answer.status not in expected:
            self.server_errors += 1
            self.note(request.name, f"{shown} to {request.body[:_SHOWN_BYTES]!r}")
        if not is_typed(answer, request.method, request.path):
            self.untyped_errors += 1
            self.note(request.name, f"no documented error: {shown} to {request.body[:_SHOWN_BYTES]!r}")

    def add_faults(self, server: ServerProcess) -> None:
        """Count what the log of a server tells of crashes, and its end."""
        faults = server.faults() + ([] if server.alive() else ["the server has ended"])
        self.faults += len(faults)
        for line in faults:
            self.note("the server's log", line)

    def freeze(self, name: str, seconds: float, limit_s: float) -> None:
        """Count what another client waited during a try."""
        self.longest_freeze_s = max(self.longest_freeze_s or 0.0, seconds)
        if seconds > limit_s:
            self.note(name, f"another client waited {1000 * seconds:.0f} ms")


def is_typed(answer: Answer, method: str = "POST", path: str = "/v1") -> bool:
    """Return whether an answer is none of an error, or has an error of the documented form.

    Below ``/api/`` that is Ollama's, elsewhere OpenAI's.
    """
    if answer.status == 0:
        return False
    if answer.content_type == "text/event-stream":
        events = [event for event in answer.events() if isinstance(event, dict) and "error" in event]
        return all(_is_documented(event) or event.get("type") == "response.failed" for event in events)
    if answer.status < 400 or method == "HEAD":
        return True
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return False
    return _is_of_ollama(body) if path.startswith("/api/") else _is_documented(body)


def _is_of_ollama(body: Any) -> bool:
    return isinstance(body, dict) and body.keys() == {"error"} and isinstance(body["error"], str)


def _is_documented(body: Any) -> bool:
    error = body.get("error") if isinstance(body, dict) else None
    return (
        isinstance(error, dict)
        and error.keys() == _FIELDS
        and isinstance(error["message"], str)
        and error["type"] in _TYPES
        and isinstance(error["code"], str | None)
    )
