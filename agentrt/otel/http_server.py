"""The span of an HTTP request that a server answers, by the conventions for HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from . import api, conventions

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanKind

_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"))
_ANY: Final = "HTTP"
_at_end: ContextVar[ExitStack | None] = ContextVar("agentrt_server_span", default=None)

Answered = Callable[[int, str | None], None]


def begin(method: str, kind: SpanKind, attributes: Mapping[str, Any]) -> Span:
    """Begin the span of a request with ``attributes``, named by its method.

    A method that HTTP does not have may be any text of a client: the span is ``HTTP``.
    """
    known = method in _METHODS
    return api.tracer().start_span(
        method if known else _ANY,
        kind=kind,
        attributes={"http.request.method": method if known else "_OTHER", **attributes},
    )


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

    span = begin(method, SpanKind.SERVER, {})

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
            span.set_attributes(conventions.failure(error))
            span.set_status(api.failed())
            raise


def at_end() -> ExitStack | None:
    """Return what is done when the span of the request that is being answered ends; None if there is none."""
    return _at_end.get()


def broke_off(error: BaseException) -> None:
    """Note that the answer in progress broke off with ``error`` after its head, which had another status."""
    if not api.installed() or _at_end.get() is None:
        return
    from opentelemetry import trace

    span = trace.get_current_span()
    span.set_attributes(conventions.failure(error))
    span.set_status(api.failed())
