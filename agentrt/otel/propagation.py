"""Trace context across processes: ``traceparent`` of requests that come in and go out (W3C Trace Context)."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .api import installed

if TYPE_CHECKING:
    from opentelemetry.propagators.textmap import TextMapPropagator

_SERVED: Final = "agentrt-served"
_BAGGAGE: Final = "baggage"
_KEY: Final = r"[a-z0-9][a-z0-9_*/@-]{0,255}"
_MEMBER: Final = rf"{_KEY}=[\x21-\x2b\x2d-\x3c\x3e-\x7e]{{1,256}}"
_FORMATS: Final = {
    "traceparent": re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"),
    "tracestate": re.compile(rf"{_MEMBER}(,{_MEMBER}){{0,31}}"),
}
_OTHER: Final = re.compile(r"[0-9A-Za-z:;=._-]+")
"""Values of other propagators, such as b3."""
_MAX_LENGTH: Final = 512

_log: Final = logging.getLogger(__name__)


def trace_headers() -> dict[str, str]:
    """Return the headers that continue the current trace in another process; none outside of a trace."""
    headers: dict[str, str] = {}
    if installed():
        _propagator().inject(headers)
    return headers


def trace_header_names() -> frozenset[str]:
    """Return the names of the headers in which a trace is continued; baggage is not a part of it."""
    return frozenset(_propagator().fields) - {_BAGGAGE} if installed() else frozenset()


@contextmanager
def served(headers: Mapping[str, str]) -> Iterator[None]:
    """Continue the trace of a request with ``headers`` in the block, which serves it to another process.

    Headers that are no trace context are ignored, and so is baggage: OpenTelemetry would write them to the
    log, and they are the client's.
    """
    if not installed():
        yield
        return
    from opentelemetry import context

    given = {name: value for name in trace_header_names() if (value := _valid(name, headers.get(name)))}
    traced = _propagator().extract(given, context.Context())
    token = context.attach(context.set_value(_SERVED, True, traced))
    try:
        yield
    finally:
        context.detach(token)


def is_served() -> bool:
    """Whether this context serves another process; OpenTelemetry must be installed."""
    from opentelemetry import context

    return bool(context.get_value(_SERVED))


def _valid(name: str, value: str | None) -> str | None:
    """Return a header's value; None if it cannot be trace context."""
    if value is None or len(value) > _MAX_LENGTH:
        return None
    value = value.strip(" \t")
    if name == "tracestate":
        value = ",".join(member for each in value.split(",") if (member := each.strip(" \t")))
        keys = [member.partition("=")[0] for member in value.split(",")]
        if len(set(keys)) != len(keys):
            return None
    return value if _FORMATS.get(name, _OTHER).fullmatch(value) else None


def _propagator() -> TextMapPropagator:
    """Return the process's propagator; that of W3C where ``OTEL_PROPAGATORS`` names one that is missing."""
    fallback = _fallback()
    if fallback is not None:
        return fallback
    from opentelemetry import propagate

    return propagate.get_global_textmap()


@functools.cache
def _fallback() -> TextMapPropagator | None:
    """Return what is used in place of the process's propagator, None if that can be loaded."""
    try:
        from opentelemetry import propagate  # noqa: F401
    except Exception as error:  # noqa: BLE001 - of any package; a trace must not end an agent
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        _log.warning(
            "OTEL_PROPAGATORS cannot be used (%s): traces are continued by traceparent. Install what it "
            "names, such as opentelemetry-propagator-b3, or unset it.",
            error,
        )
        return TraceContextTextMapPropagator()
    return None
