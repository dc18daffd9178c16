"""What a dialect is: the fields and headers by which one kind of endpoint takes a request's priority."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ..priority import Priority

CHAT_COMPLETIONS = "/chat/completions"
RESPONSES = "/responses"
MODEL_PATHS = frozenset({CHAT_COMPLETIONS, RESPONSES})
"""The paths, below the base URL, of the requests that have a priority."""


@dataclass(frozen=True, slots=True)
class PriorityFields:
    """What a dialect adds to a request: fields of its JSON body, and headers in lower case."""

    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an endpoint has shown of itself in one answer: the headers, and the body if it is a JSON object.

    The names of ``headers`` are in lower case. ``body`` is None for a stream.
    """

    headers: Mapping[str, str]
    body: Mapping[str, Any] | None = None

    @property
    def owners(self) -> set[Any]:
        """The ``owned_by`` of the models that the body lists."""
        return {model.get("owned_by") for model in self._objects("data")}

    def names(self, field: str) -> bool:
        """Whether the body, or a choice in it, has this field."""
        return field in (self.body or ()) or any(field in choice for choice in self._objects("choices"))

    def _objects(self, name: str) -> list[Mapping[str, Any]]:
        items = (self.body or {}).get(name)
        return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


@runtime_checkable
class Dialect(Protocol):
    """How one kind of endpoint takes a request's priority."""

    @property
    def name(self) -> str:
        """The name for ``dialect=``."""
        ...

    @property
    def marks_every_request(self) -> bool:
        """Whether requests outside :func:`agentrt.priority` are marked as reactive, once one was inside.

        True where the endpoint serves a request without a priority last, or as one of the lowest.
        """
        ...

    def fields(self, priority: Priority, path: str, session: str | None) -> PriorityFields:
        """Return what a request of this priority carries.

        ``path`` is one of :data:`MODEL_PATHS`. ``session`` identifies the run that the request belongs to,
        if that is known, and reveals nothing of it.
        """
        ...

    def recognises(self, evidence: Evidence) -> bool:
        """Whether an answer shows that its endpoint takes this dialect. False if no answer ever does."""
        ...
