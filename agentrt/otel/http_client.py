"""Spans of HTTP requests that agentrt sends, by the conventions for HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import api, conventions


@contextmanager
def http_client_span(method: str, url: str, host: str, port: int | None) -> Iterator[Callable[[int], None]]:
    """Make a span of the block, which sends a request to ``url`` and passes the result the answer's status.

    The span ends when the answer begins. ``url`` is that of the server: paths and queries of apps' requests
    are not recorded.
    """
    if not api.installed():
        yield lambda _: None
        return
    from opentelemetry.trace import SpanKind

    attributes = {"http.request.method": method, "url.full": url, "server.address": host}
    span = api.tracer().start_span(method, kind=SpanKind.CLIENT, attributes=attributes)
    if port is not None:
        span.set_attribute("server.port", port)

    def note_status(status: int) -> None:
        span.set_attribute("http.response.status_code", status)
        if status >= 400:
            span.set_attribute("error.type", str(status))
            span.set_status(api.failed())

    try:
        with api.current(span):
            yield note_status
    except BaseException as error:
        span.set_attributes(conventions.failure(error))
        span.set_status(api.failed())
        raise
    finally:
        span.end()
