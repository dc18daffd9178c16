"""llm-d: the name of an ``InferenceObjective`` and a fairness id, both in headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..priority import Priority
from .dialect import Evidence, PriorityFields


@dataclass(frozen=True)
class LlmD:
    """llm-d's endpoint picker with flow control.

    The objectives are resources of the cluster: their names and priorities are the operator's, so this
    dialect has to be named. A request without a known objective has priority 0. Requests with equal
    ``fairness_id`` share capacity; None sends none, and the picker counts them as one flow.
    """

    reactive: str | None = "reactive"
    proactive: str | None = "proactive"
    fairness_id: str | None = None
    header_prefix: str = "x-llm-d-inference-"
    """``x-gateway-inference-`` before llm-d 0.8, and for the Gateway API's own endpoint picker."""

    name: ClassVar[str] = "llm-d"
    marks_every_request: ClassVar[bool] = False

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return the headers."""
        objective = self.reactive if priority is Priority.REACTIVE else self.proactive
        given = {"objective": objective, "fairness-id": self.fairness_id}
        headers = {self.header_prefix + name: value for name, value in given.items() if value is not None}
        return PriorityFields(headers=headers)

    def recognises(self, evidence: Evidence) -> bool:
        """Return False."""
        return False
