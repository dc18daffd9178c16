"""The dialect of one endpoint as a client uses it: given or recognised, and given up if it is refused."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from ..priority import Priority, named_priority
from ..tools.scopes import current_scope
from .dialect import MODEL_PATHS, Dialect, Evidence, PriorityFields, find_dialect, recognise

logger = logging.getLogger("agentrt")

_REFUSED = frozenset({400, 422})
_BODIES_READ = 8  # answers whose bodies are read for evidence; headers are looked at in all
_KEY = secrets.token_bytes(16)  # a scope may be a person's name: session ids must not reveal it


class EndpointDialect:
    """What one client knows of its endpoint's dialect; shared by its copies. Thread-safe.

    Nothing is sent before the first request inside :func:`agentrt.priority`, nor to an endpoint whose dialect
    is neither given nor recognised.
    """

    def __init__(
        self,
        dialect: Dialect | str | None = None,
        *,
        scope: Callable[[], Hashable | None] = current_scope,
    ) -> None:
        """``dialect`` None: it is recognised by :meth:`note`. ``scope`` returns the run of a request.

        Raises:
            ConfigurationError: there is no dialect of this name.
        """
        self._given = None if dialect is None else find_dialect(dialect)
        self._dialect = self._given
        self._scope = scope
        self._in_use = False
        self._refused = False
        self._bodies_left = _BODIES_READ

    @property
    def dialect(self) -> Dialect | None:
        """The dialect; None if it is not known."""
        return self._dialect

    def elsewhere(self) -> EndpointDialect:
        """Return the dialect of another endpoint: as it was given here, and nothing that was learned."""
        return EndpointDialect(self._given, scope=self._scope)

    def note(self, headers: Mapping[str, str], read_body: Callable[[], Any] | None = None) -> None:
        """Take an answer as evidence. ``read_body`` returns its parsed body; None for a stream."""
        if self._dialect is not None:
            return
        body = None
        if read_body is not None and self._bodies_left:
            self._bodies_left -= 1
            body = read_body()
        lowered = {name.lower(): value for name, value in headers.items()}
        self._dialect = recognise(Evidence(lowered, body if isinstance(body, Mapping) else None))

    def fields(self, path: str) -> PriorityFields:
        """Return what a request by this path carries for the priority in force; empty for nothing."""
        named = named_priority()
        self._in_use = self._in_use or named is not None
        dialect = self._dialect
        if dialect is None or self._refused or path not in MODEL_PATHS:
            return PriorityFields()
        if named is None and not (dialect.marks_every_request and (self._in_use or self._given is not None)):
            return PriorityFields()
        return dialect.fields(named or Priority.REACTIVE, path, self._session())

    def is_refusal(self, error: Exception, fields: PriorityFields) -> bool:
        """Whether an endpoint's error refuses a field of the body: a 400 or 422 whose text names one."""
        if getattr(error, "status_code", None) not in _REFUSED:
            return False
        text = str(error).lower()
        return any(name in text for name in fields.body)

    def note_refusal(self) -> None:
        """Send no more priorities: a request was refused with one and accepted without it."""
        if self._refused or self._dialect is None:
            return
        self._refused = True
        logger.warning(
            "the endpoint refuses priorities in the dialect %r and is sent none from now on. Start it with "
            "priority scheduling, or give another dialect=.",
            self._dialect.name,
        )

    def _session(self) -> str | None:
        scope = self._scope()
        if scope is None:
            return None
        return hashlib.blake2b(repr(scope).encode("utf-8", "replace"), key=_KEY, digest_size=16).hexdigest()
