"""LiteLLM's proxy: ``priority`` in the body, lower first, for chat completions only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..priority import Priority
from .dialect import CHAT_COMPLETIONS, Evidence, PriorityFields


@dataclass(frozen=True)
class LiteLLM:
    """LiteLLM's proxy, which queues requests that have a priority; it passes others on without its queue."""

    name: ClassVar[str] = "litellm"
    marks_every_request: ClassVar[bool] = False

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return the priority's own value; nothing for responses, which its queue does not take."""
        return PriorityFields({"priority": int(priority)} if path == CHAT_COMPLETIONS else {})

    def recognises(self, evidence: Evidence) -> bool:
        """By the headers ``x-litellm-…`` of its answers."""
        return any(name.startswith("x-litellm-") for name in evidence.headers)
