"""Spans of HTTP requests, by the conventions for HTTP: those that a server answers, and sends meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from . import api

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanKind

_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"))
_ANY: Final = "HTTP"
_at_end: ContextVar[ExitStack | None] = ContextVar("agentrt_server_span", default=None)
"""What is done when the span of the request that is being answered ends."""

Answered = Callable[[int, str | None], None]


def _begin(method: str, kind: SpanKind, attributes: Mapping[str, Any]) -> Span:
    """Begin the span of a request with ``attributes``, named by its method.

    A method that HTTP does not have may be any text of a client: the span is ``HTTP``.
    """
    known = method in _METHODS
    return api.tracer().start_span(
        method if known else _ANY,
        kind=kind,
        attributes={"http.request.method": method if known else "_OTHER", **attributes},
    )


def _fail(span: Span, error: BaseException) -> None:
    span.set_attributes(api.failure(error))
    span.set_status(api.failed())


@contextmanager
def http_server_span(method: str) -> Iterator[Answered | None]:
    """Make a span of the block, which answers a request and passes the result the status and the route.

    The route is the template of the path, None if the path has none. Nothing else of the request is recorded:
    its path, query and headers are the client's. None if nothing is recorded.
    """
    if not api.installed():
        yield None
        return
    from opentelemetry.trace import SpanKind

    span = _begin(method, SpanKind.SERVER, {})

    def answered(status: int, route: str | None) -> None:
        span.set_attribute("http.response.status_code", status)
        if route is not None:
            span.set_attribute("http.route", route)
            span.update_name(f"{method if method in _METHODS else _ANY} {route}")
        if status >= 500:
            span.set_attribute("error.type", str(status))
            span.set_status(api.failed())

    with ExitStack() as stack:
        stack.callback(span.end)
        token = _at_end.set(stack)
        stack.callback(_at_end.reset, token)
        try:
            with api.current(span):
                yield answered if span.is_recording() else None
        except BaseException as error:
            _fail(span, error)
            raise


def broke_off(error: BaseException) -> None:
    """Note that the answer in progress broke off with ``error`` after its head, which had another status."""
    if not api.installed() or _at_end.get() is None:
        return
    from opentelemetry import trace

    _fail(trace.get_current_span(), error)


class HttpClientSpan:
    """The span of a request, until the answer's body has been read or given up.

    A failure can be noted as long as the request that it is sent for is not answered: whether a body is whole
    may show after its last byte.
    """

    def __init__(self, span: Span) -> None:
        """``span`` has begun; :func:`http_client_span` sees to its end."""
        self._span = span
        self._ended_ns: int | None = None

    def answered(self, status: int) -> None:
        """Note the answer's status."""
        self._span.set_attribute("http.response.status_code", status)
        if status >= 400:
            self._span.set_attribute("error.type", str(status))
            self._span.set_status(api.failed())

    def failed(self, error: BaseException) -> None:
        """Note that the request or its answer broke off with ``error``."""
        _fail(self._span, error)

    def closed(self) -> None:
        """Note that the answer's body is read no further: that is when the span ends."""
        self._ended_ns = time.time_ns()

    def end(self) -> None:
        """Export the span."""
        self._span.end(self._ended_ns)


@contextmanager
def http_client_span(method: str, url: str, host: str, port: int | None) -> Iterator[HttpClientSpan | None]:
    """Make a span of a request to ``url``, whose head the block sends and whose status it notes.

    ``url`` is that of the server: paths and queries of apps' requests are not recorded. None, and no span, if
    no traced request is being answered.
    """
    ends = _at_end.get()
    if ends is None:
        yield None
        return
    from opentelemetry.trace import SpanKind

    attributes: dict[str, Any] = {"url.full": url, "server.address": host}
    if port is not None:
        attributes["server.port"] = port
    span = _begin(method, SpanKind.CLIENT, attributes)
    began = HttpClientSpan(span)
    ends.callback(began.end)
    try:
        with api.current(span):
            yield began
    except BaseException as error:
        began.failed(error)
        began.closed()
        raise
