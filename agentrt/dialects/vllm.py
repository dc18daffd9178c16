"""vLLM: ``priority`` in the body, lower first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..priority import Priority
from .dialect import Evidence, PriorityFields


@dataclass(frozen=True)
class VLLM:
    """vLLM's server with ``--scheduling-policy priority``.

    A request without the field has priority 0, that of reactive requests. Without the policy, engine V0
    refuses every other value with a 400, and engine V1 ignores it.
    """

    name: ClassVar[str] = "vllm"
    marks_every_request: ClassVar[bool] = False

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return the priority's own value."""
        return PriorityFields({"priority": int(priority)})

    def recognises(self, evidence: Evidence) -> bool:
        """By ``owned_by`` of its models, or ``kv_transfer_params``, which its whole answers have."""
        return "vllm" in evidence.owners or evidence.names("kv_transfer_params")
