"""The connections to an engine: the head of each answer is read in small pieces, and has a limit."""

from __future__ import annotations

from typing import Any, Final

import httpcore
import httpx

_MAX_HEAD_BYTES: Final = 1 << 15
"""Of an answer, informational ones (1xx) before it included."""
_PIECE_BYTES: Final = 1 << 11


class EngineTransport(httpx.AsyncHTTPTransport):
    """httpx's transport with a limit on heads. It uses no settings of the environment."""

    def __init__(self, keep_alive_s: float) -> None:
        """Prepare connections; an idle one is closed after ``keep_alive_s``."""
        context = httpx.create_ssl_context(trust_env=False)
        super().__init__(verify=context, trust_env=False)
        # The gateway's limit on requests also limits connections.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=None,
            max_keepalive_connections=None,
            keepalive_expiry=keep_alive_s,
            network_backend=_Backend(),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response's head.

        Raises:
            httpx.RemoteProtocolError: it has more than 32 KiB, or is no HTTP.
        """
        response = await super().handle_async_request(request)
        stream = response.extensions["network_stream"]
        if isinstance(stream, _BoundedHeads):  # not that of another protocol
            stream.end_head()
        return response


class _Backend(httpcore.AnyIOBackend):
    async def connect_tcp(self, *arguments: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        return _BoundedHeads(await super().connect_tcp(*arguments, **options))


class _BoundedHeads(httpcore.AsyncNetworkStream):
    """A stream that reads few bytes at a time, and not too many, until the head of an answer is complete.

    httpcore parses all that was read before other tasks run: thousands of headers or informational answers.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._head_bytes: int | None = 0

    def end_head(self) -> None:
        self._head_bytes = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's
        if self._head_bytes is None:
            return await self._stream.read(max_bytes, timeout)
        if self._head_bytes > _MAX_HEAD_BYTES:
            raise httpcore.RemoteProtocolError(
                f"the head of its answer has more than {_MAX_HEAD_BYTES} bytes"
            )
        data = await self._stream.read(min(max_bytes, _PIECE_BYTES), timeout)
        self._head_bytes += len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's
        self._head_bytes = 0
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(self, *arguments: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        return _BoundedHeads(await self._stream.start_tls(*arguments, **options))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
