"""The HTTP client of the engine behind a gateway: targets, headers, repetitions, heads of bounded size."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import httpcore
import httpx
from pydantic_core import to_json

from agentrt.otel.http_spans import HttpClientSpan, broke_off, http_client_span
from agentrt.otel.propagation import trace_header_names, trace_headers

from ..http.errors import ApiError
from .config import GatewayConfig
from .sse import LoopTurns, UnreadableEventError, whole_lines

Header = tuple[bytes, bytes]

_SEPARATORS: Final = re.compile(rb"[/\\;?#\x00]")
"""Where servers end a segment of a path, once it is decoded: some take backslashes and encoded slashes, cut
off parameters (RFC 3986 §3.3), look for the query after decoding, or end texts at a NUL."""
_MAX_ENCODINGS: Final = 4
_IGNORED: Final = bytes(range(0x21)) + b"\x7f"
"""Blanks and control characters, which some servers remove."""
_PAUSES_S: Final = (0.1, 0.4)
"""Before each repetition. A balancer finds another engine in that time; a restarted one takes longer."""
_REFUSALS: Final = (502, 503)
_REPEATABLE: Final = (b"/chat/completions", b"/completions", b"/embeddings")
"""What a POST to such a path changes is nothing, even if the engine had begun."""
_MAX_HEAD_BYTES: Final = 1 << 15
"""Of an answer, informational ones (1xx) before it included."""
_PIECE_BYTES: Final = 1 << 11
_CONNECT_TIMEOUT_S = 10.0
_KEEP_ALIVE_S = 4.0
"""Shorter than the five seconds after which many servers close idle connections, so that a connection that
is being closed is not used again."""
_STATUSES = range(200, 600)
"""Statuses that HTTP has for the head of an answer; the gateway's own server cannot send others."""
_HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
_NOT_FORWARDED: Final = frozenset({b"host", b"content-length", b"expect", b"origin", b"cookie"})
"""The guard has checked Host and Origin, which are those of the gateway. Cookies are those of other servers
on its host: the engine's own reach no client."""
_RETURNED: Final = frozenset(
    b"accept-ranges age allow cache-control content-disposition content-encoding content-language "
    b"content-length content-range content-security-policy content-type etag expires last-modified location "
    b"referrer-policy request-id retry-after retry-after-ms vary x-content-type-options x-frame-options "
    b"x-request-id x-should-retry".split()
)
_RETURNED_PREFIXES: Final = tuple(
    b"anthropic-ratelimit- openai- x-agentrt- x-litellm- x-ratelimit-".split(),
)
"""The dialects of ``speculate`` recognise an engine by some of these."""


def client_headers(response: httpx.Response, *, with_length: bool = True) -> list[Header]:
    """Return the headers of ``response`` that the client gets, with or without the length of its body.

    Any other could decide what is not the engine's to decide: CORS headers which web pages may use the
    gateway, cookies and HSTS what is sent to other servers on its host, X-Accel-Redirect what a proxy before
    it sends.
    """
    returned = _RETURNED if with_length else _RETURNED - {b"content-length"}
    return [
        (name, value)
        for name, value in _end_to_end(response.headers.raw)
        if name in returned or name.startswith(_RETURNED_PREFIXES)
    ]


def _end_to_end(headers: Iterable[Header]) -> list[Header]:
    """Return ``headers`` in lower case, without hop-by-hop headers (RFC 9110 §7.6.1)."""
    lowered = [(name.lower(), value) for name, value in headers]
    dropped = _HOP_BY_HOP.union(
        part.strip().lower() for name, value in lowered if name == b"connection" for part in value.split(b",")
    )
    return [(name, value) for name, value in lowered if name not in dropped]


def engine_target(root: bytes, target: bytes) -> bytes:
    """Return ``target``, a client's path and query, under ``root``; its bytes are not changed.

    Raises:
        ApiError: 400, ``target`` has a fragment; 404, its path may lead outside ``root``.
    """
    if b"#" in target:
        raise ApiError(
            400, "a path and query cannot have a '#'. Leave it out, or encode it as %23.", code="invalid_url"
        )
    path = target.partition(b"?")[0]
    if not path.startswith(b"/") or _leads_up(path):
        raise ApiError(404, "there is no such path at the engine.", code="unknown_url")
    return root + target


def _leads_up(path: bytes) -> bool:
    """Whether a server may read a ``..`` segment in ``path``, however it is written.

    The engine would leave its root, and the request may carry its key. The segment may be encoded several
    times, since proxies in front of an engine decode paths, too, or in more bytes than UTF-8 allows.
    """
    for _ in range(_MAX_ENCODINGS):
        path = unquote_to_bytes(path)
    try:
        path.decode()
    except UnicodeDecodeError:
        return True
    if unquote_to_bytes(path) != path:
        return True
    return any(part.translate(None, _IGNORED) == b".." for part in _SEPARATORS.split(path))


class _Backend(httpcore.AnyIOBackend):
    async def connect_tcp(self, *arguments: Any, **options: Any) -> Any:
        return _BoundedHeads(await super().connect_tcp(*arguments, **options))


class _BoundedHeads:
    """A stream that reads few bytes at a time, and not too many, until the head of an answer is complete.

    httpcore parses all that was read before other tasks run: thousands of headers or informational answers.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self.head_bytes: int | None = 0
        """Of the answer; None once its head is complete."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's
        if self.head_bytes is None:
            return await self._stream.read(max_bytes, timeout)
        if self.head_bytes > _MAX_HEAD_BYTES:
            raise httpcore.RemoteProtocolError(
                f"the head of its answer has more than {_MAX_HEAD_BYTES} bytes"
            )
        data = await self._stream.read(min(max_bytes, _PIECE_BYTES), timeout)
        self.head_bytes += len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's
        self.head_bytes = 0
        await self._stream.write(buffer, timeout)

    async def start_tls(self, *arguments: Any, **options: Any) -> Any:
        return _BoundedHeads(await self._stream.start_tls(*arguments, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Upstream:
    """Forwards requests unchanged: no redirects, no cookies, no settings from environment variables.

    A request whose connection is refused is repeated, twice at most: no engine has received it. After a 502
    or 503, only requests are repeated that change nothing, and not if the answer has a ``Retry-After``: its
    client is told when. Whatever else the engine sends is returned, so that no stream is begun twice.
    """

    def __init__(self, config: GatewayConfig) -> None:
        """Prepare connections to ``config.upstream``; none is opened yet.

        Raises:
            ConfigurationError: ``config.upstream`` is not the address of an HTTP server.
        """
        self._root = config.root()
        self._key = config.upstream_key
        self._forwards_authorization = config.tokens is None
        self._timeout = httpx.Timeout(config.upstream_timeout_s, connect=_CONNECT_TIMEOUT_S).as_dict()
        context = httpx.create_ssl_context(trust_env=False)
        self._transport = httpx.AsyncHTTPTransport(verify=context, trust_env=False)
        # The gateway's limit on requests also limits connections.
        self._transport._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=None,
            max_keepalive_connections=None,
            keepalive_expiry=_KEEP_ALIVE_S,
            network_backend=_Backend(),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def send(
        self, method: str, target: bytes, headers: Iterable[Header], body: bytes
    ) -> httpx.Response:
        """Send a request for ``target``, a path and query. Return the response's head; the caller closes it.

        Raises:
            ApiError: 400 or 404, see :func:`engine_target`; 502, the engine cannot be reached or does not
                speak HTTP; 504, it is too slow.
        """
        # As an extension the target is sent as it is; as a URL it would be normalised or refused.
        under_root = engine_target(self._root.raw_path.rstrip(b"/"), target)
        changes_nothing = method in ("GET", "HEAD") or target.partition(b"?")[0].endswith(_REPEATABLE)
        try:
            with http_client_span(method, str(self._root), self._root.host, self._root.port) as span:
                request = httpx.Request(
                    method,
                    self._root,
                    headers=self._forwarded_headers(headers),
                    content=body,
                    extensions={"timeout": self._timeout, "target": under_root},
                )
                response = await self._exchange(request, changes_nothing)
        except httpx.HTTPError as error:
            raise upstream_error(error) from error
        if span is not None:
            span.answered(response.status_code)
        stream = response.extensions["network_stream"]
        if isinstance(stream, _BoundedHeads):  # not that of another protocol
            stream.head_bytes = None
        response.stream = _EngineStream(response.stream, span)
        if response.status_code not in _STATUSES:
            await response.aclose()
            raise upstream_error(httpx.RemoteProtocolError(f"its status is {response.status_code}"))
        return response

    async def _exchange(self, request: httpx.Request, changes_nothing: bool) -> httpx.Response:
        for pause_s in _PAUSES_S:
            try:
                response = await self._transport.handle_async_request(request)
            except httpx.ConnectError:
                pass
            else:
                refused = response.status_code in _REFUSALS and "retry-after" not in response.headers
                if not (refused and changes_nothing):
                    return response
                await response.aclose()
            await asyncio.sleep(pause_s)
        return await self._transport.handle_async_request(request)

    def _forwarded_headers(self, headers: Iterable[Header]) -> list[Header]:
        """Return the headers of a client's request that the engine gets, without the gateway's own token."""
        dropped = set(_NOT_FORWARDED)
        if self._key is not None or not self._forwards_authorization:
            dropped |= {b"authorization", b"x-api-key"}
        # Without OpenTelemetry, the client's own trace context is forwarded as it is.
        if traced := [(name.encode(), value.encode()) for name, value in trace_headers().items()]:
            dropped |= {name.encode() for name in trace_header_names()}
        kept = [header for header in _end_to_end(headers) if header[0] not in dropped] + traced
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
    status, code = 502, "upstream_unreachable"
    if isinstance(error, UnreadableEventError):
        code = "upstream_unreadable"
        problem = f"sent an event that cannot be read ({error}). Send the request without stream: the answer "
        problem += "is then relayed unchanged."
    elif isinstance(error, httpx.TimeoutException):
        status, code = 504, "upstream_timeout"
        problem = "did not answer in time. Try again, or with fewer tokens."
    else:
        reason = f" ({error})" if str(error) else ""
        problem = f"cannot be reached or broke off{reason}. Try again when it is back."
    return ApiError(status, f"the engine behind this gateway {problem}", kind="server_error", code=code)
