"""SGLang: ``priority`` in the body, higher first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..priority import Priority
from .dialect import Evidence, PriorityFields

_PROACTIVE = 100
"""The distance of a proactive request from a reactive one, whose value is 0. A running request is preempted
for one that is ahead by more than ``--priority-scheduling-preemption-threshold``, which is 10 by default."""


@dataclass(frozen=True)
class SGLang:
    """SGLang's server with ``--enable-priority-scheduling``.

    It serves requests without the field last, so reactive ones are marked as well.
    """

    low_values_first: bool = False
    """Whether the server runs with ``--schedule-low-priority-values-first``."""

    name: ClassVar[str] = "sglang"
    marks_every_request: ClassVar[bool] = True

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return 0 for reactive requests and a value behind it for proactive ones."""
        distance = 0 if priority is Priority.REACTIVE else _PROACTIVE
        return PriorityFields({"priority": distance if self.low_values_first else -distance})

    def recognises(self, evidence: Evidence) -> bool:
        """By ``owned_by`` of its models, or ``matched_stop``, which every choice of its whole answers has."""
        return "sglang" in evidence.owners or evidence.names("matched_stop")
