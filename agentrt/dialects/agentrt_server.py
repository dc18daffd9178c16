"""`agentrt serve`: ``priority`` in the body, lower first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..priority import PRIORITY_HEADER, Priority
from .dialect import Evidence, PriorityFields


@dataclass(frozen=True)
class AgentRTServer:
    """agentrt's own server. A request without the field is reactive."""

    name: ClassVar[str] = "agentrt"
    marks_every_request: ClassVar[bool] = False

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return the priority's own value."""
        return PriorityFields({"priority": int(priority)})

    def recognises(self, evidence: Evidence) -> bool:
        """By the header with the priority of the request in its answers, or ``owned_by`` of its model."""
        return PRIORITY_HEADER in evidence.headers or "agentrt" in evidence.owners
