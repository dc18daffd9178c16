"""NVIDIA Dynamo: ``nvext.agent_hints.priority`` in the body, higher first, and a session id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..priority import Priority
from .dialect import Evidence, PriorityFields

_REACTIVE = 100
"""The router counts a value as seconds by which the request came earlier. It takes a negative one for 0, so
reactive requests are moved forward and proactive ones stay."""


@dataclass(frozen=True)
class Dynamo:
    """Dynamo's frontend, which turns the value into that of the engine behind it.

    ``x-dynamo-session-id`` is sent with every request of a run. No answer shows that it comes from Dynamo, so
    this dialect has to be named.
    """

    name: ClassVar[str] = "dynamo"
    marks_every_request: ClassVar[bool] = True

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return the hint, and the header with the session."""
        hint = _REACTIVE if priority is Priority.REACTIVE else 0
        headers = {} if session is None else {"x-dynamo-session-id": session}
        return PriorityFields({"nvext": {"agent_hints": {"priority": hint}}}, headers)

    def recognises(self, evidence: Evidence) -> bool:
        """Return False."""
        return False
