"""Spans of HTTP requests that a server sends to answer one, by the conventions for HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import api, conventions
from .http_server import at_end, begin

if TYPE_CHECKING:
    from opentelemetry.trace import Span


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
        self._span.set_attributes(conventions.failure(error))
        self._span.set_status(api.failed())

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
    ends = at_end()
    if ends is None:
        yield None
        return
    from opentelemetry.trace import SpanKind

    attributes: dict[str, Any] = {"url.full": url, "server.address": host}
    if port is not None:
        attributes["server.port"] = port
    span = begin(method, SpanKind.CLIENT, attributes)
    began = HttpClientSpan(span)
    ends.callback(began.end)
    try:
        with api.current(span):
            yield began
    except BaseException as error:
        began.failed(error)
        began.closed()
        raise
