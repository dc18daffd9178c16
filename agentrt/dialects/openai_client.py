"""Mixins for OpenAI clients that add each request's priority in the endpoint's dialect, and its trace.

All resources of a client send their requests by its ``post``. The mixins need nothing of the openai package
but the class that they are mixed with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..otel.propagation import trace_headers
from .dialect import PriorityFields
from .endpoint import EndpointDialect

if TYPE_CHECKING:

    class _Base:
        """What both of OpenAI's clients have."""

        default_headers: Mapping[str, str | Any]

        def copy(self, **changes: Any) -> Any: ...
        def post(self, path: str, **options: Any) -> Any: ...
        def _process_response(self, **arguments: Any) -> Any: ...
else:
    _Base = object


class _Prioritized(_Base):
    """What the sync and the async mixin share."""

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
        return {**options, "options": {**request_options, "extra_json": extra, "headers": headers}}

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
