"""``service_tier`` of OpenAI and of providers that copied it. It changes the price of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..priority import Priority
from .dialect import Evidence, PriorityFields


@dataclass(frozen=True)
class ServiceTier:
    """``priority`` for reactive requests, which costs more, and ``flex`` for proactive ones.

    Only requests inside :func:`agentrt.priority` have a tier. Because it bills, it is used only by name.
    """

    name: ClassVar[str] = "service_tier"
    marks_every_request: ClassVar[bool] = False

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return the tier."""
        return PriorityFields({"service_tier": priority.service_tier})

    def recognises(self, evidence: Evidence) -> bool:
        """Return False."""
        return False
