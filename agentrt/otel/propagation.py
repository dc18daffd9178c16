"""Trace context across processes: ``traceparent`` of requests that come in and go out (W3C Trace Context)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from .api import installed

_SERVED = "agentrt-served"


def trace_headers() -> dict[str, str]:
    """Return the headers that continue the current trace in another process; none outside of a trace."""
    if not installed():
        return {}
    from opentelemetry import propagate

    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


@contextmanager
def served(headers: Mapping[str, str]) -> Iterator[None]:
    """Continue the trace of a request with ``headers`` in the block, which serves it to another process."""
    if not installed():
        yield
        return
    from opentelemetry import context, propagate

    token = context.attach(context.set_value(_SERVED, True, propagate.extract(headers)))
    try:
        yield
    finally:
        context.detach(token)


def is_served() -> bool:
    """Whether this context serves another process; OpenTelemetry must be installed."""
    from opentelemetry import context

    return bool(context.get_value(_SERVED))
