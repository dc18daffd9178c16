"""The HTTP client of the engine behind a gateway."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Any

import httpx
from pydantic_core import to_json

from agentrt.otel.http_spans import HttpClientSpan, broke_off, http_client_span
from agentrt.otel.propagation import trace_header_names, trace_headers

from ..http.errors import ApiError
from .config import GatewayConfig
from .engine_connections import EngineTransport
from .headers import Header, forwarded_headers
from .retries import RetryingTransport
from .sse import LoopTurns, UnreadableEventError, whole_lines
from .target import engine_target

_CONNECT_TIMEOUT_S = 10.0
_KEEP_ALIVE_S = 4.0
"""Shorter than the five seconds after which many servers close idle connections, so that a connection that
is being closed is not used again."""
_STATUSES = range(200, 600)
"""Statuses that HTTP has for the head of an answer; the gateway's own server cannot send others."""


class Upstream:
    """Forwards requests unchanged: no redirects, no cookies, no settings from environment variables."""

    def __init__(self, config: GatewayConfig) -> None:
        """Prepare connections to ``config.upstream``; none is opened yet.

        Raises:
            ConfigurationError: ``config.upstream`` is not the address of an HTTP server.
        """
        self._root = config.root()
        self._key = config.upstream_key
        self._forwards_authorization = config.tokens is None
        self._timeout = httpx.Timeout(config.upstream_timeout_s, connect=_CONNECT_TIMEOUT_S).as_dict()
        self._transport = RetryingTransport(EngineTransport(_KEEP_ALIVE_S))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def send(
        self, method: str, target: bytes, headers: Iterable[Header], body: bytes
    ) -> httpx.Response:
        """Send a request for ``target``, a path and query. Return the response's head; the caller closes it.

        Raises:
            ApiError: 400 or 404, see :func:`engine_target`; 502, the engine cannot be reached or does not
                speak HTTP, see :class:`RetryingTransport`; 504, it is too slow.
        """
        # As an extension the target is sent as it is; as a URL it would be normalised or refused.
        under_root = engine_target(self._root.raw_path.rstrip(b"/"), target)
        try:
            with http_client_span(method, str(self._root), self._root.host, self._root.port) as span:
                request = httpx.Request(
                    method,
                    self._root,
                    headers=self._forwarded_headers(headers),
                    content=body,
                    extensions={"timeout": self._timeout, "target": under_root},
                )
                response = await self._transport.handle_async_request(request)
        except httpx.HTTPError as error:
            raise upstream_error(error) from error
        if span is not None:
            span.answered(response.status_code)
        response.stream = _EngineStream(response.stream, span)
        if response.status_code not in _STATUSES:
            await response.aclose()
            raise upstream_error(httpx.RemoteProtocolError(f"its status is {response.status_code}"))
        return response

    def _forwarded_headers(self, headers: Iterable[Header]) -> list[Header]:
        # The gateway's own token must not reach the engine.
        kept = forwarded_headers(headers, authorization=self._key is None and self._forwards_authorization)
        # Without OpenTelemetry, the client's own trace context is forwarded as it is.
        if traced := [(name.encode(), value.encode()) for name, value in trace_headers().items()]:
            own = {name.encode() for name in trace_header_names()}
            kept = [*(header for header in kept if header[0] not in own), *traced]
        return kept if self._key is None else [*kept, (b"authorization", b"Bearer " + self._key.encode())]


def is_event_stream(response: httpx.Response) -> bool:
    """Whether the body of ``response`` is server-sent events."""
    content_type: str = response.headers.get("content-type", "")
    return content_type.startswith("text/event-stream")


def is_encoded(response: httpx.Response) -> bool:
    """Whether the body of ``response`` is compressed, although the gateway may have requested a plain one.

    The gateway never decompresses: few bytes could become gigabytes.
    """
    encoding: str = response.headers.get("content-encoding", "identity")
    return encoding.lower() != "identity"


def is_plain_stream(response: httpx.Response) -> bool:
    """Whether a response is a stream of events that the gateway can read."""
    return response.status_code == 200 and is_event_stream(response) and not is_encoded(response)


async def raw_body(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Yield the body of ``response`` in pieces, still encoded.

    Raises:
        httpx.HTTPError: the engine broke off. In a plain event stream that is also an end within a line.
    """
    pieces = response.aiter_raw()
    if is_event_stream(response) and not is_encoded(response):
        pieces = whole_lines(pieces)
    try:
        async for piece in pieces:
            yield piece
    except httpx.HTTPError as error:
        trace_failure(response, error)
        raise


class _EngineStream(httpx.AsyncByteStream):
    """The body of an answer: other tasks run between its pieces, and its span ends where it is closed."""

    def __init__(self, stream: Any, span: HttpClientSpan | None) -> None:
        self._stream = stream
        self.span = span

    async def __aiter__(self) -> AsyncIterator[bytes]:
        turns = LoopTurns()
        async for piece in self._stream:
            yield piece
            await turns.handled(len(piece))

    async def aclose(self) -> None:
        if self.span is not None:
            self.span.closed()
        await self._stream.aclose()


def trace_failure(response: httpx.Response, error: httpx.HTTPError) -> None:
    """Note in the spans of ``response`` and of the request that it answers that the engine broke off."""
    if isinstance(response.stream, _EngineStream) and response.stream.span is not None:
        response.stream.span.failed(error)
    broke_off(error)


def error_event(response: httpx.Response, error: httpx.HTTPError) -> bytes:
    """Return the last event of a stream that has begun when the engine fails during ``response``."""
    trace_failure(response, error)
    return b"data: " + to_json(upstream_error(error).body()) + b"\n\n"


def upstream_error(error: httpx.HTTPError) -> ApiError:
    """Return the error to send when a request to the engine fails: 504 for a timeout, else 502."""
    if isinstance(error, UnreadableEventError):
        return ApiError(
            502,
            f"the engine behind this gateway sent an event that cannot be read ({error}). Send the request "
            "without stream: the answer is then relayed unchanged.",
            kind="server_error",
            code="upstream_unreadable",
        )
    if isinstance(error, httpx.TimeoutException):
        return ApiError(
            504,
            "the engine behind this gateway did not answer in time. Try again, or with fewer tokens.",
            kind="server_error",
            code="upstream_timeout",
        )
    reason = f" ({error})" if str(error) else ""
    return ApiError(
        502,
        f"the engine behind this gateway cannot be reached or broke off{reason}. Try again when it is back.",
        kind="server_error",
        code="upstream_unreachable",
    )
