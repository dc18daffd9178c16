"""The dialect of one endpoint: given or recognised, given up if it is refused; and clients that use it."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from ..otel.propagation import trace_headers
from ..priority import Priority, named_priority
from ..tools.restrictions import offered_tools
from ..tools.scopes import current_scope, expected_tool_seconds
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

    No priority is sent before the first request inside :func:`agentrt.priority`, and nothing to an endpoint
    whose dialect is neither given nor recognised.
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
        self._capabilities: set[Any] | None = None
        self._in_use = False
        self._hints_sent: set[str] = set()
        self._refuses_hints = False
        self._refuses_priorities = False
        self._bodies_left = _BODIES_READ

    def elsewhere(self) -> EndpointDialect:
        """Return the dialect of another endpoint: as it was given here, and nothing that was learned."""
        return EndpointDialect(self._given, scope=self._scope)

    def note(
        self,
        headers: Mapping[str, str],
        read_body: Callable[[], Any] | None = None,
        *,
        lists_models: bool = False,
    ) -> None:
        """Take an answer as evidence. ``read_body`` returns its parsed body; None for a stream.

        ``lists_models`` says that the answer describes the endpoint's models.
        """
        if self.dialect is not None and not lists_models:
            return
        body = None
        if read_body is not None and (self._bodies_left or lists_models):
            self._bodies_left -= not lists_models
            body = read_body()
        lowered = {name.lower(): value for name, value in headers.items()}
        evidence = Evidence(lowered, body if isinstance(body, Mapping) else None)
        self.dialect = self.dialect or recognise(evidence)
        if lists_models and evidence.capabilities is not None:
            self._capabilities = evidence.capabilities

    def fields(self, path: str, body: Mapping[str, Any]) -> PriorityFields:
        """Return what a request by this path carries beside its ``body``; empty for nothing.

        It has the priority in force, and for how long the tools usually run that the request offers.
        """
        named = named_priority()
        self._in_use = self._in_use or named is not None
        dialect = self.dialect
        if dialect is None or not _takes_priority(dialect, path):
            return PriorityFields()
        hints = self._hints(dialect, body)
        marks = dialect.marks_every_request and (self._in_use or self._given is not None)
        if self._refuses_priorities or (named is None and not marks):
            return PriorityFields(hints)
        fields = dialect.fields(named or Priority.REACTIVE, path, self._session())
        return PriorityFields({**hints, **fields.body}, fields.headers)

    def _hints(self, dialect: Dialect, body: Mapping[str, Any]) -> Mapping[str, Any]:
        offered = () if self._refuses_hints else offered_tools(body.get("tools"), body.get("tool_choice"))
        seconds = expected_tool_seconds(offered) if offered else {}
        hints = dialect.hints(seconds, self._capabilities) if seconds else {}
        self._hints_sent.update(hints)
        return hints

    def refused(self, error: Exception, fields: PriorityFields) -> set[str]:
        """Return the fields of the body that an error refuses: a 400 or 422 whose text names them."""
        if getattr(error, "status_code", None) not in _REFUSED:
            return set()
        text = str(error).lower()
        return {name for name in fields.body if name in text}

    def note_refusal(self, refused: set[str]) -> None:
        """Send no more of what was refused: a request was refused with these fields and accepted without."""
        if self.dialect is None:
            return
        if refused & self._hints_sent and not self._refuses_hints:
            self._refuses_hints = True
            logger.warning(
                "the endpoint refuses the times of tools in the dialect %r and is sent none from now on. "
                "Update the server, or give another dialect=.",
                self.dialect.name,
            )
        if refused - self._hints_sent and not self._refuses_priorities:
            self._refuses_priorities = True
            logger.warning(
                "the endpoint refuses priorities in the dialect %r and is sent none from now on. Start it "
                "with priority scheduling, or give another dialect=.",
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

    All resources of a client send their requests by its ``post``. The mixins add the trace and, in the
    endpoint's dialect, the priority and the times of tools. They need nothing of the client's package but the
    class beside them.
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
        given = _body_of(options)
        extra |= {name: _merged(value, given.get(name)) for name, value in fields.body.items()}
        headers = dict(request_options.get("headers") or {})
        set_already = {name.lower() for name in (*self.default_headers, *headers)}
        headers |= {name: value for name, value in fields.headers.items() if name not in set_already}
        if extra:  # a body that is no object takes none
            request_options["extra_json"] = extra
        return {**options, "options": {**request_options, "headers": headers}}

    def _agentrt_note(self, response: Any) -> None:
        whole = response.is_closed  # a stream is still open
        read_body = (lambda: _json(response)) if whole else None
        lists_models = "/models" in response.request.url.path
        self._agentrt_endpoint.note(response.headers, read_body, lists_models=lists_models)


class PrioritizedClient(_Prioritized):
    """Mixin of a sync client."""

    def post(self, path: str, **options: Any) -> Any:
        """Send a request with what the dialect adds; without, if the endpoint refuses that."""
        options = self._agentrt_marked(options, PriorityFields(headers=trace_headers()))
        fields = self._agentrt_endpoint.fields(path, _body_of(options))
        if fields == PriorityFields():
            return super().post(path, **options)
        try:
            return super().post(path, **self._agentrt_marked(options, fields))
        except Exception as error:
            refused = self._agentrt_endpoint.refused(error, fields)
            if not refused:
                raise
        result = super().post(path, **options)
        self._agentrt_endpoint.note_refusal(refused)
        return result

    def _process_response(self, **arguments: Any) -> Any:
        result = super()._process_response(**arguments)
        self._agentrt_note(arguments["response"])
        return result


class PrioritizedAsyncClient(_Prioritized):
    """Mixin of an async client."""

    async def post(self, path: str, **options: Any) -> Any:
        """Send a request with what the dialect adds; without, if the endpoint refuses that."""
        options = self._agentrt_marked(options, PriorityFields(headers=trace_headers()))
        fields = self._agentrt_endpoint.fields(path, _body_of(options))
        if fields == PriorityFields():
            return await super().post(path, **options)
        try:
            return await super().post(path, **self._agentrt_marked(options, fields))
        except Exception as error:
            refused = self._agentrt_endpoint.refused(error, fields)
            if not refused:
                raise
        result = await super().post(path, **options)
        self._agentrt_endpoint.note_refusal(refused)
        return result

    async def _process_response(self, **arguments: Any) -> Any:
        result = await super()._process_response(**arguments)
        self._agentrt_note(arguments["response"])
        return result


def _body_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that the arguments of ``post`` send; empty if it is no object."""
    body = options.get("body")
    extra = (options.get("options") or {}).get("extra_json") or {}
    return {**body, **extra} if isinstance(body, Mapping) else dict(extra)


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
