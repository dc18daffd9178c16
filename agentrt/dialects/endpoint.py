"""The dialect of one endpoint: given or recognised, given up if it is refused; and clients that use it."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from ..otel.propagation import trace_headers
from ..priority import Priority, named_priority
from ..tools.scopes import current_scope
from .dialect import (
    MESSAGES,
    MODEL_PATHS,
    AgentRTServer,
    Dialect,
    Evidence,
    PriorityFields,
    find_dialect,
    recognise,
)

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
        self.dialect = self._given
        """The dialect; None if it is not known."""
        self._scope = scope
        self._in_use = False
        self._refused = False
        self._bodies_left = _BODIES_READ

    def elsewhere(self) -> EndpointDialect:
        """Return the dialect of another endpoint: as it was given here, and nothing that was learned."""
        return EndpointDialect(self._given, scope=self._scope)

    def note(self, headers: Mapping[str, str], read_body: Callable[[], Any] | None = None) -> None:
        """Take an answer as evidence. ``read_body`` returns its parsed body; None for a stream."""
        if self.dialect is not None:
            return
        body = None
        if read_body is not None and self._bodies_left:
            self._bodies_left -= 1
            body = read_body()
        lowered = {name.lower(): value for name, value in headers.items()}
        self.dialect = recognise(Evidence(lowered, body if isinstance(body, Mapping) else None))

    def fields(self, path: str) -> PriorityFields:
        """Return what a request by this path carries for the priority in force; empty for nothing."""
        named = named_priority()
        self._in_use = self._in_use or named is not None
        dialect = self.dialect
        if dialect is None or self._refused or not _takes_priority(dialect, path):
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
        if self._refused or self.dialect is None:
            return
        self._refused = True
        logger.warning(
            "the endpoint refuses priorities in the dialect %r and is sent none from now on. Start it with "
            "priority scheduling, or give another dialect=.",
            self.dialect.name,
        )

    def _session(self) -> str | None:
        scope = self._scope()
        if scope is None:
            return None
        return hashlib.blake2b(repr(scope).encode("utf-8", "replace"), key=_KEY, digest_size=16).hexdigest()


def _takes_priority(dialect: Dialect, path: str) -> bool:
    if path.partition("?")[0] == MESSAGES:
        return isinstance(dialect, AgentRTServer)
    return path in MODEL_PATHS


if TYPE_CHECKING:

    class _Base:
        """What OpenAI's and Anthropic's clients have, sync and async."""

        default_headers: Mapping[str, str | Any]

        def copy(self, **changes: Any) -> Any: ...
        def post(self, path: str, **options: Any) -> Any: ...
        def _process_response(self, **arguments: Any) -> Any: ...
else:
    _Base = object


class _Prioritized(_Base):
    """What the sync and the async mixin of OpenAI's and Anthropic's clients share.

    All resources of a client send their requests by its ``post``. The mixins add the priority in the
    endpoint's dialect and the trace, and need nothing of the client's package but the class beside them.
    """

    _agentrt_endpoint: EndpointDialect

    def copy(self, **changes: Any) -> Any:
        """Return a copy of the client with other settings, which shares what is known of the endpoint."""
        copied = super().copy(**changes)
        endpoint = self._agentrt_endpoint
        copied._agentrt_endpoint = endpoint.elsewhere() if changes.get("base_url") else endpoint
        return copied

    def with_options(self, **changes: Any) -> Any:
        """Return :meth:`copy`."""
        return self.copy(**changes)

    def _agentrt_marked(self, options: dict[str, Any], fields: PriorityFields) -> dict[str, Any]:
        """Return the arguments of ``post`` with the fields. What the user has set himself stays."""
        if fields == PriorityFields():
            return options
        request_options = dict(options.get("options") or {})
        extra = dict(request_options.get("extra_json") or {})
        body = options.get("body")
        given = {**body, **extra} if isinstance(body, Mapping) else extra
        extra |= {name: _merged(value, given.get(name)) for name, value in fields.body.items()}
        headers = dict(request_options.get("headers") or {})
        set_already = {name.lower() for name in (*self.default_headers, *headers)}
        headers |= {name: value for name, value in fields.headers.items() if name not in set_already}
        if extra:  # a body that is no object takes none
            request_options["extra_json"] = extra
        return {**options, "options": {**request_options, "headers": headers}}

    def _agentrt_note(self, response: Any) -> None:
        whole = response.is_closed  # a stream is still open
        self._agentrt_endpoint.note(response.headers, (lambda: _json(response)) if whole else None)


class PrioritizedClient(_Prioritized):
    """Mixin of a sync client."""

    def post(self, path: str, **options: Any) -> Any:
        """Send a request with its priority; without, if the endpoint refuses that."""
        options = self._agentrt_marked(options, PriorityFields(headers=trace_headers()))
        fields = self._agentrt_endpoint.fields(path)
        if fields == PriorityFields():
            return super().post(path, **options)
        try:
            return super().post(path, **self._agentrt_marked(options, fields))
        except Exception as error:
            if not self._agentrt_endpoint.is_refusal(error, fields):
                raise
        result = super().post(path, **options)
        self._agentrt_endpoint.note_refusal()
        return result

    def _process_response(self, **arguments: Any) -> Any:
        result = super()._process_response(**arguments)
        self._agentrt_note(arguments["response"])
        return result


class PrioritizedAsyncClient(_Prioritized):
    """Mixin of an async client."""

    async def post(self, path: str, **options: Any) -> Any:
        """Send a request with its priority; without, if the endpoint refuses that."""
        options = self._agentrt_marked(options, PriorityFields(headers=trace_headers()))
        fields = self._agentrt_endpoint.fields(path)
        if fields == PriorityFields():
            return await super().post(path, **options)
        try:
            return await super().post(path, **self._agentrt_marked(options, fields))
        except Exception as error:
            if not self._agentrt_endpoint.is_refusal(error, fields):
                raise
        result = await super().post(path, **options)
        self._agentrt_endpoint.note_refusal()
        return result

    async def _process_response(self, **arguments: Any) -> Any:
        result = await super()._process_response(**arguments)
        self._agentrt_note(arguments["response"])
        return result


def _merged(value: Any, given: Any) -> Any:
    """Return ``given`` if the user has set it, with what ``value`` adds if both are objects."""
    if isinstance(value, Mapping) and isinstance(given, Mapping):
        return {**given, **{name: _merged(item, given.get(name)) for name, item in value.items()}}
    return value if given is None else given


def _json(response: Any) -> Any:
    try:
        return response.json()
    except ValueError:
        return None
